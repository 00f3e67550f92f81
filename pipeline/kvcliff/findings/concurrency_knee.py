"""Finding: up to which load does this hardware and configuration pay?"""

from dataclasses import dataclass
from itertools import groupby

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.marts import mart_columns, read_rows, threshold
from kvcliff.units import format_number, format_pct

#: One result file per level, at loads that double.
SWEEP = (
    "for n in 1 2 4 8 16 32 64 128; do vllm bench serve --base-url http://localhost:8000 "
    '--model "$MODEL" --dataset-name random --random-input-len 1024 --random-output-len 256 '
    "--num-prompts $((n * 20)) --max-concurrency $n --save-result --save-detailed "
    "--result-filename bench_c$n.json; done"
)
_CAUSE_WORDS = {
    "KV at its ceiling with preemptions": "the KV cache is full and requests are preempted",
    "KV at its ceiling while requests wait": "the KV cache is full while requests wait",
    "running at max_num_seqs while requests wait": (
        "the scheduler runs no more requests at once (max_num_seqs) while others wait"
    ),
    "steps at max_num_batched_tokens while requests wait": (
        "the scheduler fills its steps up to their token budget (max_num_batched_tokens) while others wait"
    ),
    "as many requests decode while others wait": (
        "the scheduler lets no more requests run at once while others wait"
    ),
    "as many requests decode while others wait, KV not recorded": (
        "the scheduler lets no more requests run at once while others wait (KV occupancy at these loads "
        "is not known and could be why)"
    ),
    "the client sends late": "the client sends late, so that the engine is not put to the test",
    "L2 hits of SM reads collapse": "the L2 hit rate of SM reads collapses here: KV no longer fits",
    "DRAM is at its limit": "DRAM moves as many bytes as it can: memory bandwidth",
    "steps grow faster than the bytes they read": (
        "steps take longer with more requests, more so than the bytes they read: compute"
    ),
    "steps grow with the bytes they read": (
        "steps take longer with more requests, in step with the bytes they read: memory bandwidth or compute"
    ),
    "steps grow, their bytes are unknown": (
        "steps take longer with more requests: memory bandwidth or compute"
    ),
}
#: What the cause rests on decides how sure the sentence is; a cause that is not shown leaves the knee itself.
_CONFIDENCE = {
    "KV at its ceiling with preemptions": 0.9,
    "running at max_num_seqs while requests wait": 0.9,
    "as many requests decode while others wait, KV not recorded": 0.7,
    "steps grow, their bytes are unknown": 0.6,
    "nothing recorded shows it": 0.5,
}
_USUAL_CONFIDENCE = 0.8
#: Why no knee is claimed, as the mart says it.
_SCATTERED = "throughput scatters too much from level to level"


@dataclass(frozen=True)
class _Rules:
    """Thresholds that the sentence names."""

    knee_elasticity: float
    plateau_ratio: float


@dataclass(frozen=True)
class _Level:
    level: str
    sweep: str | None
    load_kind: str
    cause: str | None
    reason: str | None
    load: float | None
    tokens_per_s: float | None
    kv_used_ratio_max: float | None
    itl_p50_ms: float | None
    running_max: int | None
    elasticity: float | None
    knee_min_load: float | None
    knee_max_load: float | None
    place_no: int | None
    is_knee: bool
    is_saturation: bool
    is_client_late: bool

    @property
    def words(self) -> str:
        """The load with its unit, and the label where it says something else."""
        number = format_number(self.load)
        own = self.level.removeprefix(f"{self.sweep}/")
        return f"{number} requests/s ({own})" if self.load_kind == "request rate" else number


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    if not mart_columns(con, "concurrency_knee"):
        return (
            cannot_tell("Sensible limit: this run was stored without levels of load.", "kvcliff ingest RUN"),
        )
    rows = read_rows(con, "concurrency_knee", _Level, order="place_no nulls last, level")
    if not rows:
        # The run has one load: nobody asked where more load stops paying.
        return ()
    rules = _Rules(threshold(con, "knee_elasticity"), threshold(con, "plateau_ratio"))
    needed = 2 * threshold(con, "knee_side_levels")
    return tuple(
        _judge(tuple(level for level in sweep if level.place_no is not None), needed, rules)
        for _, sweep in groupby(sorted(rows, key=_sweep), _sweep)
    )


def _sweep(level: _Level) -> str:
    return level.sweep or ""


def _judge(levels: tuple[_Level, ...], needed: float, rules: _Rules) -> Result:
    """Return the answer about one sweep, whose levels come in the order of their load."""
    if len(levels) < needed:
        return _too_few(levels)
    knee = next((level for level in levels if level.is_knee), None)
    plateau = next((level for level in levels if level.is_saturation), None)
    if knee is None and plateau is None:
        return _open_end(levels, rules)
    return _found(levels, knee, plateau, rules)


def _too_few(levels: tuple[_Level, ...]) -> Result:
    return cannot_tell(
        f"{_topic(levels)}: {len(levels)} levels of known load are too few for a knee with two on each side.",
        SWEEP,
        _evidence(levels),
    )


