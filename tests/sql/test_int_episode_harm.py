"""int_episode_harm: whether users' tokens got slower in an episode, and by which measure."""

import math

import pytest

from builders_raw import Row, Rows, table
from builders_serving import S, model, ns

SPAN = {
    "replica_id": "0",
    "episode_no": 1,
    "at_ns": 60 * S,
    "error_ns": S,
    "pressure_at_ns": 58 * S,
    "end_ns": 80 * S,
}
COLUMNS = "l_status, victim_count"


def bucket(second: float, *, tokens: int = 100, zero_gap_ratio: float = 0.0, **values: object) -> Row:
    return {
        "replica_id": "0",
        "token_count": tokens,
        "zero_gap_ratio": zero_gap_ratio,
        "ts_ns": ns(second),
        "bucket_ns": S,
        **values,
    }


def stall(request_no: int, gap_ms: float = 900.0, start: float = 61.0) -> Row:
    return {
        "replica_id": "0",
        "episode_no": 1,
        "source_id": 3,
        "request_no": request_no,
        "gap_ms": gap_ms,
        "start_ns": ns(start),
        "end_ns": ns(start) + round(gap_ms * 1e6),
    }


def tail(second: float, tokens: float, slow: float, *, number: int = 0) -> list[Row]:
    """Return one scrape interval of a second with so many tokens, ``slow`` of them beyond 0.3 s."""
    shared = {
        "replica_id": "0",
        "source_id": 1,
        "scrape_no": number or int(second),
        "ts_ns": ns(second),
        "previous_ts_ns": ns(second - 1),
    }
    return [
        {**shared, "le": 0.05, "cumulative_count": (tokens - slow) / 2},
        {**shared, "le": 0.3, "cumulative_count": tokens - slow},
        {**shared, "le": math.inf, "cumulative_count": tokens},
    ]


def harm(
    columns: str = COLUMNS,
    *,
    span: Row = SPAN,
    buckets: Rows = (),
    stalls: Rows = (),
    tails: Rows = (),
) -> tuple[object, ...]:
    stubs = {
        "int_episode_spans": [span],
        "int_latency_tokens": buckets,
        "int_episode_stalls": stalls,
        "int_itl_tail": tails,
    }
    con = model("int_episode_harm", {}, stubs)
    (row,) = table(con, f"select {columns} from int_episode_harm")
    return row


def test_stalled_streams_are_harm() -> None:
    assert harm(buckets=[bucket(65)], stalls=[stall(0)]) == ("worse", 1)


def test_recorded_streams_without_a_stall_are_no_harm() -> None:
    assert harm(buckets=[bucket(65)]) == ("not_worse", 0)


def test_streams_decide_whatever_the_histogram_says() -> None:
    tails = [*tail(50, 100, 0), *tail(70, 100, 30)]
    assert harm(buckets=[bucket(65)], tails=tails)[0] == "not_worse"


def test_a_request_that_stalls_twice_is_one_victim() -> None:
    rows = harm(
        "victim_count, longest_gap_ms, victim_gap_p50_ms",
        buckets=[bucket(65)],
        stalls=[stall(0, 400, 61), stall(0, 900, 65), stall(7, 800)],
    )
    assert rows == (2, 900.0, 800.0)


@pytest.mark.parametrize(
    ("second", "expected"),
    [(58.9, "not_measurable"), (59, "not_worse"), (80, "not_worse"), (80.1, "not_measurable")],
)
def test_streams_count_when_they_were_recorded_during_the_episode(second: float, expected: str) -> None:
    assert harm(buckets=[bucket(second)])[0] == expected


@pytest.mark.parametrize(("ratio", "expected"), [(0.2, "not_worse"), (0.21, "not_measurable")])
def test_streams_of_a_starved_client_do_not_decide(ratio: float, expected: str) -> None:
    assert harm(buckets=[bucket(65, zero_gap_ratio=ratio)])[0] == expected


