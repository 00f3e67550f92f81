"""A comparison as Markdown and as plain JSON data."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from kvcliff.nightly.comparison.causes import signed_pct
from kvcliff.nightly.comparison.model import Comparison, MetricVerdict
from kvcliff.report.escape import code_span, markdown_text
from kvcliff.units import format_bytes, format_count, format_ms, format_number, format_pct

_NOTHING = "–"
_GROUPS = {
    "latency": "Latency",
    "throughput": "Throughput",
    "kv": "KV cache and swap points",
    "cache": "Cache hits",
    "load": "Load",
    "steps": "Steps by class",
    "gpu": "GPU time, phases and families",
    "ledger": "Ledgers",
}
_KINDS = {"where": "Where", "why": "Why", "doubt": "Doubt"}


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as plain data for JSON."""
    return asdict(comparison)


def value_text(value: float | None, unit: str) -> str:
    """Return a value of a metric as text in its unit; ``–`` when it is unknown."""
    if value is None:
        return _NOTHING
    match unit:
        case "ms":
            return format_ms(value)
        case "ratio":
            return format_pct(value)
        case "bytes":
            return format_bytes(value)
        case "count":
            return format_count(value)
        case _:
            return f"{format_number(value, 4)} {unit}"


def change_text(metric: MetricVerdict) -> str:
    """Return the change with its interval, ``+12.5 % (+5 to +20 %)``."""
    if metric.change_ratio is None:
        return _NOTHING
    text = signed_pct(metric.change_ratio)
    if metric.interval_low is None or metric.interval_high is None:
        return text
    return f"{text} ({metric.interval_low * 100:+.0f} to {metric.interval_high * 100:+.0f} %)"


def verdict_text(metric: MetricVerdict) -> str:
    """Return the verdict as a word; a fact that has no better side has none."""
    if metric.better == "neither":
        return _NOTHING
    return metric.verdict


def titled(metric: MetricVerdict) -> str:
    """Return the title with the level of a sweep."""
    return f"{metric.title}, {metric.level}" if metric.level else metric.title


def worth_showing(metrics: Iterable[MetricVerdict]) -> tuple[MetricVerdict, ...]:
    """Return the metrics for a short table: gating ones on both sides, others when better or worse."""
    return tuple(
        metric
        for metric in metrics
        if (metric.is_gating and None not in (metric.base_value, metric.run_value))
        or (metric.better != "neither" and metric.verdict in ("better", "worse"))
    )


def comparison_markdown(comparison: Comparison, figure_name: str | None = None) -> str:
    """Return a comparison as a Markdown report.

    Args:
        comparison: what to tell.
        figure_name: file beside the report that shows the changes, or ``None``.
    """
    base = ", ".join(code_span(run_id) for run_id in comparison.base_run_ids)
    lines = [
        f"# {comparison.verdict.capitalize()}: {code_span(comparison.run_id)} against {base}",
        "",
        f"**{markdown_text(comparison.summary)}**",
        "",
    ]
    if figure_name is not None:
        lines += [f"![Changes with their intervals]({figure_name})", ""]
    lines += _cause_lines(comparison)
    shown = worth_showing(comparison.metrics)
    if shown:
        lines += ["## Verdicts", "", *_verdict_table(shown), ""]
    lines += _side_by_side(comparison.metrics)
    lines += _setting_lines(comparison)
    lines += _method_lines(shown)
    return "\n".join(lines).rstrip() + "\n"


def _cause_lines(comparison: Comparison) -> list[str]:
    if not comparison.causes:
        return []
    lines = [f"- **{_KINDS[cause.kind]}:** {markdown_text(cause.text)}." for cause in comparison.causes]
    return ["## What explains it", "", *lines, ""]


def _row(cells: Sequence[str]) -> str:
    # Blanks inside a number must not break in a narrow column.
    return f"| {' | '.join(cells)} |"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_row(headings), _row(["---"] * len(headings)), *(_row(row) for row in rows)]


def _verdict_table(metrics: Sequence[MetricVerdict]) -> list[str]:
    rows = [
        (
            markdown_text(titled(metric)) + ("" if metric.is_gating else " (not gating)"),
            value_text(metric.base_value, metric.unit),
            value_text(metric.run_value, metric.unit),
            change_text(metric),
            f"**{metric.verdict}**" if metric.verdict == "worse" else metric.verdict,
            markdown_text(metric.reason),
        )
        for metric in metrics
    ]
    return _table(("Metric", "Baseline", "Run", "Change (interval)", "Verdict", "Because"), rows)


def _side_by_side(metrics: Sequence[MetricVerdict]) -> list[str]:
    lines: list[str] = []
    for group, title in _GROUPS.items():
        members = [metric for metric in metrics if metric.group == group]
        if not members:
            continue
        rows = [
            (
                markdown_text(titled(metric)),
                value_text(metric.base_value, metric.unit),
                value_text(metric.run_value, metric.unit),
                change_text(metric),
                verdict_text(metric),
            )
            for metric in members
        ]
        lines += [f"### {title}", "", *_table(("Metric", "Baseline", "Run", "Change", "Verdict"), rows), ""]
    return ["## Side by side", "", *lines] if lines else []


def _setting_lines(comparison: Comparison) -> list[str]:
    if not comparison.differences:
        return ["## Settings", "", "No stated setting differs.", ""]
    rows = [
        (
            code_span(f"{item.scope} {item.name}".strip(), in_table=True),
            code_span(item.base_value or "", in_table=True) or _NOTHING,
            code_span(item.run_value or "", in_table=True) or _NOTHING,
            "yes" if item.is_relevant else "no",
        )
        for item in comparison.differences
    ]
    return ["## Settings", "", *_table(("Setting", "Baseline", "Run", "Can change speed"), rows), ""]


def _method_lines(metrics: Sequence[MetricVerdict]) -> list[str]:
    rows = [
        (markdown_text(titled(metric)), markdown_text(metric.noise)) for metric in metrics if metric.noise
    ]
    if not rows:
        return []
    words = (
        "A metric is better or worse when its change is relevant and its interval leaves zero out. The "
        "interval holds the noise between runs, or the noise inside a run where that is larger (spread of "
        "six interleaved groups of windows). Of several baseline runs the median counts."
    )
    return ["## How it was judged", "", words, "", *_table(("Metric", "Noise between runs"), rows), ""]
