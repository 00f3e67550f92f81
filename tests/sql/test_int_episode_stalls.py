"""int_episode_stalls: stalled streams that fall into a pressure episode."""

import pytest

from builders_raw import Row, Rows, table
from builders_serving import MS, S, model, ns

EPISODE = {"replica_id": "0", "episode_no": 1, "first_mark_ns": 20 * S, "last_mark_ns": 30 * S}
REQUEST = {"source_id": 3, "request_no": 0}


def gap(start: float, end: float, **values: object) -> Row:
    return {
        "replica_id": "0",
        **REQUEST,
        "request_id": "r0",
        "gap_ms": (end - start) * 1000,
        "median_itl_ms": 20.0,
        "kv_used_ratio": 0.95,
        "is_stall": True,
        "start_ns": ns(start),
        "end_ns": ns(end),
        **values,
    }


def stalls(
    *gaps: Row, columns: str = "request_no", episodes: Rows = (EPISODE,), request: Row = REQUEST
) -> list[tuple[object, ...]]:
    requests = dict.fromkeys([(row["source_id"], row["request_no"]) for row in gaps], request)
    stubs = {
        "token_gaps": gaps,
        "int_episodes": episodes,
        "stg_client__requests": [
            {**row, "source_id": key[0], "request_no": key[1]} for key, row in requests.items()
        ],
    }
    con = model("int_episode_stalls", {}, stubs)
    return table(con, f"select {columns} from int_episode_stalls order by source_id, request_no, start_ns")


def test_stall_inside_the_episode() -> None:
    assert stalls(gap(22, 25), columns="episode_no, request_id, gap_ms") == [(1, "r0", 3000.0)]


@pytest.mark.parametrize(
    ("start", "end", "expected"), [(7, 9.9, 0), (7, 10, 1), (31, 33, 1), (31.1, 33, 0), (5, 60, 1)]
)
def test_stall_belongs_to_the_episode_that_it_leads_to_or_overlaps(
    start: float, end: float, expected: int
) -> None:
    assert len(stalls(gap(start, end))) == expected


@pytest.mark.parametrize(("kv", "expected"), [(0.79, 0), (0.8, 1), (None, 0)])
def test_stall_counts_with_the_cache_full(kv: float | None, expected: int) -> None:
    assert len(stalls(gap(22, 25, kv_used_ratio=kv))) == expected


def test_long_step_is_no_stall() -> None:
    assert stalls(gap(22, 25, is_stall=False)) == []


def test_stop_lies_two_median_gaps_and_delivery_around_the_last_token() -> None:
    rows = stalls(gap(22, 25), columns="low_ns, high_ns")
    assert rows == [(ns(21.94), ns(22.06))]


def test_clock_of_the_client_widens_it() -> None:
    rows = stalls(gap(22, 25), columns="low_ns, high_ns", request={"uncertainty_ns": 100 * MS})
    assert rows == [(ns(21.84), ns(22.16))]


def test_stall_across_two_episodes_belongs_to_the_first() -> None:
    later = {**EPISODE, "episode_no": 2, "first_mark_ns": 40 * S, "last_mark_ns": 50 * S}
    assert stalls(gap(25, 45), columns="episode_no", episodes=[EPISODE, later]) == [(1,)]


def test_two_stalls_of_one_request_are_two_rows() -> None:
    assert len(stalls(gap(21, 22), gap(24, 26))) == 2


def test_episode_of_another_replica_or_level_is_not_meant() -> None:
    others = [{**EPISODE, "replica_id": "1"}, {**EPISODE, "level": "c8"}]
    assert stalls(gap(22, 25), episodes=others) == []
