"""Finding: how much of decode is communication between GPUs, and do ranks wait for each other?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.captures import NSYS_EXPORT, nsys_profile
from kvcliff.findings.marts import mart_columns, query_rows, threshold
from kvcliff.units import format_duration_ns, format_pct

#: Every rank of the engine is a child of this one process.
ALL_RANKS = (
    nsys_profile("node", "-o trace", 'vllm serve "$MODEL" --tensor-parallel-size "$RANKS"')
    + f" && {NSYS_EXPORT}"
)
_SLOW_RANK = (
    "Look at the GPU that arrives last first: its clock and power cap, the CPU cores of its process, "
    "other work on it, an uneven share of the model."
)
_LESS_TALK = (
    "Make the route faster (NVLink, the engine's custom all-reduce) or use fewer ranks; larger batches "
    "spread each operation over more tokens."
)
#: Labels that are certain leave the matching of ranks as the weaker part.
_LABELLED_CONFIDENCE = 0.85
_UNSURE_CONFIDENCE = 0.6
_WHERE = "phase = 'decode'"


@dataclass(frozen=True)
class _Coverage:
    """What of decode the traces show.

    Attributes:
        rank_count: most GPUs of one level that worked on steps.
        decode_ns: time of visible decode kernels.
        hidden_ns: time of decode graphs whose kernels are invisible.
        confident_ratio: share of the decode time whose phase is sure.
    """

    rank_count: int
    decode_ns: int
    hidden_ns: int
    confident_ratio: float | None


@dataclass(frozen=True)
class _Rank:
    level: str | None
    source_id: int
    device_id: int | None
    share_of_phase: float
    gpu_time_ns: int
    matched_count: int
    together_ratio: float | None
    wait_of_phase: float | None
    last_count: int | None
    skew_p50_ns: int | None
    skew_p99_ns: int | None

    def words(self, ranks: tuple["_Rank", ...]) -> str:
        """Return the rank in words, with what tells it from the others."""
        is_file_needed = len({rank.source_id for rank in ranks if rank.level == self.level}) > 1
        file = f" of file {self.source_id}" if is_file_needed else ""
        level = "" if self.level is None else f" at level {self.level}"
        return f"GPU {self.device_id}{file}{level}"


_COVERAGE_SQL = """
with ranks as (
    select level, count(distinct (source_id, device_id)) as rank_count
    from steps
    where device_id is not null
    group by level
),

decode as (
    select
        sum(gpu_time_ns) as decode_ns,
        sum(graph_time_ns) as hidden_ns,
        sum(confident_time_ns) as confident_ns
    from phase_totals
    where phase = 'decode'
)

select
    (select coalesce(max(rank_count), 0) from ranks),
    coalesce(decode_ns, 0),
    coalesce(hidden_ns, 0),
    confident_ns / nullif(decode_ns + hidden_ns, 0)
from decode
"""
_RANK_SQL = """
select
    level, source_id, device_id, share_of_phase, gpu_time_ns, matched_count, together_ratio,
    wait_of_phase, last_count, skew_p50_ns, skew_p99_ns
from communication
where phase = 'decode'
order by share_of_phase desc, level, source_id, device_id
"""


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    if not mart_columns(con, "communication"):
        return (cannot_tell("Communication: this run was stored without it.", "kvcliff ingest RUN"),)
    coverage = query_rows(con, ("steps", "phase_totals"), _Coverage, _COVERAGE_SQL)
    if not coverage or coverage[0].rank_count == 0:
        # Without a trace of kernels nobody asked; what the trace lacks is said elsewhere.
        return ()
    seen = coverage[0]
    ranks = query_rows(con, ("communication",), _Rank, _RANK_SQL)
    if not ranks:
        return (_silent(seen),)
    if seen.rank_count < 2:
        return (
            cannot_tell(
                f"Communication: {_share_words(ranks[0], ranks)}, but one rank alone shows no waits.",
                ALL_RANKS,
                _evidence(ranks),
            ),
        )
    return (_judged(con, seen, ranks),)


def _silent(seen: _Coverage) -> Result:
    """Return the answer when no visible decode kernel communicates."""
    if seen.hidden_ns > 0:
        return cannot_tell(
            "Communication: decode runs inside CUDA graphs that were traced as a whole, kernels unseen.",
            ALL_RANKS,
        )
    if seen.decode_ns == 0:
        return cannot_tell("Communication: no decode kernel was recognised in the GPU trace.", ALL_RANKS)
    return not_found("No kernel of decode communicates between GPUs.", 0.9)


def _judged(con: duckdb.DuckDBPyConnection, seen: _Coverage, ranks: tuple[_Rank, ...]) -> Result:
    least = threshold(con, "communication_together_ratio")
    compared = tuple(
        rank
        for rank in ranks
        if rank.wait_of_phase is not None and (rank.together_ratio is None or rank.together_ratio >= least)
    )
    is_high = ranks[0].share_of_phase >= threshold(con, "communication_high_ratio")
    waiting = max(compared, key=lambda rank: rank.wait_of_phase or 0.0, default=None)
    is_waiting = waiting is not None and (waiting.wait_of_phase or 0.0) >= threshold(
        con, "communication_wait_ratio"
    )
    sure = threshold(con, "phase_confidence_min")
    is_sure = seen.confident_ratio is not None and seen.confident_ratio >= sure
    confidence = _LABELLED_CONFIDENCE if is_sure else _UNSURE_CONFIDENCE
    words = f"{_share_words(ranks[0], ranks)}; {_wait_words(waiting, compared)}"
    if is_high or is_waiting:
        return Result(
            "found",
            "warning",
            confidence,
            f"Communication between GPUs costs decode: {words}.",
            action=_SLOW_RANK if is_waiting else _LESS_TALK,
            evidence=(_evidence(ranks),),
        )
    if waiting is None:
        return cannot_tell(f"Communication: {words}.", ALL_RANKS, _evidence(ranks))
    return not_found(f"Communication is no burden: {words}.", confidence, _evidence(ranks))


def _share_words(rank: _Rank, ranks: tuple[_Rank, ...]) -> str:
    return f"{format_pct(rank.share_of_phase)} of decode's GPU time on {rank.words(ranks)} is communication"


def _wait_words(waiting: _Rank | None, compared: tuple[_Rank, ...]) -> str:
    if waiting is None:
        return "waits between ranks cannot be told, because their operations do not match in time"
    share = format_pct(waiting.wait_of_phase)
    skew = (
        f"{format_duration_ns(waiting.skew_p50_ns)} (p50) and {format_duration_ns(waiting.skew_p99_ns)} (p99)"
    )
    rivals = tuple(rank for rank in compared if rank.level == waiting.level)
    late = max(rivals, key=lambda rank: rank.last_count or 0)
    return (
        f"{waiting.words(compared)} waits longest, {share} of its decode time, with {skew} between the first "
        f"and the last rank of an operation; {late.words(compared)} arrives last most often"
    )


def _evidence(ranks: tuple[_Rank, ...]) -> Evidence:
    waits = [rank.wait_of_phase for rank in ranks if rank.wait_of_phase is not None]
    return Evidence(
        "communication",
        _WHERE,
        (
            ("share_of_phase_max", ranks[0].share_of_phase),
            ("wait_of_phase_max", max(waits, default=None)),
            ("matched_count", sum(rank.matched_count for rank in ranks)),
            ("ranks", len(ranks)),
        ),
    )


FINDING = Finding(
    name="communication",
    question="How much of decode is communication between GPUs, and do ranks wait for each other?",
    evaluate=_evaluate,
)
