"""A paged-KV engine simulated step by step, with its own record of every preemption."""

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

Mode = Literal["recompute", "swap", "reserve", "retract"]


@dataclass(frozen=True)
class Engine:
    """What an engine is like.

    Attributes:
        block_count: KV blocks of the device.
        running_limit: most requests that run at once.
        token_budget: most prefill tokens of one step.
        mode: what happens at the ceiling; ``reserve`` admits only what fits up to its last token, ``retract``
            takes the blocks of those who generated least and queues them again at the end.
        is_counter_late: the counter moves when the victim speaks again (else at the end of the step).
        watermark_ratio: share of the blocks that admission leaves free.
        step_s: time of an empty step.
        decode_s: more time for each request that decodes.
        prefill_s: more time for each token of prefill.
        noise_ratio: standard deviation of a step's time.
        slow: stretches (start, end, factor) in which the host starves the engine.
        block_tokens: tokens in a block.
    """

    block_count: int
    running_limit: int = 64
    token_budget: int = 2048
    mode: Mode = "recompute"
    is_counter_late: bool = True
    watermark_ratio: float = 0.0
    step_s: float = 0.03
    decode_s: float = 0.001
    prefill_s: float = 0.0001
    noise_ratio: float = 0.05
    slow: tuple[tuple[float, float, float], ...] = ()
    block_tokens: int = 16


@dataclass(frozen=True)
class Arrival:
    """A request as it is sent; ``shared_tokens`` of its prompt are the same in all requests."""

    second: float
    prompt_tokens: int
    output_tokens: int
    shared_tokens: int = 0


@dataclass
class Request:
    """A request inside the engine."""

    number: int
    arrival: Arrival
    computed_tokens: int = 0
    generated_tokens: int = 0
    block_count: int = 0
    is_shared: bool = False
    is_swapped: bool = False
    unreported_count: int = 0
    token_seconds: list[float] = field(default_factory=list)

    @property
    def known_tokens(self) -> int:
        """Return the tokens whose KV the request needs before its next token."""
        return self.arrival.prompt_tokens + self.generated_tokens


@dataclass(frozen=True)
class Step:
    """One step and what the engine states of itself at its end."""

    start_s: float
    end_s: float
    context_requests: int
    context_tokens: int
    generation_requests: int
    generation_tokens: int
    kv_used_ratio: float
    running: int
    waiting: int
    swapped: int
    preemptions: int
    finished: int
    generated: int
    prompted: int


@dataclass(frozen=True)
class Preemption:
    """The scheduler's record of a preemption: when its step began, and whom it hit."""

    second: float
    request_no: int


@dataclass(frozen=True)
class History:
    """What happened in a simulated engine."""

    engine: Engine
    steps: tuple[Step, ...]
    preemptions: tuple[Preemption, ...]
    requests: tuple[Request, ...]


FollowUp = Callable[[float], Arrival | None]


def simulate(
    engine: Engine,
    arrivals: Iterable[Arrival],
    generator: random.Random,
    *,
    end_s: float,
    follow_up: FollowUp | None = None,
) -> History:
    """Return the history of an engine until ``end_s``.

    Args:
        engine: what the engine is like.
        arrivals: requests of an open loop, or the first ones of a closed loop.
        generator: source of the noise.
        end_s: when the record ends.
        follow_up: next request of a client whose request finished, given the time; none in an open loop.
    """
    return _Simulation(engine, arrivals, generator, end_s, follow_up).run()


