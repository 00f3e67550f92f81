"""Trials of the comparison: recorded repeats drawn anew in blocks and slowed down by a known factor."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from accuracy.recordings import ROOT
from kvcliff.findings.diagnosis import run_findings
from kvcliff.nightly.comparison.compare import Comparison, compare_runs
from kvcliff.store.database import open_store
from kvcliff.store.ingest import stage_run, store_run
from kvcliff.store.plan import plan_run

SEED = 20261130
#: Requests or time buckets that are drawn together: about as long as a request of the steady load.
BLOCK = 4
#: Standard deviation of a drawn run effect: what the median inter-token latency of the group's recorded
#: repeats differs by. Pairs of different recordings need none: they bring their own.
EFFECT_SD = {"steady": 0.0125, "kv_stress": 0.015, "memory_gap": 0.008}
PAIR_TRIALS = 60
OTHER_TRIALS = 36
SLOWER = 1.1
_MARTS = (
    "settings", "findings", "swap_points", "engine_events", "kv_occupancy", "cache_hits", "step_times",
    "client_totals", "capacity_ledger", "bandwidth_ledger", "requests", "token_latency",
)  # fmt: skip
STEADY = ("vllm_cpu/steady_1", "vllm_cpu/steady_2", "vllm_cpu/steady_3")
KV_STRESS = ("vllm_cpu/kv_stress_1", "vllm_cpu/kv_stress_2")
PLATEAU = tuple(f"memory_gap/background__llama-2-13b/{limit}" for limit in (160, 192, 256, 512))
GROUPS: dict[str, tuple[str, ...]] = {"steady": STEADY, "kv_stress": KV_STRESS, "memory_gap": PLATEAU}


@dataclass(frozen=True)
class Side:
    """One run of a trial: a recording, whether blocks are drawn anew, and how much slower all of it is."""

    recording: str
    is_drawn: bool = True
    effect: float = 1.0


@dataclass(frozen=True)
class Trial:
    """One comparison: baseline, run, and by how much the run's tokens are slower."""

    group: str
    kind: str
    base: tuple[Side, ...]
    run: Side
    slower: float = 1.0


def ingest(path: Path, recordings: Sequence[str]) -> dict[str, str]:
    """Read recordings into a database and return their run ids by name."""
    found = {}
    config = ROOT / "memory_gap" / "run.toml.example"
    with open_store(path) as con:
        for name in recordings:
            plan = plan_run(ROOT / name, config_path=config if name.startswith("memory_gap") else None)
            staged = stage_run(con, plan)
            run_findings(con)
            store_run(con, staged, keep=True)
            found[name] = staged.run_id
    return found


def all_trials(slower: float = 1.0) -> Iterator[Trial]:
    """Yield the trials of all groups; the same ones every time."""
    rng = random.Random(SEED if slower == 1.0 else SEED + 1)
    for trial in _trials(rng):
        yield replace(trial, slower=slower)


