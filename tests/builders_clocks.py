"""Raw rows of one small invented load test, seen by four witnesses whose clocks may be wrong."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import polars as pl

from kvcliff.clocks.align import align_clocks
from kvcliff.readers import (
    client_kvcliff,
    client_vllm_bench,
    device_metrics,
    log,
    nsight_systems,
    prometheus,
    series_csv,
)
from kvcliff.readers.base import ReadContext, Reader, Source
from kvcliff.readers.run_config import RunConfig
from kvcliff.resources import sql_root

S = 1_000_000_000
MS = 1_000_000
_PPM = 1_000_000
#: 2026-03-05 10:00:00 UTC, when the invented load begins.
BEGIN_NS = 1_772_704_800 * S
#: What takes stamps of the nominal year 2000 to 2026 (no leap day between 5 March 2000 and 5 March 2026).
YEAR_NS = (1_772_704_800 - 952_250_400) * S

_SOURCES = """
create or replace temp table sources (
    source_id integer, path varchar, reader varchar, role varchar, level varchar, replica varchar
)
"""
_CLOCKS = """
create or replace temp table clocks (
    source_id integer, offset_ns bigint, uncertainty_ns bigint, method varchar, reference_source_id integer,
    residual_ns bigint, note varchar
)
"""
READERS: tuple[Reader, ...] = (
    log.READER,
    prometheus.READER,
    series_csv.READER,
    device_metrics.READER,
    client_kvcliff.READER,
    client_vllm_bench.READER,
    nsight_systems.READER,
)


@dataclass(frozen=True)
class Clock:
    """One row of ``clocks``."""

    offset_ns: int
    uncertainty_ns: int | None
    method: str
    reference_source_id: int | None
    residual_ns: int | None
    note: str | None


class Run:
    """Temporary tables of one run and the sources in them."""

    def __init__(self) -> None:
        self.con = duckdb.connect()
        for path in sorted((sql_root() / "raw").glob("*.sql")):
            self.con.execute(
                f"create or replace temp table {path.stem} as {path.read_text(encoding='utf-8')}"
            )
        self.con.execute(_SOURCES)
        self.con.execute(_CLOCKS)
        self.ids: dict[str, int] = {}

    def add(self, path: str, role: str, *, level: str | None = None, replica: str | None = None) -> int:
        """Register a source and return its id."""
        self.ids[path] = len(self.ids) + 1
        self.con.execute(
            "insert into sources values (?, ?, 'built', ?, ?, ?)",
            [self.ids[path], path, role, level, replica],
        )
        return self.ids[path]

    def put(self, source_id: int, table: str, rows: Iterable[dict[str, object]]) -> None:
        """Append rows to a raw table; columns that are left out are NULL."""
        frame = pl.DataFrame(list(rows), infer_schema_length=None)
        if frame.height > 0:
            self.put_frame(source_id, table, frame)

    def put_frame(self, source_id: int, table: str, frame: pl.DataFrame) -> None:
        """Append a frame to a raw table."""
        columns = ", ".join(frame.columns)
        self.con.register("rows_to_put", frame)
        self.con.execute(
            f"insert into {table} (source_id, {columns}) select {source_id}, {columns} from rows_to_put"
        )
        self.con.unregister("rows_to_put")

    def set(self, source_id: int, **settings: str) -> None:
        """Add settings of a source."""
        self.put(
            source_id,
            "raw_settings",
            [{"line_no": 1, "scope": "", "name": name, "value": value} for name, value in settings.items()],
        )

    def align(self, config: RunConfig | None = None) -> dict[str, Clock]:
        """Align the clocks and return them by path."""
        self.con.execute("delete from clocks")
        align_clocks(self.con, config or RunConfig())
        rows = self.con.execute("select * from clocks order by source_id").fetchall()
        paths = {source_id: path for path, source_id in self.ids.items()}
        return {paths[row[0]]: Clock(*row[1:]) for row in rows}


class _RunSink:
    def __init__(self, run: Run, source_id: int) -> None:
        self.run, self.source_id = run, source_id

    def append(self, table: str, frame: pl.DataFrame) -> int:
        if frame.height > 0:
            self.run.put_frame(self.source_id, table, frame)
        return frame.height


def read_files(paths: Iterable[Path]) -> Run:
    """Return a run with the rows of real files; files that no reader knows are left out."""
    run = Run()
    for path in paths:
        source = Source(path, path.name)
        sniffs = [(reader.sniff(source).score, reader) for reader in READERS]
        score, reader = max(sniffs, key=lambda entry: entry[0])
        if score > 0:
            source_id = run.add(path.name, reader.role)
            reader.load(source, _RunSink(run, source_id), ReadContext())
    return run


#: Columns with times on the source's own clock, by raw table.
SHIFTED_COLUMNS = {
    "raw_metric_scrapes": ("src_ns", "end_src_ns"),
    "raw_client_requests": ("submit_src_ns", "first_token_src_ns", "done_src_ns"),
    "raw_client_tokens": ("src_ns",),
    "raw_log_stats": ("src_ns",),
    "raw_log_iterations": ("src_ns",),
    "raw_log_events": ("src_ns",),
    "raw_log_access": ("after_src_ns", "before_src_ns"),
    "raw_nvtx_ranges": ("start_src_ns", "end_src_ns"),
}


def shift_source(run: Run, path: str, shift_ns: int) -> None:
    """Move all times of a source, as if its clock ran ahead by that much."""
    for table, columns in SHIFTED_COLUMNS.items():
        moves = ", ".join(f"{column} = {column} + ({shift_ns})" for column in columns)
        run.con.execute(f"update {table} set {moves} where source_id = ?", [run.ids[path]])


def distort(run: Run, path: str, *, shift_ns: int, drift_ppm: int) -> tuple[int, int]:
    """Let the clock of a source run ahead and too fast.

    Returns:
        How far it is ahead at the first and at the last time of the source [ns].
    """
    source_id = run.ids[path]
    spans = [
        run.con.execute(
            f"select min({name}), max({name}) from {table} where source_id = ?", [source_id]
        ).fetchone()
        for table, names in SHIFTED_COLUMNS.items()
        for name in names
    ]
    first = min(span[0] for span in spans if span is not None and span[0] is not None)
    last = max(span[1] for span in spans if span is not None and span[1] is not None)
    for table, names in SHIFTED_COLUMNS.items():
        moves = ", ".join(
            f"{name} = {name} + ({shift_ns}) + ({name} - ({first})) * ({drift_ppm}) // {_PPM}"
            for name in names
        )
        run.con.execute(f"update {table} set {moves} where source_id = ?", [source_id])
    return shift_ns, shift_ns + (last - first) * drift_ppm // _PPM


def holds(clock: Clock, truth_ns: int, ahead_ns: tuple[int, int]) -> bool:
    """Return whether the stated uncertainty covers the clock's error at both ends of the source."""
    return clock.uncertainty_ns is not None and all(
        abs(clock.offset_ns - (truth_ns - ahead)) <= clock.uncertainty_ns for ahead in ahead_ns
    )


