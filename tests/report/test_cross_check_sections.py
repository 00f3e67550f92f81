"""Sources held against each other: given rows, expected tables."""

import pytest

from builders_marts import START, add_rows, add_run, empty_marts
from kvcliff.report.cross_check_sections import agreement_section, client_total_section, step_time_section


@pytest.fixture
def con():
    con = empty_marts()
    add_run(con)
    return con


def test_steps_are_told_by_source(con):
    con.execute(
        "create temp table step_times (level varchar, replica_id varchar, origin varchar, "
        "step_class varchar, step_count bigint, elapsed_p10_ms double, elapsed_p50_ms double, "
        "elapsed_p90_ms double, "
        "elapsed_p99_ms double, elapsed_total_s double, sequence_count double, context_tokens double)"
    ).fetchall()
    for origin in ("trace", "iterations"):
        row = {
            "replica_id": "0",
            "origin": origin,
            "step_class": "decode",
            "step_count": 9,
            "context_tokens": 0.0,
        }
        add_rows(con, "step_times", {**row, "elapsed_p50_ms": 6.0})
    (table,) = step_time_section(con).blocks
    assert [column.name for column in table.columns] == [
        "step_class",
        "origin",
        "step_count",
        "elapsed_p50_ms",
    ]
    assert table.rows == (("decode", "log of every step", 9, 6.0), ("decode", "GPU trace", 9, 6.0))


def test_contradictions_come_first(con):
    con.execute(
        "create temp table source_agreement (level varchar, replica_id varchar, topic varchar, unit varchar, "
        "first_source varchar, second_source varchar, first_value double, second_value double, "
        "compared_count bigint, differing_count bigint, is_disagreement boolean)"
    ).fetchall()
    row = {"replica_id": "0", "unit": "tokens", "first_source": "log", "second_source": "metrics"}
    row |= {"first_value": 4096.0, "second_value": 4096.0, "compared_count": 1, "differing_count": 0}
    add_rows(con, "source_agreement", {**row, "topic": "kv_capacity", "is_disagreement": False})
    add_rows(
        con, "source_agreement", {**row, "topic": "running", "is_disagreement": True, "differing_count": 1}
    )
    table, _ = agreement_section(con).blocks
    assert [row[0] for row in table.rows] == ["running", "kv capacity"]
    assert [row[-1] for row in table.rows] == [True, False]


def test_sources_that_agree_share_a_row(con):
    con.execute(
        "create temp table source_agreement (level varchar, replica_id varchar, topic varchar, unit varchar, "
        "first_source varchar, second_source varchar, first_value double, second_value double, "
        "compared_count bigint, differing_count bigint, is_disagreement boolean)"
    ).fetchall()
    row = {"replica_id": "0", "topic": "kv_capacity", "unit": "tokens", "compared_count": 1}
    for first, second, value in (
        ("log", "metrics", 4096.0),
        ("log", "run.toml", 4096.0),
        ("metrics", "run.toml", 4096.0),
        ("log", "trace", 2048.0),
        ("trace", "run.toml", 2048.0),
    ):
        differs = value != 4096.0
        values = {
            "first_source": first,
            "second_source": second,
            "first_value": 4096.0,
            "second_value": value,
        }
        add_rows(
            con,
            "source_agreement",
            {**row, **values, "differing_count": int(differs), "is_disagreement": differs},
        )
    table, _ = agreement_section(con).blocks
    assert [(line[1], line[3]) for line in table.rows] == [
        ("log", "trace"),
        ("trace", "run.toml"),
        ("log, metrics, run.toml", "the same"),
    ]
    assert table.more_count == 0


def test_a_clients_totals_stand_in_for_requests_that_nobody_kept(con):
    con.execute(
        "create temp table client_totals (level varchar, source_id integer, load_no integer, name varchar, "
        "value double)"
    ).fetchall()
    add_rows(con, "sources", {"source_id": 3, "path": "k6.json"})
    add_rows(con, "client_totals", {"source_id": 3, "load_no": 0, "name": "p99_itl_ms", "value": 41.5})
    table, _ = client_total_section(con).blocks
    assert table.rows == (("k6.json", "p99_itl_ms", 41.5),)
    add_rows(con, "requests", {"request_no": 1, "arrival_ns": START})
    assert client_total_section(con) is None
