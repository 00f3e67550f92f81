"""Clocks: every source finds its place on the run clock, within the uncertainty that it states."""

import csv
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from builders_clocks import BEGIN_NS, MS, YEAR_NS, Load, Run, S, read_files, shift_source
from kvcliff.clocks.fit import fit_events
from kvcliff.clocks.metric_events import read_metric_events
from kvcliff.clocks.shape import fit_load
from kvcliff.readers.run_config import FileRule, RunConfig

SHARED = Path(__file__).resolve().parents[3] / "shared"
VLLM_CPU = SHARED / "corpus" / "serving_runs" / "vllm_cpu"
MEMORY_GAP = SHARED / "corpus" / "serving_runs" / "memory_gap"
MAKE_TRACE = SHARED / "tools" / "make_nsys_sqlite.py"
needs_recordings = pytest.mark.skipif(not VLLM_CPU.is_dir(), reason="the shared recordings are not here")


@pytest.fixture(scope="module")
def load() -> Load:
    return Load()


def _events(times: list[int], *, width: int = 0, first: int = 1) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "ordinal": range(first, first + len(times)),
            "lo_ns": times,
            "hi_ns": [at + width for at in times],
        }
    )


# ---- voting

IRREGULAR = [n * S + (n * n * 37 % 101) * 7 * MS for n in range(60)]


def test_fit_finds_the_difference_whatever_the_numbering() -> None:
    left = _events([at + 5 * S for at in IRREGULAR], width=200 * MS, first=400)
    fit = fit_events(left, _events(IRREGULAR), slack_ns=5 * MS)
    assert fit is not None
    assert abs(fit.difference_ns + 5 * S) <= fit.uncertainty_ns + 200 * MS
    assert fit.uncertainty_ns < 250 * MS
    assert fit.event_count == 60
    assert fit.violated_count == 0


def test_fit_of_a_periodic_load_covers_its_rivals() -> None:
    left = _events([n * S for n in range(60)], width=100 * MS)
    fit = fit_events(left, _events([n * S for n in range(60)]), slack_ns=5 * MS)
    assert fit is not None
    assert len(fit.allowed) > 3
    assert fit.uncertainty_ns > 5 * S


def test_fit_refuses_events_that_have_nothing_in_common() -> None:
    other = [n * 3 * S + (n * n * 53 % 97) * 29 * MS for n in range(60)]
    assert fit_events(_events(IRREGULAR, width=10 * MS), _events(other), slack_ns=5 * MS) is None


def test_fit_needs_enough_events() -> None:
    assert fit_events(_events(IRREGULAR[:4]), _events(IRREGULAR[:4]), slack_ns=5 * MS) is None


def test_fit_survives_lost_events() -> None:
    times = [at for n, at in enumerate(IRREGULAR) if n != 50]
    fit = fit_events(_events(times, width=20 * MS), _events(IRREGULAR), slack_ns=5 * MS)
    assert fit is not None
    assert abs(fit.difference_ns) <= 20 * MS


def test_narrowing_keeps_a_fit_that_another_contradicts(load: Load) -> None:
    near = fit_events(_events(IRREGULAR, width=20 * MS), _events(IRREGULAR), slack_ns=5 * MS)
    far = fit_events(_events([at + 9 * S for at in IRREGULAR]), _events(IRREGULAR), slack_ns=5 * MS)
    assert near is not None
    assert far is not None
    assert near.narrowed_by(far) == near
    assert near.narrowed_by(near).allowed == near.allowed


# ---- events of scrapes


def _counter_run(values: list[float], times_ns: list[int]) -> Run:
    run = Run()
    run.add("metrics.prom", "metrics")
    run.put(
        1,
        "raw_metric_scrapes",
        [
            {"scrape_no": n, "src_ns": at, "end_src_ns": at + MS, "is_timed": True}
            for n, at in enumerate(times_ns)
        ],
    )
    run.put(
        1, "raw_metric_series", [{"series_id": 0, "name": "vllm:num_preemptions_total", "kind": "counter"}]
    )
    run.put(
        1,
        "raw_metric_samples",
        [{"scrape_no": n, "series_id": 0, "value": value} for n, value in enumerate(values)],
    )
    return run


