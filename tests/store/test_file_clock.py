"""file_clock: which clock a file keeps, told by its beginning."""

import json
import sqlite3
from pathlib import Path

import pytest

from builders_clients import aiperf_record, lines_of, sglang_result
from builders_metrics import bench_result
from kvcliff.store.file_clock import FileClock, file_clock
from kvcliff.store.plan import plan_run

SCRAPE = "vllm:num_requests_running 3\n"


def clock_of(folder: Path, name: str, text: str) -> FileClock:
    """Return the clock of the one file of a run."""
    path = folder / "run" / name
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    (planned,) = plan_run(path.parent).sources
    return file_clock(planned)


@pytest.mark.parametrize(
    ("step", "resolution_ns"), [("", 10**9), ("251", 10**6), ("250125", 10**3), ("250125001", 1)]
)
def test_scrapes_are_utc_as_fine_as_their_markers(step: str, resolution_ns: int, tmp_path: Path) -> None:
    text = "".join(f"# scrape {1_896_134_400 + second}{step}\n{SCRAPE}" for second in range(5))
    assert clock_of(tmp_path, "m.prom", text) == FileClock("utc", "UTC", resolution_ns)


def test_too_few_times_tell_no_resolution(tmp_path: Path) -> None:
    assert clock_of(tmp_path, "m.prom", "# scrape 1896134400\n" + SCRAPE) == FileClock("utc", "UTC", None)


def test_scrapes_without_times_have_no_clock(tmp_path: Path) -> None:
    assert clock_of(tmp_path, "m.prom", 2 * SCRAPE).kind == "none"


def test_local_and_relative_tables(tmp_path: Path) -> None:
    rows = "".join(f"2026/11/30 12:00:0{second}.250, 0, 9{second} %\n" for second in range(5))
    for name in "ab":
        (tmp_path / name).mkdir()
    local = clock_of(tmp_path / "a", "gpu.csv", "timestamp, index, utilization.gpu [%]\n" + rows)
    assert local == FileClock("local", "local time without zone", 10_000_000)
    table = "time [s],num_requests_running\n" + "".join(f"{second}.5,3\n" for second in range(5))
    assert clock_of(tmp_path / "b", "series.csv", table) == FileClock("relative", "relative", 100_000_000)


def test_clients_keep_utc_a_clock_of_their_own_or_none(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    records = lines_of(*(aiperf_record(number) for number in range(5)))
    assert clock_of(tmp_path / "a", "profile_export.jsonl", records).words == "UTC"
    assert clock_of(tmp_path / "b", "b.json", json.dumps(bench_result())).words == "relative (monotonic)"
    assert clock_of(tmp_path / "c", "s.jsonl", lines_of(sglang_result())).kind == "none"


def test_log_without_zone_and_year(tmp_path: Path) -> None:
    line = "INFO 11-30 12:00:0{} [loggers.py:127] Engine 000: Avg prompt throughput: 1.0 tokens/s, "
    rest = "Avg generation throughput: 2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
    end = "GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%\n"
    text = "".join(line.format(second) + rest + end for second in range(5))
    assert clock_of(tmp_path, "server.log", text) == FileClock(
        "local", "local time without zone and year", 10**9
    )


def test_trace_states_its_start_or_not(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with sqlite3.connect(run / "t.sqlite") as db:
        db.execute("create table CUPTI_ACTIVITY_KIND_KERNEL (start int, end int, shortName int)")
        db.execute("create table StringIds (id int, value text)")
    db.close()
    assert file_clock(plan_run(run).sources[0]).kind == "relative"
    with sqlite3.connect(run / "t.sqlite") as db:
        db.execute("create table TARGET_INFO_SESSION_START_TIME (utcEpochNs int)")
    db.close()
    assert file_clock(plan_run(run).sources[0]).kind == "utc"


def test_files_of_no_use_and_broken_ones_have_none(tmp_path: Path) -> None:
    assert clock_of(tmp_path, "notes.txt", "hello\n") == FileClock("none", "none")
