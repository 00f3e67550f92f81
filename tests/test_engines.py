"""Simulated SGLang, TensorRT-LLM and vLLM runs from their files to the verdict, against the truth."""

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from accuracy.engine_sim import Engine, History
from builders_engine_files import (
    at_ns,
    closed_loop,
    request_lines,
    requests_of,
    sglang_log,
    trtllm_iterations,
    vllm_scrapes,
    vllm_v0_log,
    write,
)
from kvcliff.findings.diagnosis import run_findings
from kvcliff.report.focus import Focus
from kvcliff.report.series import read_series
from kvcliff.store.ingest import stage_run
from kvcliff.store.plan import plan_run

END_S = 80


def pressed(clients: int = 40, **engine: object) -> History:
    """Return a run whose clients need more KV than there is."""
    return closed_loop(
        Engine(block_count=600, step_s=0.03, is_counter_late=False, watermark_ratio=0.02, **engine),  # type: ignore[arg-type]
        clients=clients,
        prompt_tokens=128,
        output_tokens=260,
        end_s=END_S,
        until_s=55,
        ramp_s=20,
    )


def diagnosed(folder: Path, files: dict[str, Sequence[str]]) -> duckdb.DuckDBPyConnection:
    """Return the marts and verdicts of a run folder with these files."""
    for name, lines in files.items():
        write(folder, name, lines)
    con = duckdb.connect()
    stage_run(con, plan_run(folder))
    run_findings(con)
    return con


def point(con: duckdb.DuckDBPyConnection, columns: str) -> tuple[object, ...]:
    """Return columns of the only swap point."""
    (row,) = con.execute(f"select {columns} from swap_points").fetchall()
    return tuple(row)


def sentence(con: duckdb.DuckDBPyConnection) -> str:
    """Return what the finding about swap points says."""
    (row,) = con.execute("select summary from findings where finding = 'swap_point'").fetchall()
    return str(row[0])


def is_dated(con: duckdb.DuckDBPyConnection, history: History, most_error_s: float) -> bool:
    """Return whether the first preemption lies in the error bar, which is not too wide."""
    at, error = point(con, "at_ns, error_ns")
    assert isinstance(at, int)
    assert isinstance(error, int)
    # A log without year and zone has its own clock: only the time within the hour is known.
    distance = abs(at - at_ns(history.preemptions[0].second)) % (3600 * 10**9)
    return min(distance, 3600 * 10**9 - distance) <= error <= most_error_s * 1e9


def test_retractions_of_sglang_are_counted_and_dated(tmp_path: Path) -> None:
    history = pressed(mode="retract")
    con = diagnosed(tmp_path, {"server.log": sglang_log(history)})
    assert point(con, "class, mechanism, e_proof") == ("probable", "retract", "log")
    assert f"retracted requests {len(history.preemptions)} times and recomputed them later" in sentence(con)
    assert is_dated(con, history, 1.1)
    # Several lines carry one second; each second counts once.
    blocked_s, length_s = point(con, "blocked_s, (end_ns - at_ns) / 1e9")
    assert 0 < float(str(blocked_s)) <= float(str(length_s)) + 1
    assert len(read_series(con, Focus(None, "0", "", 0)).event_times_ns) > 10


def test_pauses_of_tensorrt_llm_are_counted_and_dated(tmp_path: Path) -> None:
    history = pressed()
    con = diagnosed(
        tmp_path,
        {
            "iterations.jsonl": trtllm_iterations(history),
            "requests.jsonl": request_lines(requests_of(history)),
        },
    )
    assert point(con, "class, mechanism, l_status") == ("confirmed", "pause", "worse")
    assert f"paused requests {len(history.preemptions)} times and recomputed them later" in sentence(con)
    assert is_dated(con, history, 0.2)
    (waiting,) = con.execute("select max(waiting_count) from kv_occupancy").fetchall()[0]
    assert waiting == max(step.waiting for step in history.steps)