def _trials(rng: random.Random) -> Iterator[Trial]:
    for group, recordings in GROUPS.items():
        # Totals without times cannot be drawn anew: there the drawn effect alone makes trials differ.
        is_drawn = group != "memory_gap"

        def effect(group: str = group) -> float:
            return 1.0 + rng.gauss(0.0, EFFECT_SD[group])

        pairs = [(one, other) for one in recordings for other in recordings if one != other]
        for one, other in pairs * (PAIR_TRIALS // len(pairs)):
            run = Side(other, is_drawn, 1.0 if is_drawn else effect())
            yield Trial(group, "two repeats", (Side(one, is_drawn),), run)
        for number in range(OTHER_TRIALS):
            one = recordings[number % len(recordings)]
            base = (Side(one, is_drawn, effect()),)
            yield Trial(group, "one recording, drawn effects", base, Side(one, is_drawn, effect()))
        for number in range(OTHER_TRIALS if len(recordings) > 2 else 0):
            one = recordings[number % len(recordings)]
            base = tuple(Side(other, is_drawn) for other in recordings if other != one)
            run = Side(one, is_drawn, 1.0 if is_drawn else effect())
            yield Trial(group, "baseline of the others", base, run)


class Bench:
    """A store in memory for the runs of a trial; the recordings are read from a database beside it."""

    def __init__(self, path: Path, run_ids: dict[str, str]) -> None:
        self._run_ids = run_ids
        self._con = duckdb.connect()
        self._con.execute(f"attach '{path}' as src (read_only)")
        present = {
            row[0]
            for row in self._con.execute(
                "select table_name from duckdb_tables() where database_name = 'src'"
            ).fetchall()
        }
        for mart in ("runs", *(mart for mart in _MARTS if mart in present)):
            self._con.execute(f"create table {mart} as select * from src.main.{mart} limit 0")
        self._marts = tuple(mart for mart in _MARTS if mart in present)
        self._rng = random.Random(SEED)

    def compare(self, trial: Trial) -> Comparison:
        """Return what the comparison says of a trial."""
        for mart in ("runs", *self._marts):
            self._con.execute(f"delete from {mart}")
        names = [f"base-{number}" for number in range(len(trial.base))]
        for number, (name, side) in enumerate(zip(names, trial.base, strict=True)):
            self._put(name, side, 1.0, minute=number)
        self._put("run", trial.run, trial.slower, minute=len(names))
        return compare_runs(self._con, names, "run")

    def _put(self, name: str, side: Side, slower: float, *, minute: int) -> None:
        """Store a recording as a run that took place near the others, but not at the same time."""
        run_id = self._run_ids[side.recording]
        start_ns = 1_790_000_000_000_000_000 + minute * 120_000_000_000
        begin = self._con.execute(
            "select coalesce(min(arrival_ns), 0) from src.main.requests where run_id = ?", [run_id]
        ).fetchall()[0][0]
        self._con.execute(
            "insert into runs by name select * replace (? as run_id, ?::bigint as started_at_ns, "
            "?::bigint as ended_at_ns, true as utc_known) from src.main.runs where run_id = ?",
            [name, start_ns, start_ns + 60_000_000_000, run_id],
        )  # fmt: skip
        times, all_times = side.effect * slower, side.effect
        for mart in self._marts:
            if mart in _DRAWN:
                count = self._con.execute(f"select count(*) from src.main.{mart} where run_id = ?", [run_id])
                self._map_blocks(count.fetchall()[0][0], is_drawn=side.is_drawn)
            self._con.execute(
                f"insert into {mart} by name select * replace ($name as run_id{_scaled(mart)}) "
                f"from ({_rows(mart)})",
                _parameters(mart, name, run_id, begin, times, all_times),
            )

    def _map_blocks(self, count: int, *, is_drawn: bool) -> None:
        """Say which request or bucket stands at each place: one nearby, so that a ramp stays a ramp."""
        sources: list[int] = []
        for first in range(0, count, BLOCK):
            step = self._rng.randint(-BLOCK, BLOCK) if is_drawn else 0
            places = range(first, min(first + BLOCK, count))
            sources += [min(max(place + step, 0), count - 1) for place in places]
        self._con.execute(
            "create or replace temp table blocks as select unnest(range(len($sources))) as place, "
            "unnest($sources::bigint[]) as source",
            {"sources": sources},
        )


def _rows(mart: str) -> str:
    """Return the SELECT of a recording's rows; requests and buckets have the values of the drawn place."""
    values = _DRAWN.get(mart)
    if values is None:
        return f"select * from src.main.{mart} where run_id = $run_id"
    order, names = values
    drawn = ", ".join(f"s.{name} as {name}" for name in names)
    return (
        f"with placed as (select *, row_number() over (order by {order}) - 1 as place from src.main.{mart} "
        f"where run_id = $run_id{' and not is_warmup' if mart == 'requests' else ''}) "
        f"select p.* exclude (place) replace ({drawn}) from placed as p "
        "inner join blocks on p.place = blocks.place inner join placed as s on blocks.source = s.place"
    )


#: Order of the rows that are drawn, and their values; times, tags and token counts stay in their place.
_DRAWN = {
    "requests": (
        "arrival_ns, source_id, request_no",
        ("tpot_ms", "ttft_ms", "e2e_ms", "longest_gap_ms", "itl_median_ms"),
    ),
    "token_latency": (
        "ts_ns, replica_id",
        ("token_count", "itl_p50_ms", "itl_p90_ms", "itl_p99_ms", "itl_max_ms", "tokens_per_s"),
    ),
}


def _scaled(mart: str) -> str:
    """Return replacements that make a run slower: ``$times`` for tokens, ``$all_times`` for first tokens."""
    stretched = "cast($first + ({0} - $first) * $times as bigint)"
    decode = "ttft_ms * $all_times + (e2e_ms - ttft_ms) * $times"
    match mart:
        case "requests":
            return (
                f", tpot_ms * $times as tpot_ms, ttft_ms * $all_times as ttft_ms, {decode} as e2e_ms, "
                f"longest_gap_ms * $times as longest_gap_ms, {stretched.format('arrival_ns')} as arrival_ns, "
                f"cast({stretched.format('arrival_ns')} + 1e6 * ({decode}) as bigint) as end_ns"
            )
        case "token_latency":
            gaps = ", ".join(
                f"{name} * $times as {name}"
                for name in ("itl_p50_ms", "itl_p90_ms", "itl_p99_ms", "itl_max_ms")
            )
            return f", {gaps}, tokens_per_s / $times as tokens_per_s, {stretched.format('ts_ns')} as ts_ns"
        case "step_times":
            names = ("p10", "p25", "p50", "p75", "p90", "p99")
            return "".join(f", elapsed_{name}_ms * $times as elapsed_{name}_ms" for name in names)
        case "client_totals":
            return (
                ", case when name like '%per_s' then value / $times "
                "when name like '%_ms' then value * $times else value end as value"
            )
        case _:
            return ""


def _parameters(
    mart: str, name: str, run_id: str, first_ns: int, times: float, all_times: float
) -> dict[str, object]:
    """Return the values that the statement for a mart names."""
    values: dict[str, object] = {
        "name": name,
        "run_id": run_id,
        "first": first_ns,
        "times": times,
        "all_times": all_times,
    }
    text = _scaled(mart) + _rows(mart)
    return {key: value for key, value in values.items() if key == "name" or f"${key}" in text}
