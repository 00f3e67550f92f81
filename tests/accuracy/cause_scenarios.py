"""Simulated runs whose latency jumps for known causes other than KV, and what the mart says of them."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from accuracy.engine_sim import Arrival, Engine, History, simulate
from accuracy.scenario_rows import LOG_ID, S, Tables, raw_rows
from accuracy.scenario_score import Models
from accuracy.scenarios import DURATION_S, Faults, Mix, Scenario
from builders_raw import needed
from kvcliff.store.models import build_models

#: A jump belongs to a true cause within this many seconds of it.
REACH_S = 4.0
MIXES = (
    Mix("everything", 0.5, stats_s=10.0, has_histogram=True, has_iterations=True, has_tokens=True),
    Mix("scrapes 1 s, histogram", 1.0, has_histogram=True),
    Mix("scrapes 1 s, tokens", 1.0, has_tokens=True),
    Mix("iteration log, stats 10 s", stats_s=10.0, has_iterations=True),
    Mix("scrapes 5 s, histogram", 5.0, has_histogram=True),
)


@dataclass(frozen=True)
class Trouble:
    """A true cause and its stretch of time in seconds; ``ttft`` troubles make requests wait."""

    cause: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class CauseScenario:
    """A simulated run with the causes of its jumps; none: there is nothing to find."""

    scenario: Scenario
    troubles: tuple[Trouble, ...]


@dataclass(frozen=True)
class Jump:
    """A jump as diagnosed."""

    cause: str
    start_s: float
    end_s: float


def _steady(
    generator: random.Random,
    engine: Engine,
    extra: Sequence[Arrival] = (),
    *,
    clients: int = 6,
    output: int = 150,
    prompt: int = 60,
) -> History:
    """Return a closed loop of few clients with room in the cache, and further arrivals."""

    def next_request(second: float) -> Arrival | None:
        if second > DURATION_S - 15 or second < 0:
            return None
        wait = second + generator.uniform(0.01, 0.1)
        return Arrival(wait, prompt + generator.randint(-10, 10), output + generator.randint(-40, 40))

    firsts = [Arrival(1 + number, prompt, output) for number in range(clients)]
    return simulate(engine, [*firsts, *extra], generator, end_s=DURATION_S, follow_up=next_request)


def _engine(generator: random.Random, **more: object) -> Engine:
    base = Engine(
        block_count=4000,
        step_s=generator.uniform(0.02, 0.04),
        decode_s=generator.uniform(0.0002, 0.0008),
        noise_ratio=generator.choice([0.02, 0.05, 0.1]),
    )
    return replace(base, **more)  # type: ignore[arg-type]


Made = tuple[History, tuple[Trouble, ...]]


def starved_host(generator: random.Random) -> Made:
    """Return a host that starves the engine for a while."""
    at, length = generator.uniform(40, 60), generator.uniform(6, 14)
    engine = _engine(generator, slow=((at, at + length, generator.uniform(2.2, 5)),))
    return _steady(generator, engine), (Trouble("cpu", at, at + length),)


def prefill_bursts(generator: random.Random) -> Made:
    """Return bursts of long prompts between decoding requests."""
    times = [generator.uniform(35, 45), generator.uniform(65, 75)]
    engine = _engine(generator, prefill_s=0.0004)
    extra = [Arrival(at, generator.randint(1800, 2400), 5) for at in times for _ in range(4)]
    return _steady(generator, engine, extra), tuple(Trouble("prefill", at, at + 5) for at in times)


def more_clients(generator: random.Random) -> Made:
    """Return a batch that doubles or triples at once on an engine whose step grows with it."""
    at = generator.uniform(40, 60)
    engine = _engine(generator, step_s=0.004, decode_s=0.002)
    extra = [Arrival(at + number / 100, 40, 400) for number in range(generator.randint(12, 18))]
    return _steady(generator, engine, extra), (Trouble("concurrency", at, at + 15),)


def more_clients_slowly(generator: random.Random) -> Made:
    """Return a batch that grows request by request: a ramp, no jump."""
    engine = _engine(generator, step_s=0.015, decode_s=0.001)
    extra = [Arrival(20 + 2.5 * number, 40, 4000) for number in range(20)]
    return _steady(generator, engine, extra), ()


def growing_contexts(generator: random.Random) -> Made:
    """Return steps that grow slowly, as with the context: no jump."""
    last = generator.uniform(1.3, 1.8)
    slow = tuple((float(s), s + 1.0, 1 + (last - 1) * s / DURATION_S) for s in range(110))
    return _steady(generator, _engine(generator, slow=slow), output=1500), ()


def calm(generator: random.Random) -> Made:
    """Return an ordinary load."""
    return _steady(generator, _engine(generator)), ()


def compiled(generator: random.Random) -> Made:
    """Return steps that wait for a compiler, which the log tells."""
    at = generator.uniform(40, 60)
    engine = _engine(generator, slow=((at, at + 0.05, generator.uniform(30, 60)),))
    return _steady(generator, engine), (Trouble("jit", at, at + 3),)


def late_client(generator: random.Random) -> Made:
    """Return a client that reads nothing for a second again and again, and then all at once."""
    at = generator.uniform(40, 60)
    return _steady(generator, _engine(generator)), (Trouble("client", at, at + 6),)


def two_causes(generator: random.Random) -> Made:
    """Return a starved host and, later, a burst of prompts."""
    cpu, burst = generator.uniform(35, 42), generator.uniform(65, 75)
    engine = _engine(generator, prefill_s=0.0004, slow=((cpu, cpu + 8, 3.0),))
    extra = [Arrival(burst, 2200, 5) for _ in range(4)]
    return _steady(generator, engine, extra), (
        Trouble("cpu", cpu, cpu + 8),
        Trouble("prefill", burst, burst + 5),
    )


def full_slots(generator: random.Random) -> Made:
    """Return more requests than slots for a while, with room in the cache."""
    at = generator.uniform(40, 55)
    engine = _engine(generator, running_limit=10)
    extra = [Arrival(at + number / 20, 40, 200) for number in range(30)]
    return _steady(generator, engine, extra), (Trouble("max_sequences", at, at + 45),)


def huge_prompt_first(generator: random.Random) -> Made:
    """Return a prompt too large for the free blocks that holds back small ones behind it."""
    at = generator.uniform(35, 50)
    engine = _engine(generator, block_count=1000, prefill_s=0.00002)
    holder = Arrival(at - 20, 9000, round(45 / (engine.step_s + 0.003)))
    extra = [holder, Arrival(at, 8000, 20)]
    extra += [Arrival(at + 0.5 + number / 3, 40, 50) for number in range(12)]
    return _steady(generator, engine, extra), (Trouble("head_of_line", at, at + 60),)


KINDS: tuple[Callable[[random.Random], Made], ...] = (
    starved_host,
    prefill_bursts,
    more_clients,
    more_clients_slowly,
    growing_contexts,
    calm,
    compiled,
    late_client,
    two_causes,
    full_slots,
    huge_prompt_first,
)


def cause_scenario(number: int) -> CauseScenario:
    """Return scenario ``number``; kinds and mixes take turns (11 and 5 have no common factor)."""
    generator = random.Random(number + 50_000)
    kind = KINDS[number % len(KINDS)]
    history, troubles = kind(generator)
    faults = Faults(
        shift_s=tuple(generator.choice([0.0, -7200.0, 12.25]) for _ in range(3)),  # type: ignore[arg-type]
        lost_ratio=generator.choice([0.0, 0.0, 0.1]),
    )
    mix = MIXES[number % len(MIXES)]
    return CauseScenario(Scenario(number, kind.__name__, (history,), mix, faults), troubles)


def _spoil(tables: Tables, item: CauseScenario) -> None:
    """Add what the simulator does not record: the compiler's line and the client's sleep."""
    for trouble in item.troubles:
        log_shift, client_shift = item.scenario.faults.shift_s[1:]
        if trouble.cause == "jit" and item.scenario.mix.stats_s is not None:
            at_ns = int(trouble.start_s + 1 + log_shift) * S
            tables["raw_log_events"].add(
                source_id=LOG_ID, line_no=10_000_000, src_ns=at_ns, engine="0", kind="jit"
            )
        if trouble.cause == "client" and item.scenario.mix.has_tokens:
            column = tables["raw_client_tokens"].columns["src_ns"]
            for row, value in enumerate(column):
                second = int(value) / S - client_shift  # type: ignore[call-overload]
                if trouble.start_s <= second < trouble.end_s:
                    late = trouble.start_s + (int(second - trouble.start_s) + 1) * 1.0
                    column[row] = round((late + client_shift) * S)


class CauseModels(Models):
    """Models up to the jumps of latency."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen = needed("latency_jumps", frozenset({"transfers"}))

    def jumps(self, item: CauseScenario) -> tuple[Jump, ...]:
        """Return the jumps that the models find, KV left aside."""
        for name in self.filled:
            self.con.execute(f"delete from temp.{name}")
        tables = Tables()
        tables.tables = raw_rows(item.scenario)
        _spoil(tables, item)
        self.filled = list(tables.tables)
        for name, table in tables.tables.items():
            self._insert(name, table)
        build_models(self.con, self.chosen)
        rows = self.con.execute(
            "select cause, at_ns / 1e9, end_ns / 1e9 from latency_jumps order by jump_id"
        ).fetchall()
        return tuple(Jump(*row) for row in rows)


