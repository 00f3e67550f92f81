"""Finding: what limits the kernels of each phase, by their hardware counters?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell
from kvcliff.findings.counter_captures import ATTRIBUTION
from kvcliff.findings.counter_words import ACTIONS, CAUSE_WORDS, FAMILY_WORDS, VERDICT_WORDS
from kvcliff.findings.marts import mart_columns, query_rows
from kvcliff.units import format_pct

#: Verdicts that answer nothing.
_OPEN = {
    "not covered": "profiled kernels stand for only {coverage} of its GPU time",
    "unknown": "neither compute nor memory throughput was collected",
    "failed": "the profiler could not measure its kernels",
}
_PHASES = ("decode", "mixed", "prefill", "unknown", "other")


@dataclass(frozen=True)
class _Limit:
    """One row of ``counter_limits``."""

    level: str | None
    phase: str
    family: str
    basis: str
    verdict: str
    cause: str | None
    verdict_ratio: float | None
    coverage_ratio: float | None
    dram_busy_ratio: float | None
    dram_use_ratio: float | None
    sm_use_ratio: float | None
    l2_use_ratio: float | None
    occupancy_ratio: float | None
    fabric_use_ratio: float | None
    slice_idle_ratio: float | None
    time_ns: int
    is_off_gpu: bool

    @property
    def where(self) -> str:
        """The condition that shows the row."""
        level = (
            "level is null" if self.level is None else f"level = '{self.level.replace(chr(39), chr(39) * 2)}'"
        )
        return f"{level} and phase = '{self.phase}' and family = '{self.family}'"


#: The highest load of a sweep is where limits show.
_SQL = """
with ranked as (
    select
        limits.*,
        dense_rank() over (order by reuse.load desc nulls last, limits.level) as level_rank
    from counter_limits as limits
    left join l2_reuse as reuse on limits.level is not distinct from reuse.level
)

select
    level, phase, family, basis, verdict, cause, verdict_ratio, coverage_ratio, dram_busy_ratio,
    dram_use_ratio, sm_use_ratio, l2_use_ratio, occupancy_ratio, fabric_use_ratio, slice_idle_ratio,
    time_ns, is_off_gpu
from ranked
where level_rank = 1
order by phase, family <> 'all', time_ns desc, family
"""


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    if not mart_columns(con, "counter_limits"):
        return (
            cannot_tell("Kernel counters: this run was stored without their verdicts.", "kvcliff ingest RUN"),
        )
    rows = query_rows(con, ("counter_limits", "l2_reuse"), _Limit, _SQL)
    # A run without profiled kernels: nobody asked what limits them.
    totals = {row.phase: row for row in rows if row.family == "all"}
    named = [totals[phase] for phase in _PHASES if phase in totals]
    told = [row for row in named if row.verdict not in _OPEN]
    if not named:
        return ()
    if not told:
        return (_open(named[0]),)
    return tuple(_found(row, rows) for row in _worth_telling(told))


def _worth_telling(told: list[_Limit]) -> list[_Limit]:
    """Return the phases to tell: those of serving, else the one with most time."""
    serving = [row for row in told if row.phase in ("decode", "mixed", "prefill")]
    return serving or [max(told, key=lambda row: (row.time_ns, row.phase))]


def _open(row: _Limit) -> Result:
    reason = _OPEN[row.verdict].format(coverage=format_pct(row.coverage_ratio, 0))
    return cannot_tell(f"Limit of {_phase_words(row)}: {reason}.", ATTRIBUTION, _evidence(row))


def _found(row: _Limit, rows: tuple[_Limit, ...]) -> Result:
    clauses = [f"{_capital(_phase_words(row))} {VERDICT_WORDS[row.verdict]}{_numbers(row)}"]
    if row.cause is not None:
        clauses.append(CAUSE_WORDS[row.cause])
    clauses.extend(_family_clauses(row, rows))
    if row.is_off_gpu:
        clauses.append("some of its kernels read host memory or another GPU")
    clauses.append(_basis_words(row))
    return Result(
        "found",
        "info",
        _confidence(row),
        "; ".join(clauses) + ".",
        action=ACTIONS.get(row.verdict),
        evidence=(_evidence(row),),
        reason="verdicts of single kernels, weighted by their time",
    )


def _confidence(row: _Limit) -> float:
    """Return how sure: the trace's times count for more than the profiler's, as does a clear majority."""
    base = 0.85 if row.basis == "trace" else 0.65
    return base if (row.verdict_ratio or 0) >= 2 / 3 else base - 0.15


def _family_clauses(row: _Limit, rows: tuple[_Limit, ...]) -> list[str]:
    """Return what limits attention where that is something else: weights hide it in the sum."""
    others = [
        other
        for other in rows
        if other.phase == row.phase
        and other.family.startswith("attention")
        and other.verdict not in _OPEN
        and other.verdict != row.verdict
    ]
    return [
        f"{FAMILY_WORDS.get(other.family, 'attention')} alone {VERDICT_WORDS[other.verdict]}{_numbers(other)}"
        for other in others[:1]
    ]


def _numbers(row: _Limit) -> str:
    """Return the throughputs behind a verdict, in brackets."""
    dram = row.dram_busy_ratio if row.dram_busy_ratio is not None else row.dram_use_ratio
    shown = (
        ("DRAM", dram),
        ("L2", row.l2_use_ratio),
        ("SM", row.sm_use_ratio),
        (
            "occupancy",
            row.occupancy_ratio if row.verdict in ("small_grid", "low_occupancy", "latency") else None,
        ),
        ("L2 fabric", row.fabric_use_ratio if row.cause == "partition contention" else None),
        (
            "idle slices",
            row.slice_idle_ratio if row.cause in ("partition contention", "uneven slices") else None,
        ),
    )
    words = [f"{name} {format_pct(value, 0)}" for name, value in shown if value is not None]
    return f" ({', '.join(words)})" if words else ""


def _phase_words(row: _Limit) -> str:
    level = "" if row.level is None else f" at level {row.level}"
    if row.phase == "unknown":
        return f"most time of the profiled kernels{level}"
    return f"most time of the {row.phase} kernels{level}"


def _basis_words(row: _Limit) -> str:
    if row.basis == "trace":
        return (
            f"profiled kernels stand for {format_pct(row.coverage_ratio, 0)} of the phase's time in the trace"
        )
    return "times are the profiler's own, so the share of each kernel in serving is not known"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _evidence(row: _Limit) -> Evidence:
    numbers = (
        ("verdict_ratio", row.verdict_ratio),
        ("coverage_ratio", row.coverage_ratio),
        ("dram_busy_ratio", row.dram_busy_ratio),
        ("sm_use_ratio", row.sm_use_ratio),
        ("l2_use_ratio", row.l2_use_ratio),
        ("occupancy_ratio", row.occupancy_ratio),
    )
    return Evidence("counter_limits", row.where, tuple(pair for pair in numbers if pair[1] is not None))


FINDING = Finding(
    name="counter_limits",
    question="What limits the kernels of each phase, by their hardware counters?",
    evaluate=_evaluate,
)