def test_swaps_of_an_old_vllm_are_as_many_as_its_warnings_say_at_least(tmp_path: Path) -> None:
    history = pressed(clients=60, mode="swap")
    assert len(history.preemptions) > 51
    con = diagnosed(tmp_path, {"server.log": vllm_v0_log(history)})
    assert point(con, "class, mechanism, e_proof") == ("probable", "swap", "log")
    warned = 50 * ((len(history.preemptions) - 1) // 50) + 1
    assert f"preempted at least {warned} times and swapped the victims to the host" in sentence(con)
    assert is_dated(con, history, 1.1)


@pytest.mark.parametrize("mode", ["retract", "swap"])
def test_log_in_local_time_is_tied_to_its_client_by_the_unfinished_requests(
    tmp_path: Path, mode: str
) -> None:
    history = pressed(clients=60, mode=mode)
    lines = sglang_log(history) if mode == "retract" else vllm_v0_log(history)
    con = diagnosed(tmp_path, {"server.log": lines, "requests.jsonl": request_lines(requests_of(history))})
    (method, offset_ns, error_ns, first_ns) = con.execute(
        """
        select clocks.method, clocks.offset_ns, clocks.uncertainty_ns, min(stats.src_ns)
        from clocks inner join sources using (source_id) inner join raw_log_stats as stats using (source_id)
        where sources.path = 'server.log' group by all
        """
    ).fetchall()[0]
    assert method == "shape"
    # The log's stamps are UTC; those of V0 lack the year, which readers take as 2000.
    year_ns = (
        0 if mode == "retract" else at_ns(0) // 10**9 * 10**9 - first_ns // (3600 * 10**9) * 3600 * 10**9
    )
    assert abs(offset_ns - year_ns) <= error_ns <= 2 * 10**9
    assert point(con, "class, l_status") == ("confirmed", "worse")
    assert con.execute("select (max(end_ns) - min(arrival_ns)) / 1e9 < 100 from requests").fetchall() == [
        (True,)
    ]


def test_client_of_another_load_is_never_laid_beside_the_log(tmp_path: Path) -> None:
    other = requests_of(pressed(clients=9))
    log = vllm_v0_log(pressed(clients=60, mode="swap"), stats_s=8.0)
    con = diagnosed(tmp_path, {"server.log": log, "requests.jsonl": request_lines(other)})
    assert point(con, "class, l_status") == ("probable", "not_measurable")
    assert con.execute("select count(*), count(arrival_ns), count(e2e_ms) > 0 from requests").fetchall() == [
        (len(other), 0, True)
    ]
    (start_ns, end_ns) = con.execute("select started_at_ns, ended_at_ns from runs").fetchall()[0]
    assert end_ns - start_ns < 100 * 10**9
    (trust,) = con.execute("select summary from findings where finding = 'clock_trust'").fetchall()[0]
    assert "cannot be placed on one clock" in trust


def test_one_of_two_replicas_thrashes(tmp_path: Path) -> None:
    busy = pressed()
    calm = pressed(clients=12)
    assert not calm.preemptions
    requests = requests_of(busy, "a") + requests_of(calm, "b")
    con = diagnosed(
        tmp_path,
        {
            "metrics.prom": vllm_scrapes([calm, busy], 1.0, end_s=END_S),
            "requests.jsonl": request_lines(requests),
        },
    )
    assert point(con, "class, replica_id, action_count") == ("probable", "1", len(busy.preemptions))
    assert "token times do not tell which replica served them" in sentence(con)
    assert is_dated(con, busy, 2)


@pytest.mark.parametrize(("until_s", "is_rising"), [(60, True), (20, False)])
def test_ramp_that_ends_below_the_ceiling_is_forecast(
    tmp_path: Path, until_s: float, is_rising: bool
) -> None:
    history = closed_loop(
        Engine(block_count=900, step_s=0.03),
        clients=22,
        prompt_tokens=128,
        output_tokens=900,
        end_s=50,
        until_s=until_s,
        ramp_s=60 if is_rising else 5,
    )
    con = diagnosed(tmp_path, {"metrics.prom": vllm_scrapes([history], 1.0, end_s=50)})
    (row,) = con.execute("select summary from findings where finding = 'headroom'").fetchall()
    assert ("at that pace it reaches its ceiling" in str(row[0])) == is_rising
