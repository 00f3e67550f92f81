"""Finding: token latency jumped for a reason other than KV."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, Severity, cannot_tell, not_found
from kvcliff.findings.captures import CLIENT, LOG
from kvcliff.findings.levels import read_levels
from kvcliff.findings.marts import has_rows, query_rows, threshold
from kvcliff.findings.quiet_changes import context_growth, profiler_stops
from kvcliff.findings.run_time import read_run_time
from kvcliff.units import NS_PER_S, format_count, format_ms, format_pct

#: Cause -> what it is in words, what to do first.
_CAUSES: dict[str, tuple[str, str]] = {
    "prefill": (
        "a prefill joined the batch",
        "Chunk prefills smaller (max_num_batched_tokens) or separate prefill from decode.",
    ),
    "cpu": (
        "the host CPU was the limit",
        "Look for other work on the host and pin the engine's processes; KV settings will not help.",
    ),
    "gpu_clock": (
        "the GPU ran at a lower clock",
        "Look for power or heat limits (nvidia-smi -q -d PERFORMANCE); KV settings will not help.",
    ),
    "client": (
        "the client fell behind, not the server",
        "Repeat with more client processes or another host before judging the server.",
    ),
    "jit": (
        "kernels were compiled at that moment",
        "Warm the engine up with the shapes of the load before measuring.",
    ),
    "profiler": ("a profiler started or stopped", "Leave this window out of the measurement."),
    "concurrency": (
        "more requests ran at once",
        "Compare at equal concurrency; cap the batch if the latency target needs it.",
    ),
    "context_growth": (
        "contexts grew longer",
        "Cut the bytes of a decode step: shorter context, KV quantisation, a GQA/MQA model.",
    ),
    "graph_capture": (
        "the batch left the captured CUDA graph sizes",
        "Capture graphs up to the batch size that the load reaches.",
    ),
    "communication": (
        "ranks waited for each other",
        "Look at the GPU that arrives last: clock, power cap, CPU cores of its process, other work on it.",
    ),
    "max_sequences": (
        "as many requests ran as the limit allows",
        "Raise max_num_seqs while KV has room, or add a replica.",
    ),
    "token_budget": (
        "prefill filled the token budget of every step",
        "Raise max_num_batched_tokens, or add a replica: prefill is the limit, not KV.",
    ),
    "head_of_line": (
        "the first request in line held back the others, with slots and KV free",
        "Look at the longest prompts: one may need more blocks at once than are free; send them elsewhere.",
    ),
    "unknown": ("the cause is unknown", "Capture a trace of this moment to name the cause."),
}


#: Causes that a load test brings by itself; they are told, but they are no alarm.
_EXPECTED = ("concurrency", "context_growth", "jit", "profiler")


@dataclass(frozen=True)
class _JumpGroup:
    cause: str
    jump_count: int
    metric: str | None
    before_ms: float | None
    after_ms: float | None
    kv_used_ratio: float | None
    level: str | None
    at_ns: int
    error_ns: int | None
    evidence: str | None
    median_count: int
    longest_ns: int | None


_SQL = """
with ranked as (
    select
        *,
        count(*) over (partition by cause) as jump_count,
        count(*) filter (where starts_with(metric, 'itl_p50')) over (partition by cause) as median_count,
        max(end_ns - at_ns) over (partition by cause) as longest_ns,
        row_number() over (
            partition by cause
            order by size_mads desc nulls last, after_ms desc nulls last, at_ns, level, replica_id, metric
        ) as rank
    from latency_jumps
    where cause <> 'kv'
)

select
    cause, jump_count, metric, before_ms, after_ms, kv_used_ratio, level, at_ns, error_ns, evidence,
    median_count, longest_ns
from ranked
where rank = 1
order by cause = 'unknown', jump_count desc, cause
"""


@dataclass(frozen=True)
class _LevelJump:
    level: str
    below: str
    before_ms: float
    after_ms: float
    kv_used_ratio: float


#: The largest rise of the slow tokens from one level to the next that load and KV do not explain.
_LEVELS_SQL = """
with neighbours as (
    select
        level, place_no, load, itl_p99_ms, kv_used_ratio_max,
        lag(level) over (partition by sweep order by place_no) as below,
        lag(load) over (partition by sweep order by place_no) as load_below,
        lag(itl_p99_ms) over (partition by sweep order by place_no) as itl_p99_below_ms
    from concurrency_knee
    where place_no is not null
)

select level, below, itl_p99_below_ms, itl_p99_ms, kv_used_ratio_max
from neighbours
where
    itl_p99_ms >= ? * itl_p99_below_ms * load / load_below
    and kv_used_ratio_max < ?
    and level not in (select distinct level from latency_jumps where level is not null)
