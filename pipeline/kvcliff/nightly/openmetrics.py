"""The state of all series as OpenMetrics text, for the textfile collector of node_exporter."""

import re
from collections.abc import Iterator

from kvcliff.nightly.gate import Check
from kvcliff.nightly.view import NightView, SeriesTrend
from kvcliff.units import NS_PER_S

_UNSAFE_IN_NAME = re.compile(r"[^a-z0-9_]+")
#: Base unit and factor of a check's unit; metrics are in base units.
_UNITS = {"ms": ("seconds", 1e-3), "s": ("seconds", 1.0), "ns": ("seconds", 1e-9), "bytes": ("bytes", 1.0)}
_VERDICTS = ("failed", "inconclusive", "warned", "passed", "learning", "set_aside")

Sample = tuple[str, tuple[tuple[str, str], ...], float]


def openmetrics_text(view: NightView) -> str:
    """Return the exposition; every family is a gauge without times, so the older text format reads it too.

    Args:
        view: what there is to say.
    """
    families: dict[str, tuple[str, list[Sample]]] = {}
    for name, words, sample in _samples(view):
        families.setdefault(name, (words, []))[1].append(sample)
    lines = []
    for name in sorted(families):
        words, samples = families[name]
        lines += [f"# TYPE {name} gauge", f"# HELP {name} {words}"]
        lines += [_line(*sample) for sample in samples]
    return "\n".join([*lines, "# EOF", ""])


def _samples(view: NightView) -> Iterator[tuple[str, str, Sample]]:
    """Yield family, its help and one sample; the order of samples is that of series and metrics."""
    one = "kvcliff_nightly_set_aside_folders"
    yield one, "Run folders that could not be read.", (one, (), float(len(view.set_aside)))
    one = "kvcliff_nightly_waiting_folders"
    yield one, "Run folders that are not complete.", (one, (), float(len(view.result.waiting)))
    for trend in view.trends:
        yield from _series_samples(trend)


def _series_samples(trend: SeriesTrend) -> Iterator[tuple[str, str, Sample]]:
    series = (("series", trend.series),)
    latest = trend.latest
    name = "kvcliff_nightly_verdict"
    for word in _VERDICTS:
        value = 1.0 if latest.stored.judgement.verdict == word else 0.0
        yield (
            name,
            "1 for the verdict of the newest run, 0 for the others.",
            (
                name,
                (*series, ("verdict", word)),
                value,
            ),
        )
    name = "kvcliff_nightly_run_timestamp_seconds"
    when = latest.stored.order_ns / NS_PER_S
    yield name, "When the newest run began, or was read if its clock is no wall clock.", (name, series, when)
    for check in latest.stored.judgement.checks:
        if check.outcome in ("limit", "incomparable") or check.run_value is None:
            continue
        labels = (*series, *((("level", check.level),) if check.level is not None else ()))
        name, item, factor = _metric_name(check)
        inside = (*labels, *((("name", item),) if item else ()))
        yield name, "Value of the newest run.", (name, inside, check.run_value * factor)
        if check.change_ratio is not None:
            name = "kvcliff_nightly_change_ratio"
            inside = (*labels, ("metric", check.metric))
            yield name, "Newest run over its baseline, minus 1.", (name, inside, check.change_ratio)


def _metric_name(check: Check) -> tuple[str, str, float]:
    """Return family, label value and factor of a metric: base units, ``phase:decode`` as phase and decode."""
    unit, factor = _UNITS.get(check.unit, (check.unit, 1.0))
    head, _, item = check.metric.partition(":")
    stem = _UNSAFE_IN_NAME.sub("_", head.lower()).strip("_")
    suffix = _UNSAFE_IN_NAME.sub("_", unit.lower().replace("/", "_per_")).strip("_")
    is_bare = suffix in ("", "count", "requests") or stem == suffix or stem.endswith(f"_{suffix}")
    name = stem if is_bare or suffix == "tokens_per_s" else f"{stem}_{suffix}"
    return f"kvcliff_nightly_{name}", item, factor


def _line(name: str, labels: tuple[tuple[str, str], ...], value: float) -> str:
    inside = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"


def _escape(text: str) -> str:
    """Return a label value with what the format escapes; control characters would end the line early."""
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return clean.replace("\\", "\\\\").replace('"', '\\"')
