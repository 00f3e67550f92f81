"""Canonical names of the totals that load clients print."""

from typing import Final

#: Statistics of a latency as clients spell them, and the canonical spelling.
_STATISTICS: Final = {
    "mean": "mean",
    "avg": "mean",
    "average": "mean",
    "median": "median",
    "p50": "median",
    "std": "std",
    "std_dev": "std",
    "stddev": "std",
    "min": "min",
    "minimum": "min",
    "max": "max",
    "maximum": "max",
}
LATENCY_STATISTICS: Final = (
    *_STATISTICS,
    "p0.1",
    "p1",
    "p5",
    "p10",
    "p25",
    "p75",
    "p90",
    "p95",
    "p99",
    "p99.9",
    "p999",
)


def latency_total(statistic: str, short: str) -> str:
    """Return the canonical name of a latency's statistic in milliseconds (``p99_itl_ms``).

    Args:
        statistic: the client's spelling; one of :data:`LATENCY_STATISTICS`.
        short: what is measured (``ttft``, ``itl``, ``tpot``, ``e2el`` ...).
    """
    spelled = "p99.9" if statistic == "p999" else _STATISTICS.get(statistic, statistic)
    return f"{spelled}_{short}_ms"
