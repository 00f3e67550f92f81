"""Serving scenarios with truth: kinds of load and engine, what is recorded, and what spoils the record."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from accuracy.engine_sim import Arrival, Engine, History, simulate

DURATION_S = 110.0


@dataclass(frozen=True)
class Mix:
    """Which data of an engine is recorded.

    Attributes:
        name: short name.
        scrape_s: distance of scrapes, none without.
        has_counter: scrapes hold the preemption counter.
        has_finished: scrapes hold the counter of finished requests.
        has_histogram: scrapes hold the ITL histogram.
        stats_s: distance of stats lines, none without.
        has_iterations: the log has a line a step.
        has_tokens: the client kept token times.
        is_fine: it can tell a preemption from the end of a request: it counts either, or has every step.
    """

    name: str
    scrape_s: float | None = None
    has_counter: bool = True
    has_finished: bool = True
    has_histogram: bool = False
    stats_s: float | None = None
    has_iterations: bool = False
    has_tokens: bool = False
    is_fine: bool = True


MIXES = (
    Mix("scrapes 0.2 s", 0.2, has_histogram=True),
    Mix("scrapes 1 s", 1.0),
    Mix("scrapes 1 s, histogram", 1.0, has_histogram=True),
    Mix("scrapes 2 s", 2.0),
    Mix("scrapes 5 s", 5.0),
    Mix("scrapes 1 s without counter", 1.0, has_counter=False),
    Mix("scrapes 0.5 s without counters", 0.5, has_counter=False, has_finished=False, is_fine=False),
    Mix("scrapes 1 s, tokens", 1.0, has_tokens=True),
    Mix("scrapes 1 s without counter, tokens", 1.0, has_counter=False, has_tokens=True),
    Mix("scrapes 5 s, tokens", 5.0, has_tokens=True),
    Mix("iteration log, stats 10 s", stats_s=10.0, has_iterations=True),
    Mix("scrapes 1 s, stats 10 s, iteration log", 1.0, stats_s=10.0, has_iterations=True),
    Mix("stats 1 s", stats_s=1.0, is_fine=False),
    Mix("stats 5 s, tokens", stats_s=5.0, has_tokens=True, is_fine=False),
    Mix("everything", 0.5, stats_s=10.0, has_histogram=True, has_iterations=True, has_tokens=True),
    Mix("stats 5 s", stats_s=5.0, is_fine=False),
    Mix("stats 10 s", stats_s=10.0, is_fine=False),
)


@dataclass(frozen=True)
class Faults:
    """What spoils the record.

    Attributes:
        lost_ratio: share of scrapes that are missing.
        hole: stretch without any scrape, start and length.
        stall: stretch in which the scraper hangs and then catches up with stale answers, start and length.
        shift_s: how far the clocks of metrics, log and client are off (stated exactly to the models).
        reset_s: when the counters fall to zero.
        is_limit_stated: the engine's settings are in the log.
    """

    lost_ratio: float = 0.0
    hole: tuple[float, float] | None = None
    stall: tuple[float, float] | None = None
    shift_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    reset_s: float | None = None
    is_limit_stated: bool = True


@dataclass(frozen=True)
class Scenario:
    """A simulated run with its truth.

    Attributes:
        number: number, which is its seed.
        kind: kind of load and engine.
        histories: one for each replica.
        mix: what is recorded.
        faults: what spoils the record.
        has_warnings: the V0 engine warns at every 50th preemption.
        has_offload: the log tells of blocks that go to the host.
        has_copies: a trace shows the copies of blocks to the host.
    """

    number: int
    kind: str
    histories: tuple[History, ...]
    mix: Mix
    faults: Faults
    has_warnings: bool = False
    has_offload: bool = False
    has_copies: bool = False

    @property
    def is_retracting(self) -> bool:
        """Return whether the engine retracts, and says so in its log."""
        return self.histories[0].engine.mode == "retract"

    @property
    def is_fine(self) -> bool:
        """Return whether the record can tell a preemption from the end of a request."""
        if self.is_retracting:
            is_scraped = self.mix.scrape_s is not None
            return (self.mix.has_counter and is_scraped) or self.mix.stats_s is not None
        return self.mix.is_fine or self.has_copies


Kind = Callable[[random.Random], tuple[History, ...]]


def _around(generator: random.Random, middle: float, spread: float = 0.4) -> int:
    """Return a whole number around ``middle``."""
    return max(1, round(middle * generator.uniform(1 - spread, 1 + spread)))


def _closed(
    generator: random.Random, engine: Engine, clients: int, prompt: float, output: float, **more: float
) -> History:
    """Return a closed loop: every client sends its next request when the last one is done."""
    until = more.get("until", generator.uniform(70, 95))
    start = more.get("start", generator.uniform(1, 15))
    ramp = more.get("ramp", generator.choice([0.5, 10, 40]))
    shared = int(more.get("shared", 0))

    def next_request(second: float) -> Arrival | None:
        if second > until:
            return None
        wait = generator.uniform(0.01, 0.3)
        return Arrival(second + wait, shared + _around(generator, prompt), _around(generator, output), shared)

    firsts = [start + ramp * number / clients for number in range(clients)]
    first_arrivals = [arrival for second in firsts if (arrival := next_request(second))]
    return simulate(engine, first_arrivals, generator, end_s=DURATION_S, follow_up=next_request)


def _open(
    generator: random.Random,
    engine: Engine,
    rate: Callable[[float], float],
    prompt: float,
    output: float,
) -> History:
    """Return an open loop with exponential waits at ``rate`` requests a second."""
    arrivals = []
    second = generator.uniform(0, 3)
    while second < DURATION_S - 15:
        arrivals.append(Arrival(second, _around(generator, prompt), _around(generator, output)))
        second += generator.expovariate(max(rate(second), 0.02))
    return simulate(engine, arrivals, generator, end_s=DURATION_S)


def _engine(generator: random.Random, **more: object) -> Engine:
    """Return an engine of ordinary speed."""
    engine = Engine(
        block_count=generator.randint(300, 1200),
        step_s=generator.uniform(0.02, 0.05),
        decode_s=generator.uniform(0.0005, 0.002),
        prefill_s=generator.uniform(0.00005, 0.0002),
        noise_ratio=generator.choice([0.02, 0.1, 0.2]),
    )
    return replace(engine, **more)  # type: ignore[arg-type]


def _tokens(engine: Engine) -> int:
    return engine.block_count * engine.block_tokens


def _fill(
    generator: random.Random, engine: Engine, load: float, footprint: float | None = None, **more: float
) -> History:
    """Return a closed loop whose requests at full length need ``load`` times the cache."""
    footprint = footprint or generator.uniform(1 / 30, 1 / 8)
    length = footprint * _tokens(engine)
    share = generator.uniform(0.3, 0.6)
    mean_held = length * (share + (1 - share) / 2)
    clients = max(2, round(load * _tokens(engine) / mean_held))
    return _closed(generator, engine, clients, length * share, length * (1 - share), **more)


def closed_overload(generator: random.Random) -> tuple[History, ...]:
    """Return a closed loop that needs more than the cache."""
    return (_fill(generator, _engine(generator), generator.uniform(1.15, 1.8)),)


def prompt_counter(generator: random.Random) -> tuple[History, ...]:
    """Return the same on an engine whose counter moves at once and whose admission leaves a margin."""
    engine = _engine(generator, is_counter_late=False, watermark_ratio=0.01)
    return (_fill(generator, engine, generator.uniform(1.15, 1.8)),)


def swapping(generator: random.Random) -> tuple[History, ...]:
    """Return the same on an engine that swaps victims to the host."""
    engine = _engine(generator, is_counter_late=False, watermark_ratio=0.01, mode="swap")
    return (_fill(generator, engine, generator.uniform(1.15, 1.8)),)


def retracting(generator: random.Random) -> tuple[History, ...]:
    """Return the same on an engine that retracts those who generated least, and logs it."""
    engine = _engine(generator, is_counter_late=False, watermark_ratio=0.03, mode="retract")
    return (_fill(generator, engine, generator.uniform(1.15, 1.8)),)


def copying(generator: random.Random) -> tuple[History, ...]:
    """Return an engine that swaps victims to the host while a trace records the copies."""
    engine = _engine(generator, is_counter_late=False, watermark_ratio=0.01, mode="swap")
    return (_fill(generator, engine, generator.uniform(1.15, 1.6)),)


def open_ramp(generator: random.Random) -> tuple[History, ...]:
    """Return an open loop whose rate climbs over what the cache holds."""
    engine = _engine(generator)
    length = generator.uniform(1 / 30, 1 / 12) * _tokens(engine)
    need_s = length / 2 * (engine.step_s + 10 * engine.decode_s)
    fit = _tokens(engine) / (0.75 * length) / need_s
    return (_open(generator, engine, lambda second: fit * (0.3 + 1.4 * second / 80), length / 2, length / 2),)


def burst(generator: random.Random) -> tuple[History, ...]:
    """Return a calm load with one or two bursts of long requests."""
    engine = _engine(generator)
    length = _tokens(engine) / 14
    times = [generator.uniform(25, 35), generator.uniform(65, 80)][: generator.choice([1, 2])]
    arrivals = [
        Arrival(second, _around(generator, length / 4), _around(generator, length / 4))
        for second in (generator.uniform(0, 95) for _ in range(30))
    ]
    for time in times:
        arrivals += [
            Arrival(
                time + generator.uniform(0, 1), _around(generator, length / 2), _around(generator, length)
            )
            for _ in range(generator.randint(16, 24))
        ]
    return (simulate(engine, arrivals, generator, end_s=DURATION_S),)


def long_outputs(generator: random.Random) -> tuple[History, ...]:
    """Return few requests that come together and grow into the ceiling."""
    engine = _engine(generator, step_s=generator.uniform(0.02, 0.04))
    clients = generator.randint(8, 20)
    length = 1.6 * _tokens(engine) / clients
    return (_closed(generator, engine, clients, 0.1 * length, min(0.9 * length, 1500), ramp=2.0),)


def shared_prefix(generator: random.Random) -> tuple[History, ...]:
    """Return an overload whose prompts begin alike."""
    engine = _engine(generator)
    shared = engine.block_tokens * (engine.block_count // 10)
    return (_fill(generator, engine, generator.uniform(1.15, 1.6), shared=shared),)


def noisy_waves(generator: random.Random) -> tuple[History, ...]:
    """Return an open loop that comes in waves, some of which are too much."""
    engine = _engine(generator, noise_ratio=0.25)
    length = generator.uniform(1 / 25, 1 / 10) * _tokens(engine)
    need_s = length / 2 * (engine.step_s + 10 * engine.decode_s)
    fit = _tokens(engine) / (0.75 * length) / need_s
    return (
        _open(
            generator,
            engine,
            lambda second: fit * (2.2 if second % 40 < 15 else 0.25),
            length / 2,
            length / 2,
        ),
    )


def one_of_three(generator: random.Random) -> tuple[History, ...]:
    """Return three replicas of which one thrashes."""
    loads = [generator.uniform(1.2, 1.7), 0.4, 0.55]
    return tuple(_fill(generator, _engine(generator, block_count=500), load) for load in loads)


def two_causes(generator: random.Random) -> tuple[History, ...]:
    """Return a starved host early and an overload of the cache later."""
    engine = _engine(generator, slow=((12.0, 24.0, 3.0),))
    return (_fill(generator, engine, generator.uniform(1.2, 1.6), start=5.0, ramp=50.0),)


def quiet_low(generator: random.Random) -> tuple[History, ...]:
    """Return an ordinary load with room in the cache."""
    return (_fill(generator, _engine(generator), generator.uniform(0.2, 0.7)),)


def quiet_full_reserved(generator: random.Random) -> tuple[History, ...]:
    """Return a full cache that admits only what fits to its end: admission blocked, nothing preempted."""
    engine = _engine(generator, mode="reserve")
    return (_fill(generator, engine, generator.uniform(1.3, 2.0)),)


def quiet_full_reserved_open(generator: random.Random) -> tuple[History, ...]:
    """Return the same with arrivals that do not wait for answers."""
    engine = _engine(generator, mode="reserve")
    length = generator.uniform(1 / 30, 1 / 10) * _tokens(engine)
    need_s = length / 2 * (engine.step_s + 10 * engine.decode_s)
    rate = generator.uniform(0.9, 1.3) * _tokens(engine) / length / need_s
    return (_open(generator, engine, lambda _: rate, length / 2, length / 2),)


def quiet_steady_high(generator: random.Random) -> tuple[History, ...]:
    """Return a load that stays around 0.9 without waiting."""
    engine = _engine(generator, mode="reserve")
    return (_fill(generator, engine, 0.72, footprint=1 / 40, ramp=30.0),)


def quiet_short_answers(generator: random.Random) -> tuple[History, ...]:
    """Return prompts that fill the cache and answers too short to need another block: no preemption."""
    engine = _engine(generator, step_s=generator.uniform(0.1, 0.3))
    blocks = engine.block_count // generator.randint(9, 24)
    arrivals = [
        Arrival(
            generator.uniform(2, 90),
            engine.block_tokens * max(2, _around(generator, blocks)) - 15,
            generator.randint(6, 14),
        )
        for _ in range(generator.randint(500, 900))
    ]
    return (simulate(engine, arrivals, generator, end_s=DURATION_S),)


def quiet_write_through(generator: random.Random) -> tuple[History, ...]:
    """Return an ordinary load on an engine that copies every block to the host."""
    return (_fill(generator, _engine(generator), generator.uniform(0.2, 0.6)),)


def quiet_large_tier(generator: random.Random) -> tuple[History, ...]:
    """Return a nearly full cache whose overflow goes to the host before anything is preempted."""
    engine = _engine(generator, mode="reserve")
    return (_fill(generator, engine, generator.uniform(0.66, 0.74), footprint=1 / 40, ramp=30.0),)


def quiet_slot_limit(generator: random.Random) -> tuple[History, ...]:
    """Return more clients than slots, with a cache that holds what the slots need."""
    limit = generator.randint(6, 24)
    engine = _engine(generator, running_limit=limit)
    length = generator.uniform(0.5, 0.93) * _tokens(engine) / (1.4 * limit)
    return (_closed(generator, engine, limit + generator.randint(2, 20), length / 2, length / 2),)


def head_of_line(generator: random.Random) -> tuple[History, ...]:
    """Return huge prompts that wait for room while smaller ones wait behind them; few or no preemptions."""
    engine = _engine(generator)
    small, huge = _tokens(engine) / 40, 0.6 * _tokens(engine)
    arrivals = [
        Arrival(generator.uniform(0, 90), _around(generator, small), _around(generator, small / 2))
        for _ in range(150)
    ]
    arrivals += [Arrival(time, round(huge), 60) for time in (20.0, 45.0, 70.0)]
    return (simulate(engine, arrivals, generator, end_s=DURATION_S),)


def quiet_prefill_bursts(generator: random.Random) -> tuple[History, ...]:
    """Return bursts of long prompts into a cache with room."""
    engine = _engine(generator, block_count=4000, prefill_s=0.0004)
    arrivals = [
        Arrival(generator.uniform(0, 95), _around(generator, 200), _around(generator, 200)) for _ in range(60)
    ]
    for time in (25.0, 50.0, 75.0):
        arrivals += [Arrival(time, _around(generator, 2500), 40) for _ in range(12)]
    return (simulate(engine, arrivals, generator, end_s=DURATION_S),)


def quiet_starved(generator: random.Random) -> tuple[History, ...]:
    """Return a starved host with room in the cache, or with a cache that is nearly full."""
    load, footprint = generator.choice([(0.5, 1 / 20), (0.72, 1 / 40)])
    engine = _engine(generator, mode="reserve", slow=((40.0, 55.0, 4.0), (70.0, 73.0, 12.0)))
    return (_fill(generator, engine, load, footprint=footprint),)


def quiet_slow_drift(generator: random.Random) -> tuple[History, ...]:
    """Return steps that grow slower all along, as on a GPU that heats up, with room in the cache."""
    last = generator.uniform(1.4, 2.2)
    slow = tuple((float(s), s + 5.0, 1 + (last - 1) * s / DURATION_S) for s in range(0, 110, 5))
    return (_fill(generator, _engine(generator, slow=slow), generator.uniform(0.3, 0.6)),)


def quiet_replicas(generator: random.Random) -> tuple[History, ...]:
    """Return three replicas without pressure, one of them idle."""
    calm = [_fill(generator, _engine(generator, block_count=500), load) for load in (0.4, 0.6)]
    return (*calm, simulate(_engine(generator), [Arrival(3.0, 10, 5)], generator, end_s=DURATION_S))


KINDS: tuple[Kind, ...] = (
    closed_overload,
    prompt_counter,
    swapping,
    retracting,
    copying,
    open_ramp,
    burst,
    long_outputs,
    shared_prefix,
    noisy_waves,
    one_of_three,
    two_causes,
    quiet_low,
    quiet_full_reserved,
    quiet_full_reserved_open,
    quiet_steady_high,
    quiet_short_answers,
    quiet_write_through,
    quiet_large_tier,
    quiet_slot_limit,
    head_of_line,
    quiet_prefill_bursts,
    quiet_starved,
    quiet_slow_drift,
    quiet_replicas,
)


def _faults(generator: random.Random) -> Faults:
    """Return faults of the record: none in a third of the runs, else up to three."""
    faults = Faults(
        shift_s=tuple(generator.choice([0.0, -7200.0, 3600.5, 12.25]) for _ in range(3)),  # type: ignore[arg-type]
        is_limit_stated=generator.random() < 0.7,
    )
    chosen = generator.sample(["lost", "hole", "stall", "reset", "", "", ""], 3)
    if "lost" in chosen:
        faults = replace(faults, lost_ratio=generator.uniform(0.02, 0.3))
    if "hole" in chosen:
        faults = replace(faults, hole=(generator.uniform(10, 80), generator.uniform(8, 25)))
    if "stall" in chosen:
        faults = replace(faults, stall=(generator.uniform(10, 80), generator.uniform(3, 8)))
    if "reset" in chosen:
        faults = replace(faults, reset_s=generator.uniform(30, 90))
    return faults


def scenario(number: int) -> Scenario:
    """Return scenario ``number``: kinds and mixes take turns, all else follows from the number."""
    generator = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    # 25 kinds and 17 mixes have no common factor: every pair comes once in 425 scenarios.
    mix = MIXES[number % len(MIXES)]
    histories = kind(generator)
    return Scenario(
        number,
        kind.__name__,
        histories,
        mix,
        _faults(generator),
        has_warnings=not histories[0].engine.is_counter_late
        and kind is not retracting
        and mix.stats_s is not None,
        has_offload=kind in (quiet_write_through, quiet_large_tier),
        has_copies=kind in (copying, quiet_write_through),
    )


def scenarios(total: int, start: int = 0) -> list[Scenario]:
    """Return ``total`` scenarios from number ``start`` on."""
    numbers = count(start)
    return [scenario(next(numbers)) for _ in range(total)]