def _open_end(levels: tuple[_Level, ...], rules: _Rules) -> Result:
    last = levels[-1]
    if last.elasticity is not None and last.elasticity >= rules.knee_elasticity:
        return not_found(
            f"{_opening(levels, 'no limit')} up to {last.words}: throughput still grows with "
            f"{last.load_kind} ({format_number(last.tokens_per_s)} tokens/s there).",
            _USUAL_CONFIDENCE,
            _evidence(levels),
        )
    if last.reason == _SCATTERED:
        return cannot_tell(
            f"{_topic(levels)}: throughput scatters too much over the {len(levels)} levels to tell where it "
            f"stops growing with {last.load_kind}; hold each level longer.",
            SWEEP,
            _evidence(levels),
        )
    return cannot_tell(
        f"{_topic(levels)}: throughput stops growing with {last.load_kind}, but too few of the {len(levels)} "
        "levels lie on both sides.",
        SWEEP,
        _evidence(levels),
    )


def _found(levels: tuple[_Level, ...], knee: _Level | None, plateau: _Level | None, rules: _Rules) -> Result:
    named = tuple(level for level in levels if level in (knee, plateau))
    unit = " requests at once" if named[0].load_kind == "concurrency" else ""
    sentence = (
        f"{_opening(levels, 'the sensible limit')} on this hardware and configuration is "
        f"{named[0].words}{unit}, because "
    )
    clauses = []
    if knee is not None:
        clauses.append(_knee_clause(levels, knee, rules))
    if plateau is not None and plateau is not knee:
        clauses.append(_plateau_clause(plateau, knee, rules))
    elif plateau is not None:
        clauses.append("throughput is on its plateau from there on")
    else:
        clauses.append(f"no plateau is reached up to {levels[-1].words}")
    if late := [level for level in levels if level.is_client_late]:
        clauses.append(f"the client sends fewer requests than asked for from {late[0].words} on")
    return Result(
        "found",
        "info",
        min(_CONFIDENCE.get(level.reason or "", _USUAL_CONFIDENCE) for level in named),
        sentence + "; ".join(clauses) + ".",
        evidence=(_evidence(levels, *named),),
        reason=_uncertainty(levels, knee, plateau),
    )


def _topic(levels: tuple[_Level, ...]) -> str:
    """Return what is answered, with the name of the sweep where there are several."""
    return f"Sensible limit of {levels[0].sweep}" if levels and levels[0].sweep else "Sensible limit"


def _opening(levels: tuple[_Level, ...], words: str) -> str:
    """Return the beginning of a sentence, with the name of the sweep where there are several."""
    return f"Sweep {levels[0].sweep}: {words}" if levels[0].sweep else f"{words[0].upper()}{words[1:]}"


def _uncertainty(levels: tuple[_Level, ...], knee: _Level | None, plateau: _Level | None) -> str:
    """Return between which loads knee and saturation lie."""
    bounds = []
    if knee is not None:
        unit = " requests/s" if knee.load_kind == "request rate" else ""
        low, high = format_number(knee.knee_min_load), format_number(knee.knee_max_load)
        bounds.append(f"the knee lies between {low} and {high}{unit}")
    if plateau is not None:
        before = levels[levels.index(plateau) - 1]
        bounds.append(f"the saturation between {before.words} and {plateau.words}")
    return f"{', '.join(bounds)}: between levels throughput is not known"


def _knee_clause(levels: tuple[_Level, ...], knee: _Level, rules: _Rules) -> str:
    after = levels[levels.index(knee) + 1]
    grows = (
        f"from there to {after.words} throughput grows less than "
        f"{format_pct(rules.knee_elasticity, 0)} as fast as {knee.load_kind}"
    )
    words = _CAUSE_WORDS.get(knee.reason or "")
    if words is None:
        return f"{grows}, and nothing recorded shows why (needed: {_missing(after)})"
    if after.kv_used_ratio_max is None or knee.cause == "kv":
        return f"{grows}: {words}"
    return f"{grows}: {words} (KV occupancy at most {format_pct(after.kv_used_ratio_max, 0)})"


def _missing(level: _Level) -> str:
    """Return what would have to be recorded at a level to tell what holds it back."""
    if level.itl_p50_ms is None:
        return "a client's token times or scrapes of the engine's latency histograms at each level"
    if level.kv_used_ratio_max is None and level.running_max is None:
        return "the engine's running, waiting and KV gauges at each level"
    return "SM and DRAM counters of the GPU at each level"


def _plateau_clause(plateau: _Level, knee: _Level | None, rules: _Rules) -> str:
    clause = f"{format_pct(rules.plateau_ratio, 0)} of the highest throughput is reached at {plateau.words}"
    words = _CAUSE_WORDS.get(plateau.reason or "")
    if words is None or (knee is not None and knee.reason == plateau.reason):
        return clause
    return f"{clause}, where {words}"


def _evidence(levels: tuple[_Level, ...], *named: _Level) -> Evidence:
    """Return the rows behind an answer, with the loads of those that it names."""
    knees = tuple(("knee_load", level.load) for level in named if level.is_knee)
    plateaus = tuple(("saturation_load", level.load) for level in named if level.is_saturation)
    return Evidence("concurrency_knee", "", (("levels", len(levels)), *knees, *plateaus))


FINDING = Finding(
    name="concurrency_knee",
    question="Up to which load does this hardware and configuration pay?",
    evaluate=_evaluate,
)