class _Simulation:
    """The engine's state between steps."""

    def __init__(
        self,
        engine: Engine,
        arrivals: Iterable[Arrival],
        generator: random.Random,
        end_s: float,
        follow_up: FollowUp | None,
    ) -> None:
        self.engine = engine
        self.generator = generator
        self.end_s = end_s
        self.follow_up = follow_up
        self.order = 0
        self.due: list[tuple[float, int, Arrival]] = []
        for arrival in arrivals:
            self.send(arrival)
        self.requests: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.free = engine.block_count
        self.sharers = 0
        self.now = 0.0
        self.steps: list[Step] = []
        self.preemptions: list[Preemption] = []
        self.counter = self.finished = self.generated = self.prompted = 0

    def send(self, arrival: Arrival) -> None:
        heapq.heappush(self.due, (arrival.second, self.order, arrival))
        self.order += 1

    def run(self) -> History:
        while self.now < self.end_s:
            if not self.running and not self.waiting:
                if not self.due:
                    break
                self.now = max(self.now, self.due[0][0])
            self.receive()
            self.step()
        return History(self.engine, tuple(self.steps), tuple(self.preemptions), tuple(self.requests))

    def receive(self) -> None:
        while self.due and self.due[0][0] <= self.now:
            request = Request(len(self.requests), heapq.heappop(self.due)[2])
            self.requests.append(request)
            self.waiting.append(request)

    def step(self) -> None:
        """Run one step: grow, preempt, admit, compute, hand out tokens."""
        start = self.now
        before = len(self.preemptions)
        self.grow(start)
        if len(self.preemptions) == before:
            self.admit()
        budget = self.engine.token_budget
        context_requests = context_tokens = generation_requests = generation_tokens = 0
        speaking = []
        for request in self.running:
            wanted = max(request.known_tokens - request.computed_tokens, 1)
            given = 1 if wanted == 1 else min(wanted, budget)
            if given == 0:
                continue
            budget -= given if wanted > 1 else 0
            if request.generated_tokens:
                generation_requests += 1
                generation_tokens += given
            else:
                context_requests += 1
                context_tokens += given
            request.computed_tokens += given
            if given == wanted:
                speaking.append(request)
        work = context_tokens + generation_tokens - generation_requests
        self.now = start + self.duration(start, len(speaking), work)
        self.hand_out(speaking)
        self.prompted += context_tokens
        self.steps.append(
            Step(
                start,
                self.now,
                context_requests,
                context_tokens,
                generation_requests,
                generation_tokens,
                1 - self.free / self.engine.block_count,
                len(self.running),
                sum(not request.is_swapped for request in self.waiting),
                sum(request.is_swapped for request in self.waiting),
                self.counter,
                self.finished,
                self.generated,
                self.prompted,
            )
        )

    def duration(self, start: float, speaking: int, prefill_tokens: int) -> float:
        """Return how long a step takes."""
        engine = self.engine
        length = engine.step_s + engine.decode_s * speaking + engine.prefill_s * prefill_tokens
        for since, until, factor in engine.slow:
            if since <= start < until:
                length *= factor
        return length * max(0.5, self.generator.gauss(1.0, engine.noise_ratio))

    def need(self, request: Request, tokens: int) -> int:
        """Return the blocks that a request lacks for so many tokens."""
        engine = self.engine
        shared = request.arrival.shared_tokens // engine.block_tokens
        own = -(-tokens // engine.block_tokens) - shared
        first = shared if not request.is_shared and self.sharers == 0 else 0
        return max(own - request.block_count, 0) + first

    def take(self, request: Request, tokens: int) -> None:
        engine = self.engine
        shared = request.arrival.shared_tokens // engine.block_tokens
        self.free -= self.need(request, tokens)
        request.block_count = max(-(-tokens // engine.block_tokens) - shared, request.block_count)
        if shared and not request.is_shared:
            request.is_shared = True
            self.sharers += 1

    def give_back(self, request: Request) -> None:
        self.free += request.block_count
        request.block_count = 0
        if request.is_shared:
            request.is_shared = False
            self.sharers -= 1
            if self.sharers == 0:
                self.free += request.arrival.shared_tokens // self.engine.block_tokens

    def grow(self, start: float) -> None:
        """Give every running request the block of its next token; the last ones pay for the first."""
        if self.engine.mode == "retract":
            self.retract(start)
        index = 0
        while index < len(self.running):
            request = self.running[index]
            tokens = request.known_tokens
            while self.need(request, tokens) > self.free:
                victim = self.running.pop()
                self.preempt(victim, start)
                if victim is request:
                    return
            self.take(request, tokens)
            index += 1

    def retract(self, start: float) -> None:
        """Stop those who generated least until everybody else has a block to spare."""
        if sum(self.need(request, request.known_tokens) for request in self.running) <= self.free:
            return
        order = sorted(self.running, key=lambda r: (-r.generated_tokens, r.arrival.prompt_tokens, r.number))
        while len(order) > 1 and self.free < sum(self.need(r, r.known_tokens) + 1 for r in order):
            victim = order.pop()
            self.running.remove(victim)
            self.preempt(victim, start)

    def preempt(self, victim: Request, start: float) -> None:
        self.give_back(victim)
        if self.engine.mode == "swap":
            victim.is_swapped = True
        else:
            victim.computed_tokens = 0
        if self.engine.is_counter_late:
            victim.unreported_count += 1
        else:
            self.counter += 1
        if self.engine.mode == "retract":
            self.waiting.append(victim)
        else:
            self.waiting.appendleft(victim)
        self.preemptions.append(Preemption(start, victim.number))

    def admit(self) -> None:
        """Let waiting requests in, first come first served, as long as blocks, slots and tokens last."""
        engine = self.engine
        spare = int(engine.watermark_ratio * engine.block_count)
        budget = engine.token_budget
        while self.waiting and len(self.running) < engine.running_limit and budget > 0:
            request = self.waiting[0]
            tokens = request.known_tokens
            if engine.mode == "reserve":
                tokens = request.arrival.prompt_tokens + request.arrival.output_tokens
            if self.need(request, tokens) > self.free - (spare if self.running else 0):
                return
            self.take(request, tokens)
            self.running.append(self.waiting.popleft())
            if request.is_swapped:
                request.is_swapped = False
            else:
                if request.is_shared and self.sharers > 1:
                    request.computed_tokens = request.arrival.shared_tokens
                budget -= request.known_tokens - request.computed_tokens

    def hand_out(self, speaking: Iterable[Request]) -> None:
        for request in speaking:
            request.generated_tokens += 1
            request.token_seconds.append(self.now)
            self.generated += 1
            self.counter += request.unreported_count
            request.unreported_count = 0
            if request.generated_tokens >= request.arrival.output_tokens:
                self.running.remove(request)
                self.give_back(request)
                self.finished += 1
                if self.follow_up is not None and (arrival := self.follow_up(self.now)) is not None:
                    self.send(arrival)
