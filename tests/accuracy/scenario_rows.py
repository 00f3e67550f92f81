"""Raw rows of a simulated run as its mix of data records it, with the faults of the record."""

import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from accuracy.engine_sim import History, Step
from accuracy.scenarios import DURATION_S, Faults, Scenario

Columns = dict[str, list[object]]
S = 1_000_000_000
METRICS_ID, LOG_ID, CLIENT_ID, TRACE_ID = 1, 2, 3, 4
_GAUGES = {
    "kv_used_ratio": "vllm:kv_cache_usage_perc",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
}
_COUNTERS = {
    "preemptions": "vllm:num_preemptions_total",
    "finished": "vllm:request_success_total",
    "generated": "vllm:generation_tokens_total",
    "prompted": "vllm:prompt_tokens_total",
}
#: What SGLang calls the same; it counts no finished requests.
_RETRACTING_NAMES = {
    "kv_used_ratio": "sglang:token_usage",
    "running": "sglang:num_running_reqs",
    "waiting": "sglang:num_queue_reqs",
    "preemptions": "sglang:num_retracted_requests_total",
    "generated": "sglang:generation_tokens_total",
    "prompted": "sglang:prompt_tokens_total",
}
_RETRACT: dict[str, object] = {"kind": "retract", "mode": "retract"}
_SEMANTICS = {"reserve": "reserved_tokens", "retract": "live_tokens"}
_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, math.inf)
_SERIES_PER_ENGINE = 100


class Table:
    """Rows of one raw table, column by column."""

    def __init__(self) -> None:
        self.columns: Columns = {}
        self.height = 0

    def add(self, **values: object) -> None:
        for name, value in values.items():
            column = self.columns.setdefault(name, [None] * self.height)
            column.append(value)
        self.height += 1
        for column in self.columns.values():
            if len(column) < self.height:
                column.append(None)