def _preemptions(run: Run) -> list[tuple[int, int, int]]:
    streams = {stream.kind: stream.frame for stream in read_metric_events(run.con, 1)}
    return streams["preemption"].rows()


def test_a_counter_step_lies_between_the_scrapes_around_it() -> None:
    run = _counter_run([3, 3, 5], [0, S, 2 * S])
    assert _preemptions(run) == [(4, S, 2 * S + MS), (5, S, 2 * S + MS)]


def test_a_counter_that_starts_again_counts_on() -> None:
    run = _counter_run([3, 5, 1], [0, S, 2 * S])
    assert [row[0] for row in _preemptions(run)] == [4, 5, 6]


def test_a_burst_of_scrapes_after_a_stall_counts_as_one() -> None:
    times = [0, S, 2 * S, 3 * S, 8 * S, 8 * S + 10 * MS, 8 * S + 20 * MS, 9 * S]
    run = _counter_run([0, 0, 0, 0, 0, 1, 1, 2], times)
    assert _preemptions(run) == [(1, 8 * S, 9 * S + MS), (2, 8 * S, 9 * S + MS)]


def test_absurd_counter_values_are_left_out() -> None:
    assert _preemptions(_counter_run([0, 1e300, 2], [0, S, 2 * S])) == []


# ---- whole runs

SHIFTS_S = [(7200.4, -3.1, 12.25), (-19800.0, 0.75, -2.5), (3.6, 5400.0, -0.9), (0.0, -86400.3, 43210.5)]


@pytest.mark.parametrize("shifts_s", SHIFTS_S)
def test_wrong_clocks_are_found_within_the_stated_uncertainty(
    load: Load, shifts_s: tuple[float, ...]
) -> None:
    log_ns, client_ns, scrape_ns = (round(shift * S) for shift in shifts_s)
    run = Run()
    load.add_log(run, ahead_ns=log_ns)
    load.add_client(run, ahead_ns=client_ns)
    load.add_scrapes(run, ahead_ns=scrape_ns)
    load.add_trace(run, epoch_ns=BEGIN_NS - 5 * S)
    clocks = run.align()
    truth = {"server.log": YEAR_NS - log_ns, "requests.jsonl": -client_ns, "metrics.prom": -scrape_ns}
    assert clocks["run.sqlite"].offset_ns == BEGIN_NS - 5 * S
    assert clocks["run.sqlite"].method == "stated_utc"
    assert clocks["run.sqlite"].uncertainty_ns == 0
    for path, offset_ns in truth.items():
        clock = clocks[path]
        assert clock.uncertainty_ns is not None
        assert abs(clock.offset_ns - offset_ns) <= clock.uncertainty_ns < 100 * MS, path
    assert clocks["server.log"].method == "step_sequence"
    assert "stated UTC contradicted by shared events" in (clocks["requests.jsonl"].note or "")


def test_a_wrong_clock_is_named_with_the_size_of_its_error(load: Load) -> None:
    run = Run()
    load.add_scrapes(run)
    load.add_client(run, ahead_ns=-3100 * MS)
    note = run.align()["requests.jsonl"].note
    assert note is not None
    match = re.fullmatch(
        r"stated UTC contradicted by shared events: its clock was (\d+\.\d{3}) s behind the run clock", note
    )
    assert match is not None
    assert float(match[1]) == pytest.approx(3.1, abs=0.05)


def test_a_stated_utc_that_events_do_not_contradict_stays(load: Load) -> None:
    run = Run()
    load.add_scrapes(run)
    load.add_client(run)
    clocks = run.align()
    assert clocks["metrics.prom"] == type(clocks["metrics.prom"])(0, 0, "stated_utc", None, None, None)
    client = clocks["requests.jsonl"]
    assert (client.offset_ns, client.method, client.reference_source_id) == (0, "stated_utc", 1)
    assert client.uncertainty_ns is not None
    assert 0 < client.uncertainty_ns < 60 * MS
    assert client.note == "stated UTC, not contradicted by shared events"


