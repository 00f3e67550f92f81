"""What requests got before, during and after swap points; given rows, expected windows."""

import pytest

from builders_marts import START, S, add_rows, add_run, empty_marts, kv_row, swap_point
from kvcliff.report.document import Paragraph, Table
from kvcliff.report.slo_section import slo_section


@pytest.fixture
def con():
    con = empty_marts()
    add_run(con)
    add_rows(con, "kv_occupancy", kv_row(0, 0.5))
    return con


def _request(number, arrival_s, end_s, **columns):
    return {
        "source_id": 1, "request_no": number, "replica_id": "0", "ttft_ms": 100.0 * number, "is_error": False,
        "is_warmup": False, "arrival_ns": START + arrival_s * S, "end_ns": START + end_s * S, **columns,
    }  # fmt: skip


def _point(number, at_s, end_s, **columns):
    return swap_point(
        swap_point_id=number, at_ns=START + at_s * S, error_ns=0, recovered_at_ns=None,
        end_ns=None if end_s is None else START + end_s * S, **columns,
    )  # fmt: skip


def _windows(con, *names):
    (table,) = [block for block in slo_section(con).blocks if isinstance(block, Table)]
    columns = [column.name for column in table.columns]
    return [tuple(row[columns.index(name)] for name in names) for row in table.rows]


def _words(con):
    return " ".join(block.text for block in slo_section(con).blocks if isinstance(block, Paragraph))


def test_no_swap_point_no_windows(con):
    add_rows(con, "requests", _request(1, 0, 5))
    assert slo_section(con) is None
    add_rows(con, "swap_points", _point(1, 10, 20, **{"class": "pressure"}))
    assert slo_section(con) is None


def test_a_request_stands_in_the_window_of_its_arrival(con):
    add_rows(con, "swap_points", _point(1, 10, 20), _point(2, 40, 50))
    add_rows(
        con,
        "requests",
        _request(1, 0, 9),
        _request(2, 1, 10),
        _request(3, 10, 30),
        _request(4, 19, 21),
        _request(5, 20, 60),
        _request(6, 45, 46),
        _request(7, 50, 60),
        _request(8, 2, 3, is_warmup=True),
        _request(9, 3, 4, arrival_ns=None),
    )
    assert _windows(con, "window", "request_count") == [
        ("before, and had ended", 1),
        ("before, still running then", 1),
        ("during a swap point", 3),
        ("between swap points", 1),
        ("after", 1),
    ]


def test_the_error_bar_belongs_to_the_swap_point(con):
    add_rows(con, "swap_points", {**_point(1, 10, 20), "error_ns": 2 * S})
    add_rows(con, "requests", _request(1, 0, 9), _request(2, 9, 10))
    assert _windows(con, "window") == [("before, still running then",), ("during a swap point",)]
    assert "no clean baseline" in _words(con)


def test_an_episode_without_an_end_lasts(con):
    add_rows(con, "swap_points", _point(1, 10, None))
    add_rows(con, "requests", _request(1, 0, 9), _request(2, 100, 110))
    assert _windows(con, "window") == [("before, and had ended",), ("during a swap point",)]
    assert "no clean baseline" not in _words(con)


def test_failed_requests_are_counted_and_their_times_are_not(con):
    add_rows(con, "swap_points", _point(1, 10, 20))
    add_rows(con, "requests", _request(1, 11, 12), _request(5, 12, 13, is_error=True))
    assert _windows(con, "request_count", "error_count", "ttft_p50_ms") == [(2, 1, 100.0)]


def test_levels_and_replicas_keep_to_their_own_swap_points(con):
    add_rows(con, "swap_points", _point(1, 10, 20, replica_id="1"))
    add_rows(con, "requests", _request(1, 15, 16), _request(2, 15, 16, replica_id="1"))
    assert _windows(con, "replica_id", "window") == [("1", "during a swap point")]


def test_a_client_of_no_replica_sees_the_swap_points_of_all(con):
    add_rows(con, "swap_points", _point(1, 10, 20, replica_id="3"))
    add_rows(con, "requests", _request(1, 15, 16))
    assert _windows(con, "window") == [("during a swap point",)]


def test_objectives_are_named_or_their_absence_is(con):
    add_rows(con, "swap_points", _point(1, 10, 20))
    add_rows(con, "requests", _request(1, 0, 5, is_slo_met=True), _request(2, 11, 12, is_slo_met=False))
    assert "No objectives are stated" in _words(con)
    add_rows(con, "settings", {"name": "slo_ttft_ms", "number": 500.0, "scope": "", "is_effective": True})
    assert "TTFT at most 500 ms." in _words(con)
    assert _windows(con, "slo_met_ratio") == [(1.0,), (0.0,)]
