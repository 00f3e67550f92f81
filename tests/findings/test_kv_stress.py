"""The finding about KV stress tests says what the two curves showed."""

import duckdb
import pytest

from builders_marts import add_rows, add_run, empty_marts
from kvcliff.findings import kv_stress


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    con = empty_marts()
    add_run(con)
    return con


def _test(**columns: object) -> dict[str, object]:
    row = {
        "replica_id": "0",
        "verdict": "both",
        "request_count": 71,
        "prompt_tokens": 4096,
        "output_tokens": 1024,
        "swap_count": 1,
        "used_ratio_first": 0.0,
        "used_ratio_peak": 1.0,
        "kv_itl_correlation": 0.896,
        "itl_low_ms": 15.66,
        "itl_high_ms": 18.6,
    }
    return {**row, **columns}


def test_rise_and_jump(con: duckdb.DuckDBPyConnection) -> None:
    add_rows(con, "stress_tests", _test())
    (result,) = kv_stress.FINDING.evaluate(con)
    assert (result.verdict, result.severity) == ("found", "info")
    assert result.summary == (
        "This was a KV stress test: 71 requests with prompts of 4,096 and outputs of 1,024 tokens, KV from "
        "0.0 % to 100.0 %. First both rose together (median ITL 15.7 ms at first, 18.6 ms near the ceiling): "
        "bandwidth; then latency jumped at the ceiling (1 swap point): paging."
    )
    assert result.evidence[0].where == "level is null and replica_id = '0'"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("paging", "then jumped at the ceiling (1 swap point): paging."),
        ("bandwidth", "without a jump: bandwidth, not paging."),
        ("flat", "neither bandwidth nor paging hurts here."),
    ],
)
def test_verdicts(con: duckdb.DuckDBPyConnection, verdict: str, words: str) -> None:
    add_rows(con, "stress_tests", _test(verdict=verdict))
    assert kv_stress.FINDING.evaluate(con)[0].summary.endswith(words)


@pytest.mark.parametrize("verdict", ["not_full", "no_latency"])
def test_cannot_tell(con: duckdb.DuckDBPyConnection, verdict: str) -> None:
    add_rows(con, "stress_tests", _test(verdict=verdict, level="a'b"))
    (result,) = kv_stress.FINDING.evaluate(con)
    assert result.verdict == "cannot_tell"
    assert result.evidence[0].where == "level = 'a''b' and replica_id = '0'"


def test_other_loads_raise_no_question(con: duckdb.DuckDBPyConnection) -> None:
    assert kv_stress.FINDING.evaluate(con) == ()
