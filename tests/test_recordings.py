"""A few recorded runs end to end: what a right diagnosis says of each (all of them: make accuracy)."""

import duckdb
import pytest

from accuracy.recordings import ROOT, WHY_SKIPPED, recording, without_counter
from accuracy.score import S, read
from kvcliff.store.ingest import stage_run
from kvcliff.store.plan import plan_run

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=WHY_SKIPPED)


def test_swap_point_of_a_ramp_is_confirmed_and_dated() -> None:
    run = recording("vllm_cpu/kv_stress_1")
    reading = read(run, run.folder)
    (point,) = reading.points
    assert (point.point_class, point.l_status) == ("confirmed", "worse")
    assert abs(reading.delta_ns or S) < S // 10
    assert reading.is_inside_error


def test_swap_point_is_found_without_counter_and_warnings(tmp_path) -> None:
    run = recording("memory_gap/llama-2-13b/96")
    reading = read(run, without_counter(run.folder, tmp_path))
    (point,) = reading.points
    assert (point.point_class, point.l_status) == ("probable", "not_measurable")
    assert abs(reading.delta_ns or 9 * S) < 2 * S
    assert reading.is_inside_error
    assert reading.clock_excess_ns is not None
    assert reading.clock_excess_ns <= S // 2


@pytest.mark.parametrize(
    ("name", "causes"),
    [
        ("vllm_cpu/prefill_burst", ["prefill", "prefill", "prefill"]),
        ("vllm_cpu/cpu_hog", ["cpu"]),
        ("vllm_cpu/decode_growth", []),
    ],
)
def test_slow_runs_with_room_in_the_cache_are_no_swap_point(name: str, causes: list[str]) -> None:
    run = recording(name)
    with duckdb.connect() as con:
        stage_run(con, plan_run(run.folder))
        assert con.execute("select count(*) from swap_points").fetchone() == (0,)
        jumps = con.execute("select cause from latency_jumps order by jump_id").fetchall()
    assert [cause for (cause,) in jumps] == causes


def test_latency_plateau_below_the_ceiling_is_no_swap_point() -> None:
    run = recording("memory_gap/opt-1.3b/768")
    assert read(run, run.folder).points == ()
