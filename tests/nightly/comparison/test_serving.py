"""Latency from time buckets: the median of medians and the tail of a mixture."""

import pytest

from builders_compare import FakeRun, store
from kvcliff.nightly.comparison.marts import StoredMarts
from kvcliff.nightly.comparison.reading import read_run
from kvcliff.nightly.comparison.serving import Bucket, median_gap, quantile, tail_gap


def bucket(p50: float, p99: float, count: int = 100) -> Bucket:
    return Bucket(0, count, (p50, p50, p99, p99), None, None, None)


def test_median_of_medians_is_weighted_by_tokens() -> None:
    assert median_gap([bucket(10, 20, 100), bucket(30, 60, 10), bucket(40, 60, 10)]) == 10
    assert median_gap([bucket(10, 20, 10), bucket(30, 60, 100)]) == 30
    assert median_gap([Bucket(0, 5, None, 1.0, None, None)]) is None


def test_tail_of_equal_buckets_is_theirs() -> None:
    assert tail_gap([bucket(10, 50), bucket(10, 50)]) == pytest.approx(50)
    assert tail_gap([]) is None


def test_tail_of_a_mixture_lies_where_one_token_in_a_hundred_is_above() -> None:
    # Half of the tokens have a p99 of 20 and nothing above: the others' p98 is the p99 of all.
    quiet = Bucket(0, 100, (10, 12, 20, 20), None, None, None)
    busy = Bucket(0, 100, (10, 12, 102, 102), None, None, None)
    assert tail_gap([quiet, busy]) == pytest.approx(12 + 90 * (0.98 - 0.9) / 0.09, rel=1e-6)


def test_many_quiet_tokens_hide_a_few_slow_ones() -> None:
    assert tail_gap([bucket(10, 12, 10_000), bucket(10, 500, 10)]) == pytest.approx(12, rel=0.05)


@pytest.mark.parametrize(("share", "expected"), [(0, 1), (0.5, 2.5), (0.99, 3.97), (1, 4)])
def test_quantile_between_neighbours(share: float, expected: float) -> None:
    assert quantile([4, 1, 3, 2], share) == pytest.approx(expected)


def test_warm_up_and_failures_are_no_latency() -> None:
    con = store(FakeRun("run", failed=10))
    con.execute("update requests set ttft_ms = 9999 where is_error")
    con.execute("update requests set is_warmup = true, ttft_ms = 9999 where request_no > 30")
    run = read_run(StoredMarts(con), "run")
    assert run.value("", "ttft_p99") == pytest.approx(102)
    assert run.estimates["", "errors"]["marts"].exposure == 31
    assert run.loads[""].prompt_tokens == 128


def test_throughput_counts_the_time_in_which_requests_were_there() -> None:
    con = store(FakeRun("run"))
    before = read_run(StoredMarts(con), "run").value("", "tokens_per_s")
    # A pause of an hour in the middle of the load is no slow hour.
    con.execute(
        "update requests set arrival_ns = arrival_ns + 3600000000000, end_ns = end_ns + 3600000000000 "
        "where request_no >= 20"
    )
    assert before is not None
    assert read_run(StoredMarts(con), "run").value("", "tokens_per_s") == pytest.approx(before, rel=0.01)
