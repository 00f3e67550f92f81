import duckdb
import pytest

from builders_marts import add_rows, add_run, empty_marts
from kvcliff.findings import source_disagreement
from kvcliff.findings.captures import LOG, SCRAPE

COLUMNS = (
    "level varchar, replica_id varchar, topic varchar, unit varchar, first_source varchar, second_source "
    "varchar, first_value double, second_value double, compared_count bigint, differing_count bigint, "
    "is_disagreement boolean, start_ns bigint, end_ns bigint"
)


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    con = empty_marts()
    add_run(con)
    con.execute(f"create temp table source_agreement ({COLUMNS})")
    return con


def pair(topic: str = "running", *, is_found: bool = True, **columns: object) -> dict[str, object]:
    row: dict[str, object] = {
        "replica_id": "0",
        "topic": topic,
        "first_source": "statistics lines of the log",
        "second_source": "scraped metrics",
        "first_value": 20.0,
        "second_value": 10.0,
        "compared_count": 7,
        "differing_count": 6 if is_found else 0,
        "is_disagreement": is_found,
    }
    return {**row, **columns}


def test_each_topic_that_is_contradicted_is_a_result(con: duckdb.DuckDBPyConnection) -> None:
    capacity = pair(
        "kv_capacity", first_source="server.log", second_source="m.prom (blocks x block size)",
        first_value=60_000.0, second_value=86_432.0, compared_count=1, differing_count=1,
    )  # fmt: skip
    add_rows(con, "source_agreement", pair(), capacity, pair("kv_used", is_found=False))
    first, second = source_disagreement.FINDING.evaluate(con)
    assert first.summary == (
        "Sources disagree on the size of the KV cache: 60,000 by server.log, 86,432 by m.prom "
        "(blocks x block size)."
    )
    assert second.summary == (
        "Sources disagree on running requests: 20 by statistics lines of the log, 10 by scraped metrics at "
        "6 of 7 shared moments."
    )
    assert (second.verdict, second.severity) == ("found", "warning")
    assert second.evidence[0].where == "topic = 'running' and is_disagreement"


def test_the_pair_that_differs_most_often_is_named(con: duckdb.DuckDBPyConnection) -> None:
    shares = pair("kv_used", first_value=0.9, second_value=0.5, differing_count=7)
    add_rows(con, "source_agreement", pair("kv_used", first_value=0.3, second_value=0.2), shares)
    (result,) = source_disagreement.FINDING.evaluate(con)
    assert result.summary == (
        "Sources disagree on KV occupancy: 90.0 % by statistics lines of the log, 50.0 % by scraped "
        "metrics at 7 of 7 shared moments, and 1 more."
    )


def test_agreement_says_on_what(con: duckdb.DuckDBPyConnection) -> None:
    add_rows(con, "source_agreement", pair(is_found=False), pair("preemptions", is_found=False))
    (result,) = source_disagreement.FINDING.evaluate(con)
    assert result.verdict == "not_found"
    assert result.summary == "Sources agree within their definitions on running requests and preemptions."


def test_nothing_to_compare(con: duckdb.DuckDBPyConnection) -> None:
    (result,) = source_disagreement.FINDING.evaluate(con)
    assert (result.verdict, result.capture) == ("cannot_tell", SCRAPE)
    add_rows(con, "sources", {"source_id": 1, "path": "m.prom", "role": "metrics", "row_count": 5})
    (result,) = source_disagreement.FINDING.evaluate(con)
    assert (result.verdict, result.capture) == ("cannot_tell", LOG)
