"""A report as Markdown that reads well raw, on forges and pasted into a wiki."""

from kvcliff.findings.run_time import RunTime
from kvcliff.report.document import (
    Answers,
    Block,
    Commands,
    FigureText,
    Gaps,
    Paragraph,
    ReportContent,
    Section,
    Steps,
    Table,
    Verdict,
)
from kvcliff.report.escape import MAX_COMMAND, code_span, markdown_text, plain
from kvcliff.report.values import TEXT_KINDS, counted, markdown_cell, table_cells
from kvcliff.units import format_pct

#: Width up to which the cells of a column are padded.
_MAX_WIDTH = 72


def report_markdown(content: ReportContent) -> str:
    """Return the report as Markdown text with a final newline; its figures lie beside it."""
    parts = [f"# {_heading(content)}", markdown_text(content.headline)]
    parts.extend([*_notices(content.notices), *_verdict(content.verdict)])
    parts.extend(_figure(figure) for figure in content.opening_figures)
    for section in content.sections:
        parts.append(_section(section, content))
    return "\n\n".join(parts) + "\n"


def _heading(content: ReportContent) -> str:
    return f"KV-cache report: {code_span(content.run.name) or 'unnamed run'}"


def _notices(notices: tuple[str, ...]) -> list[str]:
    return ["\n".join(f"> {markdown_text(notice)}  " for notice in notices).rstrip()] if notices else []


def _verdict(verdict: Verdict) -> list[str]:
    confidence = (
        f"Confidence {format_pct(verdict.confidence, 0)}" if verdict.confidence is not None else "Cannot tell"
    )
    reason = f": {markdown_text(verdict.reason)}" if verdict.reason else ""
    lines = [
        f"**{markdown_text(verdict.sentence)}**",
        f"{confidence}{reason} (finding {code_span(verdict.finding or 'none')}).",
    ]
    if verdict.action is not None:
        lines.append(f"**First thing to do:** {markdown_text(verdict.action)}")
    if verdict.capture is not None:
        lines.append(f"**Capture first:** {code_span(verdict.capture, max_chars=MAX_COMMAND)}")
    return lines


def _figure(figure: FigureText) -> str:
    caption = f"{markdown_text(figure.caption)} [PNG]({figure.png})".lstrip()
    return f"![{markdown_text(figure.title)}]({figure.svg})\n\n{caption}"


def _section(section: Section, content: ReportContent) -> str:
    figures = [_figure(figure) for figure in content.figures_of(section)]
    blocks = [_block(block, content.run_time) for block in section.blocks]
    return "\n\n".join([f"## {markdown_text(section.title)}", *figures, *blocks])


def _block(block: Block, run_time: RunTime) -> str:
    match block:
        case Table():
            return _table(block, run_time)
        case Paragraph():
            return markdown_text(block.text)
        case Steps():
            return "\n".join(
                f"{number}. {markdown_text(item)}" for number, item in enumerate(block.items, start=1)
            )
        case Answers():
            return "\n".join(_answer_lines(block))
        case Gaps():
            return "\n".join(_gap_lines(block))
        case Commands():
            body = "\n".join(plain(line, max_chars=MAX_COMMAND) for line in block.lines)
            return f"```sh\n{body}\n```"


def _answer_lines(answers: Answers) -> list[str]:
    """Return ``- *question* sentence (finding, severity, confidence 95 %)``; a question is asked once."""
    lines = []
    asked = set()
    for answer in answers.items:
        is_new = bool(answer.question) and answer.question not in asked
        asked.add(answer.question)
        question = f"*{markdown_text(answer.question)}* " if is_new else ""
        is_alarm = answer.verdict == "found" and answer.severity != "info"
        severity = f", {answer.severity}" if is_alarm else ""
        sure = f"confidence {format_pct(answer.confidence, 0)}"
        lines.append(
            f"- {question}{markdown_text(answer.text)} ({code_span(answer.finding)}{severity}, {sure})"
        )
    return lines


def _gap_lines(gaps: Gaps) -> list[str]:
    lines = []
    for gap in gaps.items:
        lines.append(f"- {markdown_text(gap.text)}")
        if gap.capture is not None:
            lines.append(f"  Capture: {code_span(gap.capture, max_chars=MAX_COMMAND)}")
    return lines


def _table(table: Table, run_time: RunTime) -> str:
    columns, cells = table_cells(table, run_time)
    titles = [markdown_text(column.title) for column in columns]
    rows = [[markdown_cell(cell) for cell in row] for row in cells]
    is_left = [column.kind in TEXT_KINDS for column in columns]
    # A long remark in one cell must not push the columns of all others out of sight.
    widths = [
        max(3, len(title), min(_MAX_WIDTH, max(len(row[index]) for row in rows)))
        for index, title in enumerate(titles)
    ]
    rule = [
        "-" * width if left else "-" * (width - 1) + ":" for width, left in zip(widths, is_left, strict=True)
    ]
    lines = [_line(_padded(titles, widths, is_left)), _line(rule)]
    lines.extend(_line(_padded(row, widths, is_left)) for row in rows)
    if table.more_count:
        lines.extend(
            ["", f"{counted(table.more_count, f'more {table.more_words}')} in mart {code_span(table.mart)}."]
        )
    return "\n".join(lines)


def _padded(cells: list[str], widths: list[int], is_left: list[bool]) -> list[str]:
    return [
        cell.ljust(width) if left else cell.rjust(width)
        for cell, width, left in zip(cells, widths, is_left, strict=True)
    ]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