def test_part_of_a_run_in_the_trace_is_enough(load: Load) -> None:
    run = Run()
    load.add_log(run, ahead_ns=3600 * S)
    load.add_trace(run, epoch_ns=BEGIN_NS - 5 * S, steps=slice(600, 1100))
    clock = run.align()["server.log"]
    assert clock.method == "step_sequence"
    assert clock.uncertainty_ns is not None
    assert abs(clock.offset_ns - (YEAR_NS - 3600 * S)) <= clock.uncertainty_ns < 100 * MS
    assert clock.note == "local time is UTC+01:00; year from shared events"


def test_two_clients_each_find_their_part_of_the_counters(load: Load) -> None:
    run = Run()
    half = len(load.submits) // 2
    load.add_scrapes(run)
    load.add_client(run, requests=range(half))
    load.add_client(
        run, path="bench.json", clock="monotonic", ahead_ns=-BEGIN_NS + 321 * S, requests=range(half, 10**6)
    )
    clocks = run.align()
    bench = clocks["bench.json"]
    assert bench.method == "counter_steps"
    assert bench.uncertainty_ns is not None
    assert abs(bench.offset_ns - (BEGIN_NS - 321 * S)) <= bench.uncertainty_ns < S
    assert clocks["requests.jsonl"].offset_ns == 0


def test_access_lines_tie_a_log_without_steps(load: Load) -> None:
    run = Run()
    log_id = load.add_log(run, ahead_ns=-7200 * S, has_steps=False)
    load.add_access_lines(run, log_id, ahead_ns=-7200 * S, interval_ns=1013 * MS, probes=2)
    load.add_scrapes(run, interval_ns=1013 * MS)
    clock = run.align()["server.log"]
    assert clock.method == "access_order"
    assert clock.uncertainty_ns is not None
    error_ns = abs(clock.offset_ns - (YEAR_NS + 7200 * S))
    assert error_ns < 700 * MS
    assert error_ns <= clock.uncertainty_ns < 4 * S


def test_the_shape_of_the_load_ties_at_last(load: Load) -> None:
    run = Run()
    load.add_log(run, ahead_ns=1800 * S, has_steps=False)
    load.add_scrapes(run)
    clock = run.align()["server.log"]
    assert clock.method == "shape"
    assert clock.uncertainty_ns is not None
    assert abs(clock.offset_ns - (YEAR_NS - 1800 * S)) <= clock.uncertainty_ns
    assert S // 2 <= clock.uncertainty_ns < 5 * S


def test_a_log_and_a_client_without_scrapes(load: Load) -> None:
    run = Run()
    load.add_log(run, ahead_ns=400 * MS)
    load.add_client(run)
    clock = run.align()["server.log"]
    assert clock.method == "token_curve"
    assert clock.note is not None
    assert clock.note.startswith("local time is UTC+00:00; year from shared events; its clock was 0.")
    assert clock.note.endswith("s ahead of the run clock")


def test_the_same_rows_give_the_same_clocks(load: Load) -> None:
    run = Run()
    load.add_log(run, ahead_ns=5 * S)
    load.add_client(run)
    load.add_scrapes(run)
    first = run.align()
    for table in ("raw_log_iterations", "raw_client_tokens", "raw_metric_samples", "raw_metric_scrapes"):
        run.con.execute(
            f"create or replace temp table {table} as select * from {table} order by hash(columns(*))"
        )
    assert run.align() == first


# ---- little is known


def test_a_log_alone_is_its_own_clock(load: Load) -> None:
    run = Run()
    load.add_log(run)
    clock = run.align()["server.log"]
    assert (clock.offset_ns, clock.uncertainty_ns, clock.method) == (0, 0, "log_local")
    assert clock.note == "local time, zone unknown; year unknown"


