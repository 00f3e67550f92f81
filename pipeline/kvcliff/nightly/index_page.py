"""The index page of the nightly job: what this pass found, and every series with its trends."""

import hashlib
import re
from collections.abc import Iterator, Sequence

from kvcliff.nightly.gate import Check, change_text, value_text
from kvcliff.nightly.sparkline import Point, sparkline
from kvcliff.nightly.summary import summary_line
from kvcliff.nightly.view import NightView, RunLine, SeriesTrend
from kvcliff.report.escape import code_span, markdown_text, plain
from kvcliff.units import format_instant

FIGURES_FOLDER = "figures"
#: Runs of a series that are listed; the trends go further back.
_LISTED_RUNS = 10
#: Metrics that get a column in the list of runs.
_LISTED_METRICS = ("itl_p50", "itl_p99", "ttft_p50", "tokens_per_s", "swap_points")
_WORDS = {"set_aside": "set aside"}
_UNSAFE_IN_FILE = re.compile(r"[^a-z0-9_-]+")


def index_files(view: NightView) -> dict[str, bytes]:
    """Return ``index.md`` and its figures by path; the figures come first, so that no link leads nowhere.

    Args:
        view: what there is to say.
    """
    files: dict[str, bytes] = {}
    for trend in view.trends:
        for check in trend.metrics:
            files[figure_path(trend, check)] = _figure(trend, check).encode()
    files["index.md"] = "\n".join(_page(view)).encode()
    return files


def figure_path(trend: SeriesTrend, check: Check) -> str:
    """Return where the figure of a metric lies; the series stands in it as 8 hex digits."""
    series = hashlib.sha256(trend.series.encode()).hexdigest()[:8]
    level = f"-{check.level}" if check.level is not None else ""
    metric = _UNSAFE_IN_FILE.sub("_", f"{check.metric}{level}".lower())
    return f"{FIGURES_FOLDER}/{series}-{metric}.svg"


def _figure(trend: SeriesTrend, check: Check) -> str:
    values = trend.values(check.metric, check.level)
    is_bad = [line.stored.judgement.verdict == "failed" for line in trend.lines]
    points = [Point(value, bad) for value, bad in zip(values, is_bad, strict=True)]
    last = next((value for value in reversed(values) if value is not None), None)
    return sparkline(points, plain(f"{check.title}: {len(values)} runs, last {value_text(last, check.unit)}"))


def _page(view: NightView) -> Iterator[str]:
    yield "# Nightly"
    yield ""
    yield f"**{markdown_text(summary_line(view))}**"
    yield ""
    if view.told:
        yield from _told(view.told)
    if view.set_aside:
        yield from _list(
            "Set aside",
            "These folders could not be read. They are read again when they change, or with `--retry`.",
            [
                f"{code_span(state.folder)}: {markdown_text(state.reason or '')}"
                + (f" ({markdown_text(state.hint)})" if state.hint else "")
                for state in view.set_aside
            ],
        )
    if view.result.waiting:
        yield from _list(
            "Waiting",
            "These folders are not complete yet.",
            [
                f"{code_span(run.folder)}: {markdown_text(run.wait_reason or '')}"
                for run in view.result.waiting
            ],
        )
    if view.result.report_problems:
        yield from _list(
            "Without report",
            "These runs are stored and judged, but their report could not be written.",
            [
                f"{code_span(run_id)}: {markdown_text(refusal.reason)}"
                for run_id, refusal in view.result.report_problems
            ],
        )
    for trend in view.trends:
        yield from _series(trend)


def _list(title: str, words: str, items: Sequence[str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield words
    yield ""
    yield from (f"- {item}" for item in items)
    yield ""


def _told(lines: Sequence[RunLine]) -> Iterator[str]:
    yield "## This pass"
    yield ""
    yield from _table(
        ("run", "verdict", "why", "cause", "diagnosis"),
        [
            (
                _link(line),
                _word(line),
                markdown_text(line.stored.judgement.summary),
                markdown_text(_more_cause(line)),
                markdown_text(line.diagnosis),
            )
            for line in lines
        ],
    )


def _more_cause(line: RunLine) -> str:
    """Return the cause unless the summary says it already."""
    judgement = line.stored.judgement
    return "" if judgement.cause in judgement.summary else judgement.cause


def _series(trend: SeriesTrend) -> Iterator[str]:
    yield f"## {markdown_text(trend.series)}"
    yield ""
    checks = trend.metrics
    if checks:
        yield from _table(
            ("metric", "trend", "last", "baseline", "change", "outcome"),
            [
                (
                    markdown_text(check.title)
                    + (f" {code_span(check.level, in_table=True)}" if check.level else ""),
                    f"![trend]({figure_path(trend, check)})",
                    value_text(check.run_value, check.unit),
                    value_text(check.base_value, check.unit),
                    change_text(check.change_ratio) if check.change_ratio is not None else "",
                    check.outcome if check.base_value is not None else "",
                )
                for check in checks
            ],
        )
    listed = [
        check for name in _LISTED_METRICS for check in checks if check.metric == name and check.level is None
    ]
    newest = list(enumerate(trend.lines))[-_LISTED_RUNS:]
    columns = [(check, trend.values(check.metric, None)) for check in listed]
    yield from _table(
        ("run", "began", "verdict", *(check.title for check in listed), "why"),
        [
            (
                _link(line),
                format_instant(line.stored.order_ns, decimals=0),
                _word(line),
                *(value_text(values[place], check.unit) for check, values in columns),
                markdown_text(line.stored.judgement.summary),
            )
            for place, line in reversed(newest)
        ],
    )


def _link(line: RunLine) -> str:
    name = code_span(line.name, in_table=True)
    return f"[{name}]({line.report})" if line.report is not None else name


def _word(line: RunLine) -> str:
    verdict = line.stored.judgement.verdict
    word = _WORDS.get(verdict, verdict)
    accepted = ", accepted" if line.stored.accepted_at_ns is not None else ""
    return f"**{word}**{accepted}" if verdict in ("failed", "inconclusive") else f"{word}{accepted}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(headings) + " |"
    yield "|" + "---|" * len(headings)
    for row in rows:
        # Text of inputs is escaped already; a line break would end the row.
        yield "| " + " | ".join(cell.replace("\n", " ") for cell in row) + " |"
    yield ""
