"""Scrapes without times: placed by the access lines that they left in a log, or left alone."""

from itertools import pairwise
from pathlib import Path

import pytest

from builders_clocks import BEGIN_NS, Run, S, read_files

VLLM_CPU = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "serving_runs" / "vllm_cpu"
needs_recordings = pytest.mark.skipif(not VLLM_CPU.is_dir(), reason="the shared recordings are not here")
STATS_S, SCRAPE_S, COUNT = 10, 2, 60


def add_scrapes(run: Run, count: int = COUNT, path: str = "metrics.prom") -> int:
    source_id = run.add(path, "metrics")
    run.put(
        source_id,
        "raw_metric_scrapes",
        [{"scrape_no": number, "src_ns": None, "is_timed": False} for number in range(count)],
    )
    run.set(source_id, series_clock="none")
    return source_id


def add_log(run: Run, times_ns: list[int], path: str = "server.log", *, stats_s: int = STATS_S) -> int:
    """Write the stamps of a log and the counts of its access lines between them."""
    source_id = run.add(path, "log")
    end_ns = times_ns[-1] + 2 * stats_s * S
    stamps = list(range(BEGIN_NS - stats_s * S, end_ns, stats_s * S))
    run.put(
        source_id,
        "raw_log_stats",
        [{"line_no": n, "src_ns": at, "engine": "0"} for n, at in enumerate(stamps)],
    )
    rows = []
    for number, (after, before) in enumerate(pairwise(stamps)):
        count = sum(after <= at < before for at in times_ns)
        if count:
            window = {"after_src_ns": after, "before_src_ns": before}
            rows.append(
                {"line_no": number, "path_class": "metrics", "status": 200, "access_count": count, **window}
            )
    run.put(source_id, "raw_log_access", rows)
    run.set(
        source_id, log_stamp_year_known="true", log_stamp_zone_known="false", log_stamp_resolution_ns=str(S)
    )
    return source_id


def times(count: int = COUNT, interval_s: int = SCRAPE_S) -> list[int]:
    return [BEGIN_NS + S // 3 + number * interval_s * S for number in range(count)]


def placed(run: Run, source_id: int) -> list[tuple[int | None, bool]]:
    return run.con.execute(
        "select src_ns, is_timed from raw_metric_scrapes where source_id = ? order by scrape_no", [source_id]
    ).fetchall()


@pytest.mark.parametrize("extra_count", [0, 2])
def test_scrapes_take_the_times_of_their_lines(extra_count: int) -> None:
    run = Run()
    add_log(run, times(COUNT + extra_count))
    source_id = add_scrapes(run)
    clock = run.align()["metrics.prom"]
    assert clock.method == "access_order"
    assert "states no times" in (clock.note or "")
    assert clock.uncertainty_ns is not None
    # Which of the further lines are no scrape's is not known: the error covers both ends.
    for first in range(extra_count + 1):
        truth = times(COUNT + extra_count)[first:][:COUNT]
        for (at, is_timed), true_ns in zip(placed(run, source_id), truth, strict=True):
            assert is_timed
            assert at is not None
            assert abs(at - true_ns) <= clock.uncertainty_ns
    assert clock.uncertainty_ns < (STATS_S + 2 + SCRAPE_S * extra_count) * S


@pytest.mark.parametrize("line_count", [COUNT - 1, COUNT + 5, 2 * COUNT])
def test_counts_that_do_not_match_place_nothing(line_count: int) -> None:
    run = Run()
    add_log(run, times(line_count))
    source_id = add_scrapes(run)
    clock = run.align().get("metrics.prom")
    assert clock is None or clock.uncertainty_ns is None
    assert placed(run, source_id) == [(None, False)] * COUNT


def test_stamps_too_far_apart_place_nothing() -> None:
    run = Run()
    add_log(run, times(), stats_s=60)
    source_id = add_scrapes(run)
    run.align()
    assert placed(run, source_id) == [(None, False)] * COUNT


def test_a_silent_stretch_leaves_its_scrapes_alone() -> None:
    run = Run()
    log_id = add_log(run, times())
    # The engine was idle: a minute without any stamp, with its thirty scrapes between two of them.
    low, high = BEGIN_NS + 20 * S, BEGIN_NS + 80 * S
    run.con.execute(
        "update raw_log_access set after_src_ns = ?, before_src_ns = ? "
        "where source_id = ? and after_src_ns >= ? and before_src_ns <= ?",
        [low, high, log_id, low, high],
    )
    source_id = add_scrapes(run)
    clock = run.align()["metrics.prom"]
    found = placed(run, source_id)
    assert sum(not is_timed for _, is_timed in found) == 30
    assert clock.uncertainty_ns is not None
    assert clock.uncertainty_ns < 12 * S


def test_two_logs_or_two_scrapers_place_nothing() -> None:
    run = Run()
    add_log(run, times())
    add_log(run, times(), "other.log")
    source_id = add_scrapes(run)
    run.align()
    assert placed(run, source_id) == [(None, False)] * COUNT
    run = Run()
    add_log(run, times())
    first, second = add_scrapes(run), add_scrapes(run, path="second.prom")
    run.align()
    assert placed(run, first) == placed(run, second) == [(None, False)] * COUNT


def test_scrapes_with_times_keep_them() -> None:
    run = Run()
    add_log(run, times())
    source_id = add_scrapes(run)
    run.con.execute("update raw_metric_scrapes set src_ns = ?, is_timed = true", [BEGIN_NS])
    run.align()
    assert placed(run, source_id) == [(BEGIN_NS, True)] * COUNT


@needs_recordings
@pytest.mark.parametrize("name", ["kv_stress", "steady_1", "hit_but_slow", "steady"])
def test_recordings_without_their_times(name: str) -> None:
    paths = sorted(path for path in (VLLM_CPU / name).iterdir() if path.is_file())
    run = read_files(paths)
    metrics = next(path for path in run.ids if path.startswith("metrics"))
    source_id = run.ids[metrics]
    truth = [at for at, _ in placed(run, source_id)]
    run.con.execute(
        "update raw_metric_scrapes set src_ns = null, end_src_ns = null, is_timed = false "
        "where source_id = ?",
        [source_id],
    )
    run.con.execute("delete from raw_settings where source_id = ? and name = 'series_clock'", [source_id])
    clock = run.align()[metrics]
    found = placed(run, source_id)
    assert clock.method == "access_order"
    assert clock.uncertainty_ns is not None
    assert sum(is_timed for _, is_timed in found) > 0.5 * len(found)
    for (at, is_timed), true_ns in zip(found, truth, strict=True):
        if is_timed:
            assert at is not None
            assert true_ns is not None
            assert abs(at + clock.offset_ns - true_ns) <= clock.uncertainty_ns