def judge(item: CauseScenario, jumps: Sequence[Jump]) -> Counter[tuple[str, str]]:
    """Return (true cause, said) counts; a jump away from every trouble is a false one."""
    found: Counter[tuple[str, str]] = Counter()
    used: set[Jump] = set()
    for trouble in item.troubles:
        near = [
            jump
            for jump in jumps
            if jump.start_s <= trouble.end_s + REACH_S and jump.end_s >= trouble.start_s - REACH_S
        ]
        used.update(near)
        said = {jump.cause for jump in near}
        best = trouble.cause if trouble.cause in said else None
        wrong = sorted(said - {trouble.cause, "unknown"})
        found[trouble.cause, best or (wrong[0] if wrong else "unknown" if said else "none")] += 1
    for jump in jumps:
        if jump not in used:
            found["nothing", jump.cause] += 1
    return found


def confusion(counts: Counter[tuple[str, str]]) -> str:
    """Return the counts as a Markdown table: right, unknown, not seen and wrong causes apart."""
    lines = ["| true cause | right | unknown | no jump | wrong |", "|---|---|---|---|---|"]
    for true in sorted({pair[0] for pair in counts}):
        right, unknown, none = (counts[true, said] for said in (true, "unknown", "none"))
        wrong = {
            said: count
            for (cause, said), count in sorted(counts.items())
            if cause == true and said not in (true, "unknown", "none")
        }
        words = ", ".join(f"{count} {said}" for said, count in wrong.items()) or "0"
        lines.append(f"| {true} | {right} | {unknown} | {none} | {words} |")
    return "\n".join(lines)