@dataclass(frozen=True)
class Step:
    """One engine step of the invented load (true UTC)."""

    end_ns: int
    elapsed_ns: int
    entering: tuple[int, ...]
    going_on: tuple[int, ...]
    kv_blocks: int


class Load:
    """An invented load test: users that come and go, one engine step after the other."""

    def __init__(self, *, user_count: int = 5, duration_s: int = 40, seed: int = 3) -> None:
        chance = random.Random(seed)
        self.steps: list[Step] = []
        self.submits: dict[int, int] = {}
        self.tokens: dict[int, list[int]] = {}
        self.wanted: dict[int, int] = {}
        now = BEGIN_NS
        arrivals = [(now + chance.randrange(0, 6 * S), user) for user in range(user_count)]
        while now < BEGIN_NS + duration_s * S or any(self._is_open(request) for request in self.submits):
            for at, user in sorted(arrivals):
                if at <= now and at < BEGIN_NS + duration_s * S:
                    arrivals.remove((at, user))
                    request = len(self.submits)
                    self.submits[request], self.tokens[request] = at, []
                    self.wanted[request] = chance.randrange(20, 120)
            open_requests = [request for request in self.submits if self._is_open(request)]
            if not open_requests:
                if now > BEGIN_NS + (duration_s + 2) * S:
                    break
                now += 5 * MS
                continue
            entering = tuple(request for request in open_requests if not self.tokens[request])
            going_on = tuple(request for request in open_requests if self.tokens[request])
            elapsed = 14 * MS + 8 * MS * len(entering) + chance.randrange(0, 3 * MS)
            now += elapsed + chance.randrange(MS // 5, MS)
            self.steps.append(Step(now, elapsed, entering, going_on, len(open_requests)))
            for request in open_requests:
                self.tokens[request].append(now)
                if not self._is_open(request):
                    arrivals.append((now + chance.randrange(S // 5, 2 * S), request))
        self.end_ns = now
        self.chance = chance

    def _is_open(self, request: int) -> bool:
        return len(self.tokens[request]) < self.wanted[request]

    # ---- witnesses

    def add_log(
        self, run: Run, *, ahead_ns: int = 0, path: str = "server.log", has_steps: bool = True
    ) -> int:
        """Write the log: local whole seconds without year or zone, ``ahead_ns`` ahead of UTC."""
        source_id = run.add(path, "log")
        rows = []
        for number, step in enumerate(self.steps):
            row = {
                "line_no": 10 + number,
                "src_ns": (step.end_ns + MS + ahead_ns) // S * S - YEAR_NS,
                "engine": "0",
                "iteration": number,
                "context_requests": len(step.entering),
                "context_tokens": 64 * len(step.entering),
                "generation_requests": len(step.going_on),
                "generation_tokens": len(step.going_on),
                "elapsed_ms": step.elapsed_ns / MS,
                "is_dummy": False,
            }
            rows.append(row)
        if has_steps:
            run.put(source_id, "raw_log_iterations", rows)
        run.put(source_id, "raw_log_stats", self._stats(ahead_ns))
        run.set(
            source_id,
            log_stamp_year_known="false",
            log_stamp_zone_known="false",
            log_stamp_resolution_ns=str(S),
        )
        return source_id

    def _stats(self, ahead_ns: int) -> list[dict[str, object]]:
        return [
            {
                "line_no": 100_000 + number,
                "src_ns": (at + ahead_ns) // S * S - YEAR_NS,
                "engine": "0",
                "running_count": self.running_at(at),
                "waiting_count": 0,
            }
            for number, at in enumerate(range(BEGIN_NS, self.end_ns + 2 * S, S))
        ]

    def running_at(self, at_ns: int) -> int:
        """Return how many requests the engine works on."""
        return sum(
            1
            for tokens, wanted in zip(self.tokens.values(), self.wanted.values(), strict=True)
            if tokens and tokens[0] <= at_ns and (len(tokens) < wanted or tokens[-1] > at_ns)
        )

    def scrape_times(self, interval_ns: int) -> list[int]:
        """Return when scrapes were taken (true UTC)."""
        return list(range(BEGIN_NS - 900 * MS, self.end_ns + S, interval_ns))

    def add_scrapes(
        self, run: Run, *, ahead_ns: int = 0, path: str = "metrics.prom", interval_ns: int = 200 * MS
    ) -> int:
        """Write scrapes stamped in UTC by a clock that is ``ahead_ns`` ahead."""
        source_id = run.add(path, "metrics")
        names = (
            "vllm:time_to_first_token_seconds_count",
            "vllm:request_success_total",
            "vllm:iteration_tokens_total_count",
            "vllm:generation_tokens_total",
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
        )
        firsts = sorted(tokens[0] for tokens in self.tokens.values() if tokens)
        dones = sorted(tokens[-1] for tokens in self.tokens.values() if tokens)
        every = sorted(token for tokens in self.tokens.values() for token in tokens)
        ends = [step.end_ns for step in self.steps]
        scrapes, samples = [], []
        for number, at in enumerate(self.scrape_times(interval_ns)):
            scrapes.append(
                {
                    "scrape_no": number,
                    "src_ns": at + ahead_ns,
                    "end_src_ns": at + ahead_ns + 6 * MS,
                    "is_timed": True,
                }
            )
            counts = [
                sum(1 for when in times if when <= at + 3 * MS) for times in (firsts, dones, ends, every)
            ]
            for series_id, value in enumerate([*counts, self.running_at(at), 0]):
                samples.append({"scrape_no": number, "series_id": series_id, "value": float(value)})
        run.put(source_id, "raw_metric_scrapes", scrapes)
        run.put(
            source_id,
            "raw_metric_series",
            [
                {"series_id": n, "name": name, "kind": "counter", "engine": "0"}
                for n, name in enumerate(names)
            ],
        )
        run.put(source_id, "raw_metric_samples", samples)
        run.set(source_id, series_clock="unix")
        return source_id

    def add_client(
        self,
        run: Run,
        *,
        ahead_ns: int = 0,
        path: str = "requests.jsonl",
        clock: str = "unix",
        requests: range | None = None,
    ) -> int:
        """Write the client's view: each token a little later than the engine made it."""
        source_id = run.add(path, "client")
        rows, chunks = [], []
        for request, tokens in self.tokens.items():
            if requests is not None and request not in requests:
                continue
            seen = [token + MS + ahead_ns for token in tokens]
            rows.append(
                {
                    "request_no": request,
                    "submit_src_ns": self.submits[request] + ahead_ns,
                    "first_token_src_ns": seen[0],
                    "done_src_ns": seen[-1] + MS // 10,
                    "output_tokens": len(seen),
                    "is_error": False,
                }
            )
            chunks += [
                {"request_no": request, "chunk_no": n, "src_ns": at, "tokens": 1} for n, at in enumerate(seen)
            ]
        run.put(source_id, "raw_client_requests", rows)
        run.put(source_id, "raw_client_tokens", chunks)
        run.set(source_id, client_clock=clock)
        return source_id

    def add_trace(
        self, run: Run, *, epoch_ns: int, path: str = "run.sqlite", steps: slice = slice(None)
    ) -> int:
        """Write a trace of some steps; its session starts 5 s before the load, ``epoch_ns`` by its clock."""
        source_id = run.add(path, "trace")
        rows = [
            {
                "range_no": number,
                "process_id": 77,
                "thread_id": 1,
                "domain": "",
                "style": "push_pop",
                "is_open": False,
                "name": f"execute_context_{len(step.entering)}({64 * len(step.entering)})"
                f"_generation_{len(step.going_on)}({len(step.going_on)})",
                "start_src_ns": step.end_ns - step.elapsed_ns - BEGIN_NS + 5 * S,
                "end_src_ns": step.end_ns - BEGIN_NS + 5 * S,
            }
            for number, step in enumerate(self.steps[steps])
        ]
        run.put(source_id, "raw_nvtx_ranges", rows)
        run.put(
            source_id, "raw_capture_facts", [{"scope": "", "name": "utc_epoch_ns", "value": str(epoch_ns)}]
        )
        return source_id

    def add_access_lines(
        self, run: Run, source_id: int, *, ahead_ns: int, interval_ns: int, probes: int
    ) -> None:
        """Add the access lines of the scrapes to a log, some probes before them, counted between stamps."""
        lines = [BEGIN_NS - 20 * S + n * S for n in range(probes)] + self.scrape_times(interval_ns)
        stamps = [BEGIN_NS - 30 * S, *range(BEGIN_NS - 5 * S, self.end_ns + 10 * S, 5 * S)]
        rows = []
        for number, (after, before) in enumerate(pairwise(stamps)):
            count = sum(1 for at in lines if after < at <= before)
            if count:
                rows.append(
                    {
                        "line_no": number,
                        "path_class": "metrics",
                        "status": 200,
                        "access_count": count,
                        "after_src_ns": (after + ahead_ns) // S * S - YEAR_NS,
                        "before_src_ns": (before + ahead_ns) // S * S - YEAR_NS,
                    }
                )
        run.put(source_id, "raw_log_access", rows)