def test_the_date_of_a_result_gives_a_log_its_year(load: Load) -> None:
    run = Run()
    load.add_log(run)
    result_id = run.add("bench.json", "client")
    end = float(load.end_ns // S * S + 7 * S)
    run.put(result_id, "raw_client_summary", [{"load_no": 0, "name": "end_local_ns", "value": end}])
    clocks = run.align()
    assert clocks["server.log"].offset_ns == YEAR_NS
    assert clocks["server.log"].note == "local time, zone unknown; year from the date of a client's result"
    assert clocks["bench.json"].method == "result_date"
    assert clocks["bench.json"].offset_ns == 0


def test_a_result_of_another_day_gives_no_year(load: Load) -> None:
    run = Run()
    load.add_log(run)
    result_id = run.add("bench.json", "client")
    end = float(load.end_ns + 3 * 86_400 * S)
    run.put(result_id, "raw_client_summary", [{"load_no": 0, "name": "end_local_ns", "value": end}])
    clocks = run.align()
    assert clocks["server.log"].note == "local time, zone unknown; year unknown"
    assert clocks["bench.json"].method == "untied"
    assert clocks["bench.json"].uncertainty_ns is None


def test_outer_stamps_with_a_zone_make_the_run_clock_utc(load: Load) -> None:
    run = Run()
    source_id = run.add("server.log", "log")
    run.put(
        source_id, "raw_log_stats", [{"line_no": 1, "src_ns": BEGIN_NS, "engine": "0", "running_count": 1}]
    )
    run.set(source_id, log_stamp_year_known="true", log_stamp_zone_known="true")
    clock = run.align()["server.log"]
    assert (clock.offset_ns, clock.uncertainty_ns, clock.method) == (0, 0, "stated_zone_utc")
    load.add_client(run)
    clocks = run.align()
    assert clocks["requests.jsonl"].method == "stated_utc"
    assert clocks["server.log"].method == "stated_zone"
    note = "stated UTC, not checked: no events shared with the other sources"
    assert clocks["server.log"].note == f"{note}; its times do not overlap those of the reference"


def _series(run: Run, path: str, times_ns: list[int], role: str = "device") -> int:
    source_id = run.add(path, role)
    rows = [{"src_ns": at, "device_id": 0, "counter": "sm_busy_pct", "value": 1.0} for at in times_ns]
    run.put(source_id, "raw_device_samples", rows)
    run.set(source_id, device_clock="relative")
    return source_id


def test_a_relative_series_alone_starts_at_zero() -> None:
    run = Run()
    _series(run, "gpu.csv", [n * S for n in range(9)])
    clock = run.align()["gpu.csv"]
    assert (clock.offset_ns, clock.uncertainty_ns, clock.method) == (0, 0, "relative_zero")


def test_files_of_one_sampler_share_its_clock_exactly(load: Load) -> None:
    run = Run()
    load.add_log(run)
    load.add_scrapes(run, path="engine_metrics.csv", ahead_ns=-BEGIN_NS + 40 * S)
    run.con.execute("update raw_settings set value = 'relative' where name = 'series_clock'")
    times = [at - BEGIN_NS + 40 * S for at in load.scrape_times(200 * MS)]
    _series(run, "nvidia_smi.csv", times)
    _series(run, "elsewhere/nvidia_smi.csv", [n * S + 7 * 3600 * S for n in range(9)])
    clocks = run.align()
    series, gpu = clocks["engine_metrics.csv"], clocks["nvidia_smi.csv"]
    assert gpu.method == "same_clock"
    assert (gpu.offset_ns, gpu.uncertainty_ns) == (series.offset_ns, series.uncertainty_ns)
    assert series.uncertainty_ns is not None
    assert abs(series.offset_ns - (BEGIN_NS - YEAR_NS - 40 * S)) <= series.uncertainty_ns
    stray = clocks["elsewhere/nvidia_smi.csv"]
    assert (stray.method, stray.uncertainty_ns) == ("untied", None)
    assert stray.note == "times count from an unknown moment; no events shared with the other sources"


def test_what_cannot_be_tied_to_utc_says_so(load: Load) -> None:
    run = Run()
    load.add_client(run)
    source_id = run.add("server.log", "log")
    run.put(source_id, "raw_log_stats", [{"line_no": 1, "src_ns": BEGIN_NS - YEAR_NS, "engine": "0"}])
    clocks = run.align()
    # The engine's own time is the run clock then: nothing of the client may be laid beside it.
    engine, client = clocks["server.log"], clocks["requests.jsonl"]
    assert (engine.offset_ns, engine.uncertainty_ns, engine.method) == (0, 0, "log_local")
    assert engine.note == "local time, zone unknown; year unknown"
    assert (client.uncertainty_ns, client.method) == (None, "untied")
    assert client.note == "it states UTC, but the engine's files do not, and they share no events with it"


def test_a_flat_load_ties_nothing() -> None:
    flat = pl.DataFrame(
        {"lo_ns": [n * S for n in range(50)], "hi_ns": [n * S for n in range(50)]}
    ).with_columns(
        pl.lit(4.0).alias("running"),
        pl.lit(0.0).alias("waiting"),
        pl.lit(4.0).alias("unfinished"),
        pl.lit(0.5).alias("kv"),
    )
    assert fit_load(flat, flat) is None


def test_an_offset_in_run_toml_wins(load: Load) -> None:
    run = Run()
    load.add_scrapes(run)
    load.add_client(run)
    config = RunConfig(files=(FileRule("requests.jsonl", clock_offset_s=-2.5),))
    clocks = run.align(config)
    client = clocks["requests.jsonl"]
    assert (client.offset_ns, client.uncertainty_ns, client.method) == (-2_500_000_000, 0, "manual")
    assert clocks["metrics.prom"].offset_ns == 0


def test_an_offset_in_run_toml_carries_the_files_around_it(load: Load) -> None:
    run = Run()
    load.add_log(run)
    load.add_client(run, clock="monotonic", ahead_ns=-BEGIN_NS + 5 * S)
    config = RunConfig(files=(FileRule("server.log", clock_offset_s=YEAR_NS / S),))
    clocks = run.align(config)
    assert clocks["server.log"].method == "manual_utc"
    client = clocks["requests.jsonl"]
    assert client.uncertainty_ns is not None
    assert abs(client.offset_ns - (BEGIN_NS - 5 * S)) <= client.uncertainty_ns < 100 * MS


def test_levels_are_not_tied_to_each_other(load: Load) -> None:
    run = Run()
    load.add_log(run, path="a/server.log")
    load.add_scrapes(run, path="b/metrics.prom")
    run.con.execute("update sources set level = split_part(path, '/', 1)")
    clocks = run.align()
    assert clocks["b/metrics.prom"].method == "stated_utc"
    assert clocks["a/server.log"].method == "untied"


def test_a_run_without_times_has_no_clocks() -> None:
    run = Run()
    run.add("config.json", "model")
    assert run.align() == {}


# ---- real recordings


def _recording(name: str) -> Run:
    return read_files(path for path in sorted((VLLM_CPU / name).iterdir()) if path.is_file())


LOG_TRUTH_NS = (
    int((datetime(2026, 11, 30, tzinfo=UTC) - datetime(2000, 11, 30, tzinfo=UTC)).total_seconds()) * S
)


@needs_recordings
@pytest.mark.parametrize("name", ["steady", "kv_stress", "prefill_burst", "decode_growth", "kineto"])
def test_recordings_of_one_host(name: str) -> None:
    clocks = _recording(name).align()
    log = next(clock for path, clock in clocks.items() if path.startswith("server.log"))
    assert log.uncertainty_ns is not None
    assert abs(log.offset_ns - LOG_TRUTH_NS) <= log.uncertainty_ns < 300 * MS
    assert (log.note or "").startswith("local time is UTC+00:00")
    client = next(clock for path, clock in clocks.items() if path.startswith("requests.jsonl"))
    assert (client.offset_ns, client.method) == (0, "stated_utc")


@needs_recordings
@pytest.mark.parametrize(
    ("name", "shifts_s"), [("kv_stress_1", (7200.4, -3.1)), ("hit_but_slow", (-5.2, 3599.0))]
)
def test_shifted_recordings(name: str, shifts_s: tuple[float, float]) -> None:
    run = _recording(name)
    log = next(path for path in run.ids if path.startswith("server.log"))
    client = next(path for path in run.ids if path.startswith("requests.jsonl"))
    log_ns, client_ns = (round(shift * S) for shift in shifts_s)
    shift_source(run, log, log_ns)
    shift_source(run, client, client_ns)
    clocks = run.align()
    for path, truth_ns in ((log, LOG_TRUTH_NS - log_ns), (client, -client_ns)):
        uncertainty_ns = clocks[path].uncertainty_ns
        assert uncertainty_ns is not None
        assert abs(clocks[path].offset_ns - truth_ns) <= uncertainty_ns < 200 * MS


def _gap_error_s(folder: str, low_s: float, high_s: float) -> tuple[float, float]:
    """Return how far a run of the memory gap set lies outside its true bounds, and its uncertainty."""
    run = read_files(
        MEMORY_GAP / folder / name
        for name in ("bench.json", "engine_metrics.csv", "nvidia_smi_dmon.csv", "server.log")
    )
    clocks = run.align()
    series, log = clocks["engine_metrics.csv"], clocks["server.log"]
    assert clocks["nvidia_smi_dmon.csv"].method == "same_clock"
    assert clocks["nvidia_smi_dmon.csv"].offset_ns == series.offset_ns
    assert series.uncertainty_ns is not None
    assert log.method == "log_local"
    # The bounds read the log's stamps as 2025, and so does the run clock, thanks to the date of the result.
    zero_s = series.offset_ns / S
    return max(low_s - zero_s, zero_s - high_s, 0.0), series.uncertainty_ns / S


def _gap_truth() -> list[tuple[str, float, float]]:
    path = MEMORY_GAP / "clock_truth.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as file:
        return [(row[0], float(row[1]), float(row[2])) for row in list(csv.reader(file))[1:]]


@needs_recordings
@pytest.mark.parametrize(
    "folder", ["background__llama-2-13b/96", "background__llama-2-13b/128", "background__opt-1.3b/640"]
)
def test_series_of_the_memory_gap_runs(folder: str) -> None:
    low_s, high_s = next((low, high) for name, low, high in _gap_truth() if name == folder)
    outside_s, uncertainty_s = _gap_error_s(folder, low_s, high_s)
    assert outside_s == 0
    assert uncertainty_s < 3


@needs_recordings
@pytest.mark.accuracy
def test_every_series_of_the_memory_gap_runs() -> None:
    truth = _gap_truth()
    outside = {name: _gap_error_s(name, low, high)[0] for name, low, high in truth}
    assert len(outside) == 29
    assert {name: error for name, error in outside.items() if error > 0} == {}


@pytest.mark.slow
@pytest.mark.skipif(not MAKE_TRACE.is_file(), reason="the shared trace generator is not here")
def test_a_generated_run_with_four_clocks(tmp_path: Path) -> None:
    arguments = (
        "--steps 900 --rate 0.25 --prompt 250 --output 450 --serving run --clock-shift=7200.4,-3.1,12.25"
    )
    command = [sys.executable, str(MAKE_TRACE), "run.sqlite", *arguments.split()]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    run = read_files([tmp_path / "run.sqlite", *sorted((tmp_path / "run").iterdir())])
    clocks = run.align()
    assert clocks["run.sqlite"].method == "stated_utc"
    year_ns = int((datetime(2026, 5, 24, tzinfo=UTC) - datetime(2000, 5, 24, tzinfo=UTC)).total_seconds()) * S
    truth = {"server.log": year_ns - 7200_400 * MS, "requests.jsonl": 3100 * MS, "metrics.prom": -12_250 * MS}
    for path, truth_ns in truth.items():
        uncertainty_ns = clocks[path].uncertainty_ns
        assert uncertainty_ns is not None
        assert abs(clocks[path].offset_ns - truth_ns) <= uncertainty_ns < 200 * MS, path