def test_starved_client_falls_back_to_the_histogram() -> None:
    tails = [*tail(50, 300, 0), *tail(70, 300, 30)]
    status, reason, victims = harm(
        "l_status, l_reason, victim_count",
        buckets=[bucket(65, zero_gap_ratio=0.5)],
        stalls=[stall(0)],
        tails=tails,
    )
    assert (status, reason, victims) == ("worse", "more slow tokens in the server histogram", None)


def test_starvation_is_weighed_by_tokens() -> None:
    # A near-empty bucket of coalesced chunks says nothing about the client.
    buckets = [bucket(65, tokens=1000), bucket(66, tokens=10, zero_gap_ratio=1.0)]
    assert harm(buckets=buckets)[0] == "not_worse"


def test_starved_client_without_a_histogram() -> None:
    assert harm("l_reason", buckets=[bucket(65, zero_gap_ratio=0.5)]) == (
        "the load client starved and there is no steady histogram before",
    )


# 299 tokens before, none slow: the noise is one in 300.
@pytest.mark.parametrize(("slow", "expected"), [(2, "not_measurable"), (3, "worse")])
def test_tail_has_to_grow_threefold_beyond_noise(slow: int, expected: str) -> None:
    tails = [*tail(50, 299, 0), *tail(70, 300, slow)]
    assert harm("l_status, victim_count", tails=tails) == (expected, None)


@pytest.mark.parametrize(("tokens", "expected"), [(49, "not_measurable"), (50, "worse")])
def test_comparison_needs_enough_tokens_on_both_sides(tokens: int, expected: str) -> None:
    assert harm(tails=[*tail(50, tokens, 0), *tail(70, 500, 200)])[0] == expected
    assert harm(tails=[*tail(50, 500, 0), *tail(70, tokens, tokens // 2)])[0] == expected


def test_reason_names_the_side_that_lacks_tokens() -> None:
    few = "too few tokens before the pressure for a baseline in the server histogram"
    assert harm("l_reason", tails=[*tail(50, 49, 0), *tail(70, 500, 200)]) == (few,)
    few = "too few tokens during the episode in the server histogram"
    assert harm("l_reason", tails=[*tail(50, 500, 0), *tail(70, 49, 20)]) == (few,)


def test_baseline_is_the_twenty_seconds_before_the_pressure() -> None:
    slow_before = tail(38.5, 500, 400)
    tails = [*slow_before, *tail(50, 300, 0), *tail(70, 300, 60)]
    assert harm("l_status, tail_before_ratio, tail_during_ratio", tails=tails) == ("worse", 0.0, 0.2)


def test_interval_that_reaches_into_the_pressure_is_no_baseline() -> None:
    tails = [*tail(58.5, 300, 0), *tail(70, 300, 60)]
    assert harm("l_status, l_reason", tails=tails) == (
        "not_measurable",
        "too few tokens before the pressure for a baseline in the server histogram",
    )


def test_slow_tokens_arrive_up_to_five_seconds_after_the_last_action() -> None:
    assert harm(tails=[*tail(50, 300, 0), *tail(85, 300, 60)])[0] == "worse"
    assert harm(tails=[*tail(50, 300, 0), *tail(85.1, 300, 60)])[0] == "not_measurable"


def test_histogram_can_tell_worse_but_never_not_worse() -> None:
    assert harm("l_status, l_reason", tails=[*tail(50, 300, 5), *tail(70, 300, 5)]) == (
        "not_measurable",
        "the change in the server histogram is within its noise",
    )


def test_without_tokens_and_histogram_nothing_can_be_told() -> None:
    assert harm("l_status, l_reason, victim_count, longest_gap_ms") == (
        "not_measurable",
        "no token times and no latency histogram",
        None,
        None,
    )


def test_other_replicas_and_levels_are_not_looked_at() -> None:
    assert harm(buckets=[bucket(65, replica_id="1"), bucket(65, level="c8")])[0] == "not_measurable"