order by itl_p99_ms / itl_p99_below_ms * load_below / load desc, place_no, level
limit 1
"""


def cause_words(cause: str) -> str:
    """Return a cause of ``latency_jumps`` in words."""
    return "KV pressure" if cause == "kv" else _CAUSES.get(cause, (cause, ""))[0]


def cause_action(cause: str) -> str | None:
    """Return what to do first about a cause of ``latency_jumps``, or ``None`` for KV and unheard-of ones."""
    return _CAUSES[cause][1] if cause in _CAUSES else None


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    between = (*_between_levels(con), *profiler_stops(con))
    groups = query_rows(con, ("latency_jumps",), _JumpGroup, _SQL)
    if groups:
        run_time = read_run_time(con)
        starts = {level.name: level.started_at_ns for level in read_levels(con)}
        lasting_ns = threshold(con, "jump_lasting_s") * NS_PER_S
        found = (
            _found(
                group,
                run_time.at(group.at_ns, group.error_ns, starts.get(group.level or "")),
                _severity(group, lasting_ns),
            )
            for group in groups
        )
        return (*found, *between)
    if between:
        return between
    if has_rows(con, "token_latency"):
        return (
            not_found(
                f"Token latency did not jump other than at KV pressure{context_growth(con)}.",
                0.8,
                Evidence("latency_jumps", "cause <> 'kv'", (("rows", 0),)),
            ),
        )
    return (cannot_tell("Other latency jumps: no token latency over time was recorded.", CLIENT),)


def _between_levels(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    """Return the rise between two levels that is not KV; its cause the totals of a level cannot prove."""
    limits = (threshold(con, "level_jump_factor"), threshold(con, "kv_high_ratio"))
    rows = query_rows(con, ("concurrency_knee", "latency_jumps"), _LevelJump, _LEVELS_SQL, limits)
    return tuple(
        Result(
            "found",
            "info",
            0.6,
            f"ITL p99 rose from {format_ms(row.before_ms)} to {format_ms(row.after_ms)} between levels "
            f"{row.below} and {row.level}, with KV occupancy at most {format_pct(row.kv_used_ratio, 0)}: "
            "not KV; what it is cannot be proved further from these files.",
            capture=LOG,
            evidence=(
                Evidence(
                    "concurrency_knee",
                    f"level in ('{_quoted(row.below)}', '{_quoted(row.level)}')",
                    (
                        ("itl_p99_ms before", row.before_ms),
                        ("itl_p99_ms after", row.after_ms),
                        ("kv_used_ratio_max", row.kv_used_ratio),
                    ),
                ),
            ),
            reason="the levels' totals; neither token times nor steps tell when or why within a level",
        )
        for row in rows
    )


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _severity(group: _JumpGroup, lasting_ns: float) -> Severity:
    """Return how much the jumps matter; one short jump, or slow tokens of unknown cause, are no alarm."""
    if group.cause in _EXPECTED:
        return "info"
    count = group.median_count if group.cause == "unknown" else group.jump_count
    is_lasting = (group.longest_ns or 0) >= lasting_ns
    is_alarm = count > 1 or (count == 1 and is_lasting)
    return "warning" if is_alarm else "info"


def _found(group: _JumpGroup, when: str, severity: Severity) -> Result:
    words, action = _CAUSES.get(group.cause, (group.cause, _CAUSES["unknown"][1]))
    level = f", level {group.level}" if group.level is not None else ""
    kv = (
        f" with KV occupancy at {format_pct(group.kv_used_ratio, 0)}"
        if group.kv_used_ratio is not None
        else ""
    )
    more = (
        f" ({format_count(group.jump_count)} such jumps, the largest named)" if group.jump_count > 1 else ""
    )
    return Result(
        "found",
        severity,
        0.4 if group.cause == "unknown" else 0.7,
        f"{metric_words(group.metric)} jumped from {format_ms(group.before_ms)} "
        f"to {format_ms(group.after_ms)} at {when}"
        f"{level}{kv}: {words}{more}.",
        action=action if severity != "info" else None,
        reason=group.evidence,
        evidence=(
            Evidence(
                "latency_jumps",
                f"cause = '{group.cause}'",
                (
                    ("jumps", group.jump_count),
                    ("at_ns", group.at_ns),
                    ("before_ms", group.before_ms),
                    ("after_ms", group.after_ms),
                ),
            ),
        ),
    )


def metric_words(metric: str | None) -> str:
    """Return ``ITL p99`` for ``itl_p99_ms``."""
    if not metric:
        return "Token latency"
    words = metric.removesuffix("_ms").replace("_", " ")
    return " ".join(word.upper() if word in ("itl", "ttft", "tpot") else word for word in words.split())


FINDING = Finding(
    name="other_jump",
    question="Did token latency jump for a reason other than KV?",
    evaluate=_evaluate,
)
