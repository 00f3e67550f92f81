"""int_episode_prices: throughput and latency before and during an episode."""

from builders_raw import Row, Rows, table
from builders_serving import MS, S, model, ns

SPAN = {"replica_id": "0", "episode_no": 1, "at_ns": 60 * S, "end_ns": 80 * S}


def bucket(second: float, tokens_per_s: float | None, **values: object) -> Row:
    return {"replica_id": "0", "tokens_per_s": tokens_per_s, "ts_ns": ns(second), "bucket_ns": S, **values}


def request(number: int, arrival: float, ttft_ms: float, **values: object) -> Row:
    return {
        "replica_id": "0",
        "source_id": 3,
        "request_no": number,
        "ttft_ms": ttft_ms,
        "is_error": False,
        "is_warmup": False,
        "arrival_ns": ns(arrival),
        **values,
    }


def arrival(number: int, second: float, gap_ms: float | None) -> Row:
    return {
        "replica_id": "0",
        "source_id": 3,
        "request_no": 0,
        "chunk_no": number,
        "gap_ns": None if gap_ms is None else round(gap_ms * MS),
        "ts_ns": ns(second),
    }


def price(columns: str, buckets: Rows = (), requests: Rows = (), arrivals: Rows = ()) -> tuple[object, ...]:
    stubs = {
        "int_episode_spans": [SPAN],
        "token_latency": buckets,
        "requests": requests,
        "int_token_arrivals": arrivals,
    }
    con = model("int_episode_prices", {}, stubs)
    (row,) = table(con, f"select {columns} from int_episode_prices")
    return row


RATES = "tokens_per_s_before, tokens_per_s_during"


def test_mean_rates_on_both_sides_of_the_first_action() -> None:
    buckets = [bucket(50, 100), bucket(55, 200), bucket(60, 40), bucket(70, 60)]
    assert price(RATES, buckets) == (150.0, 50.0)


def test_bucket_across_the_first_action_is_on_neither_side() -> None:
    assert price(RATES, [bucket(59.5, 999)]) == (None, None)


def test_before_is_the_twenty_seconds_ahead() -> None:
    assert price(RATES, [bucket(39.9, 999), bucket(40, 100)]) == (100.0, None)


def test_after_the_end_nothing_counts() -> None:
    assert price(RATES, [bucket(80, 50), bucket(80.1, 999)]) == (None, 50.0)


def test_buckets_without_a_rate_do_not_count_as_zero() -> None:
    assert price(RATES, [bucket(50, 100), bucket(51, None)]) == (100.0, None)


TTFT = "ttft_p50_before_ms, ttft_p50_during_ms"


def test_median_ttft_by_arrival() -> None:
    requests = [request(0, 45, 100), request(1, 46, 300), request(2, 47, 120), request(3, 60, 2000)]
    assert price(TTFT, requests=requests) == (120.0, 2000.0)


def test_warmup_and_failed_requests_do_not_count() -> None:
    requests = [request(0, 45, 100, is_warmup=True), request(1, 65, 200, is_error=True)]
    assert price(TTFT, requests=requests) == (None, None)


def test_p99_of_the_gaps() -> None:
    before = [arrival(number, 45 + number / 100, 10) for number in range(100)]
    during = [arrival(200 + number, 61 + number / 100, 500 if number < 2 else 20) for number in range(100)]
    assert price("itl_p99_before_ms, itl_p99_during_ms", arrivals=[*before, *during]) == (10.0, 500.0)


def test_first_tokens_have_no_gap() -> None:
    assert price("itl_p99_before_ms", arrivals=[arrival(0, 45, None)]) == (None,)


def test_episode_without_measurements_keeps_its_row() -> None:
    assert price("episode_no, tokens_per_s_before, ttft_p50_before_ms, itl_p99_before_ms") == (
        1,
        None,
        None,
        None,
    )
