"""int_latency_histogram: latency per second from the server's histogram."""

import math

import pytest

from builders_raw import Row, table
from builders_serving import S, model, ns

BOUNDS = (0.01, 0.025, 0.05, 0.1, math.inf)


def interval(second: float, *counts: float, scrape_no: int | None = None, **values: object) -> list[Row]:
    """Return one scrape interval with cumulative counts for each of ``BOUNDS``."""
    return [
        {
            "replica_id": "0",
            "source_id": 1,
            "scrape_no": round(second * 1000) if scrape_no is None else scrape_no,
            "le": bound,
            "cumulative_count": float(count),
            "ts_ns": ns(second),
            "previous_ts_ns": ns(second - 1),
            **values,
        }
        for bound, count in zip(BOUNDS, counts, strict=True)
    ]


def latency(
    *rows: Row, columns: str = "itl_p50_ms, itl_p90_ms, itl_p99_ms, itl_max_ms"
) -> list[tuple[object, ...]]:
    con = model("int_latency_histogram", {}, {"int_itl_tail": rows})
    return table(con, f"select {columns} from int_latency_histogram order by level, replica_id, ts_ns")


def test_quantile_is_interpolated_inside_its_bound() -> None:
    # Of 100 tokens 20 lie up to 25 ms and 80 between 25 and 50 ms: the median is 30/80 of the way.
    p50, p90, p99, longest = latency(*interval(5, 0, 20, 100, 100, 100))[0]
    assert p50 == pytest.approx(25 + 25 * 30 / 80)
    assert p90 == pytest.approx(25 + 25 * 70 / 80)
    assert p99 == pytest.approx(25 + 25 * 79 / 80)
    assert longest == 50.0


def test_first_bound_has_no_resolution() -> None:
    assert latency(*interval(5, 100, 100, 100, 100, 100)) == [(10.0, 10.0, 10.0, 10.0)]


def test_beyond_the_last_bound_the_lower_end_is_given_and_the_maximum_is_unknown() -> None:
    p50, p90, p99, longest = latency(*interval(5, 0, 0, 0, 80, 100))[0]
    assert p50 == pytest.approx(50 + 50 * 50 / 80)
    assert (p90, p99, longest) == (100.0, 100.0, None)


def test_quantile_on_a_bound_is_the_bound() -> None:
    assert latency(*interval(5, 0, 50, 100, 100, 100), columns="itl_p50_ms") == [(25.0,)]


def test_scrapes_of_one_second_are_added() -> None:
    rows = latency(
        *interval(5.2, 0, 10, 10, 10, 10),
        *interval(5.6, 0, 0, 30, 30, 30),
        columns="token_count, ts_ns, bucket_ns",
    )
    assert rows == [(40, 5 * S, S)]


def test_interval_without_tokens_makes_no_bucket() -> None:
    assert latency(*interval(5, 0, 0, 0, 0, 0)) == []


def test_replicas_and_levels_stay_apart() -> None:
    rows = latency(
        *interval(5, 0, 10, 10, 10, 10),
        *interval(5, 0, 0, 7, 7, 7, replica_id="1"),
        *interval(5, 0, 0, 8, 8, 8, level="c8"),
        columns="level, replica_id, token_count",
    )
    assert sorted(rows, key=str) == [("c8", "0", 8), (None, "0", 10), (None, "1", 7)]
