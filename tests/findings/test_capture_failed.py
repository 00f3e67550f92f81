"""Captures that failed, that were not meant to show the GPU, that nobody could read, that stop early."""

from typing import Any

import duckdb
import pytest

from builders_marts import add_rows, add_run, empty_marts
from kvcliff.findings import capture_failed
from kvcliff.findings.base import Result


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    con = empty_marts()
    add_run(con)
    con.execute(
        "create or replace temp table captures (level varchar, source_id integer, path varchar, "
        "capability varchar, verdict varchar, reason varchar, event_count bigint, data_until_ns bigint)"
    )
    return con


def _trace(con: duckdb.DuckDBPyConnection, verdict: str, reason: str, **more: Any) -> None:
    number = more.pop("source_id", 1)
    path = more.pop("path", "t.sqlite")
    add_rows(con, "sources", {"source_id": number, "path": path, "role": "trace", "status": "read"})
    state = {"source_id": number, "path": path, "capability": "kernels", "verdict": verdict, "reason": reason}
    add_rows(con, "captures", {**state, **more})


def _result(con: duckdb.DuckDBPyConnection) -> Result:
    (result,) = capture_failed.FINDING.evaluate(con)
    return result


def test_a_failed_capture_is_told_with_its_meaning(con: duckdb.DuckDBPyConnection) -> None:
    _trace(con, "not_traced", "CUDA was not traced in this capture")
    _trace(con, "failed", "the profiler collected no CUDA events", source_id=2, path="b.sqlite")
    result = _result(con)
    assert (result.verdict, result.severity) == ("found", "warning")
    assert "(b.sqlite: the profiler collected no CUDA events)" in result.summary
    assert "nsys profile" in (result.capture or "")


@pytest.mark.parametrize("verdict", ["not_traced", "absent"])
def test_a_trace_that_was_not_meant_to_show_the_gpu_did_not_fail(
    con: duckdb.DuckDBPyConnection, verdict: str
) -> None:
    _trace(con, verdict, "CUDA was not traced in this capture")
    result = _result(con)
    assert (result.verdict, result.confidence) == ("cannot_tell", 0.0)
    assert "t.sqlite does not show the GPU (CUDA was not traced in this capture)" in result.summary
    assert result.capture is not None


def test_a_profile_of_an_engine_on_a_cpu_has_no_gpu_part(con: duckdb.DuckDBPyConnection) -> None:
    _trace(con, "not_traced", "the profiler recorded CPU operators only; no GPU was there to trace")
    add_rows(con, "settings", {"scope": "", "name": "device_type", "value": "cpu", "is_effective": True})
    result = _result(con)
    assert (result.verdict, result.capture) == ("not_found", None)
    assert "There is no GPU time to trace" in result.summary


def test_a_trace_that_nobody_could_read_is_no_failed_capture(con: duckdb.DuckDBPyConnection) -> None:
    reason = "t.nsys-rep needs nsys 2025.6.1 or newer to be exported"
    add_rows(
        con,
        "sources",
        {"source_id": 1, "path": "t.nsys-rep", "role": "trace", "status": "refused", "reason": reason},
    )
    result = _result(con)
    assert result.verdict == "cannot_tell"
    assert reason in result.summary


def test_a_capture_that_stops_early_says_from_when_on(con: duckdb.DuckDBPyConnection) -> None:
    reason = "the trace reached its size limit; GPU work after 12.300 s of the capture is missing"
    _trace(con, "partial", reason, data_until_ns=5)
    add_rows(
        con,
        "captures",
        {
            "source_id": 1,
            "path": "t.sqlite",
            "capability": "processes",
            "verdict": "partial",
            "reason": "1 of 2 processes launched kernels of which the trace shows none",
        },
    )
    _trace(con, "partial", "the file is a slice of a longer capture", source_id=2, path="slice.sqlite")
    add_rows(con, "phase_totals", {"phase": "decode", "kernel_count": 1200, "graph_count": 0})
    result = _result(con)
    assert result.verdict == "not_found"
    assert result.summary == (
        f"The GPU trace holds 1,200 kernels; t.sqlite: {reason}; "
        "t.sqlite: 1 of 2 processes launched kernels of which the trace shows none."
    )


def test_a_rank_without_kernels_is_named_beside_one_with(con: duckdb.DuckDBPyConnection) -> None:
    _trace(con, "present", "kernels were recorded")
    _trace(con, "failed", "CUDA was traced but no GPU work was recorded", source_id=2, path="rank1.sqlite")
    add_rows(con, "phase_totals", {"phase": "decode", "kernel_count": 2, "graph_count": 0})
    assert "rank1.sqlite: CUDA was traced but no GPU work was recorded" in _result(con).summary
