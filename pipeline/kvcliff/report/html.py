"""A report as one HTML file: no scripts, images inside, for light and dark screens of any width."""

from base64 import b64encode
from collections.abc import Mapping
from html import escape

from kvcliff.findings.run_time import RunTime
from kvcliff.report.document import (
    Answers,
    Block,
    Commands,
    FigureText,
    Gap,
    Gaps,
    Paragraph,
    ReportContent,
    Section,
    Steps,
    Table,
    Verdict,
)
from kvcliff.report.escape import MAX_COMMAND, MAX_SENTENCE, plain
from kvcliff.report.html_style import STYLE
from kvcliff.report.values import EMPTY, TEXT_KINDS, Cell, counted, table_cells
from kvcliff.units import format_pct

#: Nothing is loaded from anywhere, and nothing in the text of a run could run.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


#: Characters from which a column keeps a readable width on a narrow screen.
_LONG = 30


def report_html(content: ReportContent, images: Mapping[str, bytes]) -> str:
    """Return the report as one HTML document.

    Args:
        content: what it says.
        images: SVG of each figure by its path below the report's folder.
    """
    figures = "".join(_figure(figure, images) for figure in content.opening_figures)
    sections = "".join(_section(section, content, images) for section in content.sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>KV-cache report: {_text(content.run.name)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{_head(content)}{_contents(content.sections)}{figures}{sections}</main>\n"
        "</body>\n</html>\n"
    )


def _text(text: str, max_chars: int = MAX_SENTENCE) -> str:
    """Return text as HTML that shows it and does nothing else; ``name`` becomes code elsewhere."""
    return escape(plain(text, max_chars=max_chars), quote=True)


def _code(text: str, max_chars: int = MAX_SENTENCE) -> str:
    # Forms and browsers may turn names into links or translate them; code they leave alone.
    return f'<code translate="no">{_text(text, max_chars)}</code>'


def _head(content: ReportContent) -> str:
    notices = "".join(f"<p>{_text(notice)}</p>\n" for notice in content.notices)
    return (
        f"<header>\n<h1>KV-cache report: {_code(content.run.name or 'unnamed run')}</h1>\n"
        f'<p class="quiet">{_text(content.headline)}</p>\n'
        + (f'<div class="notice">\n{notices}</div>\n' if notices else "")
        + _verdict(content.verdict)
        + "</header>\n"
    )


def _verdict(verdict: Verdict) -> str:
    sure = (
        f"Confidence {format_pct(verdict.confidence, 0)}" if verdict.confidence is not None else "Cannot tell"
    )
    reason = f": {_text(verdict.reason)}" if verdict.reason else ""
    lines = [
        f'<p class="sentence">{_text(verdict.sentence)}</p>',
        f"<p>{sure}{reason} (finding {_code(verdict.finding or 'none')}).</p>",
    ]
    if verdict.action is not None:
        lines.append(f"<p><strong>First thing to do:</strong> {_text(verdict.action)}</p>")
    if verdict.capture is not None:
        lines.append(f"<p><strong>Capture first:</strong></p>\n{_command(verdict.capture)}")
    body = "\n".join(lines)
    return f'<div class="verdict {_state(verdict)}" id="verdict">\n{body}\n</div>\n'


def _state(verdict: Verdict) -> str:
    """Return the class that colours the verdict's edge; the words say the same without colour."""
    if verdict.verdict == "cannot_tell":
        return "unknown"
    return (
        verdict.severity
        if verdict.verdict == "found" and verdict.severity in ("critical", "warning")
        else "calm"
    )


def _contents(sections: tuple[Section, ...]) -> str:
    links = "".join(
        f'<li><a href="#{_anchor(section)}">{_text(section.title)}</a></li>\n' for section in sections
    )
    return f'<nav aria-label="Sections">\n<ul>\n{links}</ul>\n</nav>\n' if links else ""


def _anchor(section: Section) -> str:
    return _text(section.key.replace("_", "-"))


def _figure(figure: FigureText, images: Mapping[str, bytes]) -> str:
    data = b64encode(images[figure.svg]).decode("ascii")
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{_text(figure.title)}">'
    caption = f"<figcaption>{_text(figure.caption)}</figcaption>\n" if figure.caption else ""
    return (
        f'<figure id="figure-{_text(figure.name.replace("_", "-"))}">\n'
        f'<div class="wide">{image}</div>\n{caption}</figure>\n'
    )


def _section(section: Section, content: ReportContent, images: Mapping[str, bytes]) -> str:
    anchor = _anchor(section)
    figures = "".join(_figure(figure, images) for figure in content.figures_of(section))
    blocks = "".join(_block(block, content.run_time) for block in section.blocks)
    heading = f'<h2><a href="#{anchor}">{_text(section.title)}</a></h2>'
    return f'<section id="{anchor}">\n{heading}\n{figures}{blocks}</section>\n'


def _block(block: Block, run_time: RunTime) -> str:
    match block:
        case Table():
            return _table(block, run_time)
        case Paragraph():
            return f"<p>{_text(block.text)}</p>\n"
        case Steps():
            items = "".join(f"<li>{_text(item)}</li>\n" for item in block.items)
            return f"<ol>\n{items}</ol>\n"
        case Answers():
            return _answers(block)
        case Gaps():
            items = "".join(_gap(gap) for gap in block.items)
            return f"<ul>\n{items}</ul>\n"
        case Commands():
            return _command("\n".join(plain(line, max_chars=MAX_COMMAND) for line in block.lines))


def _command(text: str) -> str:
    lines = "\n".join(_text(line, MAX_COMMAND) for line in text.split("\n"))
    return f'<pre translate="no"><code>{lines}</code></pre>\n'


def _gap(gap: Gap) -> str:
    capture = f" Capture:\n{_command(gap.capture)}" if gap.capture is not None else ""
    return f"<li>{_text(gap.text)}{capture}</li>\n"


def _answers(answers: Answers) -> str:
    lines = []
    asked = set()
    for answer in answers.items:
        is_new = bool(answer.question) and answer.question not in asked
        asked.add(answer.question)
        question = f"<em>{_text(answer.question)}</em> " if is_new else ""
        is_alarm = answer.verdict == "found" and answer.severity != "info"
        severity = f", {_text(answer.severity)}" if is_alarm else ""
        sure = f"confidence {format_pct(answer.confidence, 0)}"
        lines.append(f"<li>{question}{_text(answer.text)} ({_code(answer.finding)}{severity}, {sure})</li>\n")
    return f"<ul>\n{''.join(lines)}</ul>\n"


def _table(table: Table, run_time: RunTime) -> str:
    columns, rows = table_cells(table, run_time)
    sides = ["" if column.kind in TEXT_KINDS else ' class="number"' for column in columns]
    widths = [
        ' class="long"' if any(len(row[index].text) > _LONG for row in rows) and not side else side
        for index, side in enumerate(sides)
    ]
    head = "".join(
        f'<th scope="col"{side}>{_text(column.title)}</th>'
        for column, side in zip(columns, sides, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{side}>{_cell(cell)}</td>" for cell, side in zip(row, widths, strict=True))
        + "</tr>\n"
        for row in rows
    )
    more = ""
    if table.more_count:
        words = counted(table.more_count, f"more {table.more_words}")
        more = f"<p>{_text(words)} in mart {_code(table.mart)}.</p>\n"
    return (
        '<div class="wide" tabindex="0">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n{more}"
    )


def _cell(cell: Cell) -> str:
    if cell.style == "name":
        return _code(cell.text, 200) if cell.text.strip() else EMPTY
    return _text(cell.text)