class Tables:
    """Raw tables by name, made when first used."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}

    def __getitem__(self, name: str) -> Table:
        return self.tables.setdefault(name, Table())


def raw_rows(scenario: Scenario) -> dict[str, Table]:
    """Return the raw tables of a scenario, ``sources`` and ``clocks`` included."""
    tables = Tables()
    generator = random.Random(scenario.number + 1_000_000)
    mix = scenario.mix
    if mix.scrape_s is not None:
        _source(tables, METRICS_ID, "metrics.prom", "metrics", scenario.faults.shift_s[0])
        _scrapes(tables, scenario, generator)
    if mix.stats_s is not None or mix.has_iterations:
        _source(tables, LOG_ID, "server.log", "log", scenario.faults.shift_s[1])
        _log(tables, scenario, generator)
    if mix.has_tokens:
        _source(tables, CLIENT_ID, "requests.jsonl", "client", scenario.faults.shift_s[2])
        _client(tables, scenario, generator)
    if scenario.has_copies:
        _source(tables, TRACE_ID, "trace.nsys-rep", "trace", 0.0)
        _copies(tables, scenario)
    return tables.tables


def _source(tables: Tables, source_id: int, path: str, role: str, shift_s: float) -> None:
    tables["sources"].add(source_id=source_id, path=path, reader=role, role=role, status="read")
    tables["clocks"].add(
        source_id=source_id, offset_ns=round(-shift_s * S), uncertainty_ns=1_000_000, method="given"
    )


def _src_ns(second: float, shift_s: float) -> int:
    return round((second + shift_s) * S)


class _Exposed:
    """What one engine exposes at a time: the values of the last step that ended."""

    def __init__(self, history: History, reset_s: float | None) -> None:
        self.steps = history.steps
        self.ends = [step.end_s for step in history.steps]
        self.reset = self.last(reset_s) if reset_s is not None else None
        self.reset_s = reset_s
        gaps = sorted(
            (later, later - earlier)
            for request in history.requests
            for earlier, later in pairwise(request.token_seconds)
        )
        self.gap_times = {bound: [time for time, gap in gaps if gap <= bound] for bound in _BOUNDS}

    def last(self, second: float) -> Step | None:
        index = bisect_right(self.ends, second)
        return self.steps[index - 1] if index else None

    def value(self, name: str, second: float) -> float:
        step = self.last(second)
        value = float(getattr(step, name)) if step is not None else 0.0
        if name in _COUNTERS and self.reset is not None and second >= (self.reset_s or 0.0):
            value -= float(getattr(self.reset, name))
        return value

    def cumulative(self, bound: float, second: float) -> float:
        since = self.reset_s if self.reset is not None and second >= (self.reset_s or 0.0) else None
        times = self.gap_times[bound]
        return float(bisect_right(times, second) - (bisect_left(times, since) if since is not None else 0))


def scrape_times(scenario: Scenario, generator: random.Random) -> list[tuple[float, float]]:
    """Return the scrapes as (second of the answer, second of the values in it)."""
    faults, distance = scenario.faults, scenario.mix.scrape_s or 1.0
    times = []
    caught_up = 0
    second = generator.uniform(0, distance)
    while second < DURATION_S:
        at = second + abs(generator.gauss(0, 0.01))
        second += distance
        if _is_lost(at, faults, generator):
            continue
        if faults.stall and faults.stall[0] <= at < sum(faults.stall):
            # The scraper hangs: its answers come in one burst, all but the last with the values of the start.
            caught_up += 1
            times.append((sum(faults.stall) + 0.01 * caught_up, faults.stall[0]))
        else:
            times.append((at, at))
    if caught_up:
        last = sum(faults.stall or ()) + 0.01 * caught_up
        times = [(last, last) if at == last else (at, valued_at) for at, valued_at in times]
    return sorted(times)


def _is_lost(second: float, faults: Faults, generator: random.Random) -> bool:
    in_hole = faults.hole is not None and faults.hole[0] <= second < sum(faults.hole)
    return generator.random() < faults.lost_ratio or in_hole


def _scrapes(tables: Tables, scenario: Scenario, generator: random.Random) -> None:
    mix, shift = scenario.mix, scenario.faults.shift_s[0]
    names = dict(_GAUGES)
    if scenario.histories[0].engine.mode == "swap":
        names["swapped"] = "vllm:num_requests_swapped"
    names |= {
        field: name
        for field, name in _COUNTERS.items()
        if field in ("generated", "prompted")
        or (field == "preemptions" and mix.has_counter)
        or (field == "finished" and mix.has_finished)
    }
    if scenario.is_retracting:
        names = {field: _RETRACTING_NAMES[field] for field in names if field in _RETRACTING_NAMES}
    engines = [_Exposed(history, scenario.faults.reset_s) for history in scenario.histories]
    for engine_no in range(len(engines)):
        first_id = engine_no * _SERIES_PER_ENGINE
        for offset, (field, name) in enumerate(names.items()):
            kind = "counter" if field in _COUNTERS else "gauge"
            tables["raw_metric_series"].add(
                source_id=METRICS_ID, series_id=first_id + offset, name=name, kind=kind, engine=str(engine_no)
            )
        for offset, bound in enumerate(_BOUNDS if mix.has_histogram else ()):
            tables["raw_metric_series"].add(
                source_id=METRICS_ID,
                series_id=first_id + 50 + offset,
                name="vllm:inter_token_latency_seconds_bucket",
                kind="histogram",
                engine=str(engine_no),
                le=bound,
            )
    for number, (at, valued_at) in enumerate(scrape_times(scenario, generator)):
        src_ns = _src_ns(at, shift)
        tables["raw_metric_scrapes"].add(
            source_id=METRICS_ID, scrape_no=number, src_ns=src_ns, end_src_ns=src_ns, is_timed=True
        )
        for engine_no, exposed in enumerate(engines):
            first_id = engine_no * _SERIES_PER_ENGINE
            for offset, field in enumerate(names):
                tables["raw_metric_samples"].add(
                    source_id=METRICS_ID,
                    scrape_no=number,
                    series_id=first_id + offset,
                    value=exposed.value(field, valued_at),
                )
            for offset, bound in enumerate(_BOUNDS if mix.has_histogram else ()):
                tables["raw_metric_samples"].add(
                    source_id=METRICS_ID,
                    scrape_no=number,
                    series_id=first_id + 50 + offset,
                    value=exposed.cumulative(bound, valued_at),
                )


def _log(tables: Tables, scenario: Scenario, generator: random.Random) -> None:
    """Add the log's lines in order of time; stamps are whole seconds."""
    lines: list[tuple[float, int, str, dict[str, object]]] = []
    for engine_no, history in enumerate(scenario.histories):
        if scenario.mix.stats_s is not None:
            lines += [
                (at, engine_no, "raw_log_stats", values)
                for at, values in _stats(history, scenario.mix.stats_s, generator)
            ]
        if scenario.mix.has_iterations and not scenario.is_retracting:
            lines += [
                (step.end_s, engine_no, "raw_log_iterations", _iteration(number, step))
                for number, step in enumerate(history.steps)
                if step.context_requests + step.generation_requests
            ]
        if scenario.is_retracting:
            victims = Counter(event.second for event in history.preemptions)
            lines += [
                (
                    at,
                    engine_no,
                    "raw_log_events",
                    {"kind": "retract", "mode": "retract", "event_count": count},
                )
                for at, count in victims.items()
            ]
        if scenario.has_warnings:
            lines += [
                (event.second, engine_no, "raw_log_events", _warning(number, history))
                for number, event in enumerate(history.preemptions)
                if number % 50 == 0
            ]
        if scenario.has_offload:
            lines += [
                (step.end_s, engine_no, "raw_log_events", {"kind": "kv_transfer", "bytes": 1 << 24})
                for step in history.steps[:: max(1, len(history.steps) // 100)]
            ]
    lines.sort(key=lambda line: line[:2])
    shift = scenario.faults.shift_s[1]
    for number, (at, engine_no, table, values) in enumerate(lines, start=2):
        stamp_ns = math.floor(at + shift) * S
        tables[table].add(source_id=LOG_ID, line_no=number, src_ns=stamp_ns, engine=str(engine_no), **values)
    if scenario.faults.is_limit_stated:
        limit = scenario.histories[0].engine.running_limit
        tables["raw_settings"].add(
            source_id=LOG_ID, line_no=1, scope="", name="max_num_seqs", value=str(limit)
        )


def _stats(
    history: History, distance: float, generator: random.Random
) -> Iterator[tuple[float, dict[str, object]]]:
    """Yield the stats lines of one engine; an idle engine prints none."""
    exposed = _Exposed(history, None)
    second = generator.uniform(0.2, distance)
    mode = history.engine.mode
    generated = prompted = 0.0
    while second < DURATION_S:
        step = exposed.last(second)
        second_of_line, second = second, second + distance + generator.uniform(0, 0.02)
        if step is None or step.running + step.waiting + step.swapped == 0 == step.generated - generated:
            continue
        yield (
            second_of_line,
            {
                "engine_count": 1,
                "kv_semantics": _SEMANTICS.get(mode, "referenced_blocks"),
                "is_action_logged": mode == "retract",
                "prompt_tokens_per_s": (step.prompted - prompted) / distance,
                "gen_tokens_per_s": (step.generated - generated) / distance,
                "running_count": step.running,
                "waiting_count": step.waiting,
                "swapped_count": step.swapped if mode == "swap" else None,
                "kv_used_ratio": round(step.kv_used_ratio, 3),
            },
        )
        generated, prompted = step.generated, step.prompted


def _iteration(number: int, step: Step) -> dict[str, object]:
    return {
        "iteration": number,
        "context_requests": step.context_requests,
        "context_tokens": step.context_tokens,
        "generation_requests": step.generation_requests,
        "generation_tokens": step.generation_tokens,
        "elapsed_ms": round((step.end_s - step.start_s) * 1000, 2),
        "kv_used_ratio": round(step.kv_used_ratio, 4),
    }


def _warning(number: int, history: History) -> dict[str, object]:
    return {"kind": "preempt", "mode": history.engine.mode, "cumulative_count": number + 1}


def _client(tables: Tables, scenario: Scenario, generator: random.Random) -> None:
    shift = scenario.faults.shift_s[2]
    number = 0
    for history in scenario.histories:
        for request in history.requests:
            if not request.token_seconds:
                continue
            seconds = [second + generator.uniform(0.001, 0.008) for second in request.token_seconds]
            arrival = request.arrival
            tables["raw_client_requests"].add(
                source_id=CLIENT_ID,
                request_no=number,
                request_id=f"r{number}",
                submit_src_ns=_src_ns(arrival.second, shift),
                first_token_src_ns=_src_ns(seconds[0], shift),
                done_src_ns=_src_ns(seconds[-1], shift),
                ttft_ns=round((seconds[0] - arrival.second) * S),
                prompt_tokens=arrival.prompt_tokens,
                output_tokens=len(seconds),
            )
            for chunk, second in enumerate(seconds):
                tables["raw_client_tokens"].add(
                    source_id=CLIENT_ID,
                    request_no=number,
                    chunk_no=chunk,
                    src_ns=_src_ns(second, shift),
                    tokens=1,
                )
            number += 1


def _copies(tables: Tables, scenario: Scenario) -> None:
    """Add the block-sized copies of a trace: victims that leave, or blocks that are written through."""
    for engine_no, history in enumerate(scenario.histories):
        times = [event.second + 0.002 for event in history.preemptions]
        if scenario.has_offload:
            times = [step.start_s + 0.002 for step in history.steps[:: max(1, len(history.steps) // 50)]]
        for second in times:
            tables["transfers"].add(
                replica_id=str(engine_no),
                source_id=TRACE_ID,
                transfer_id=tables["transfers"].height,
                kind="dtoh",
                bytes=1 << 24,
                copy_ns=1_000_000,
                is_kv_swap=True,
                start_ns=round(second * S),
                end_ns=round(second * S) + 1_000_000,
            )
