"""int_kv_pressure: pressure, blocked admission and flips of the gauges."""

import pytest

from builders_raw import Row, source, table
from builders_serving import S, Scrape, log_row, merge, model, ns, scrape_rows

LIMIT = {"source_id": 2, "line_no": 1, "scope": "", "name": "max_num_seqs", "value": "16"}


def judged(
    scrapes: list[Scrape], columns: str, limit: Row | None = LIMIT, **more: list[Row]
) -> list[tuple[object, ...]]:
    raw = merge(scrape_rows(scrapes), {"raw_settings": [limit] if limit else []}, more)
    con = model("int_kv_pressure", raw)
    return table(con, f"select {columns} from int_kv_pressure order by replica_id, ts_ns, sample_no")


def flat(kv: float, running: float, count: int = 9) -> list[Scrape]:
    return [Scrape(second, kv=kv, running=running, waiting=0) for second in range(count)]


@pytest.mark.parametrize(("kv", "expected"), [(0.89, False), (0.9, True), (0.97, True)])
def test_pressure_begins_one_footprint_below_full(kv: float, expected: bool) -> None:
    # Nine requests hold the cache, a tenth of it each when it is 0.9 full.
    assert {row[0] for row in judged(flat(kv, 9), "is_pressure")} == {expected}


@pytest.mark.parametrize(("kv", "expected"), [(0.79, False), (0.8, True)])
def test_below_the_high_mark_large_requests_are_no_pressure(kv: float, expected: bool) -> None:
    # Two requests of 0.4 each: full is one footprint away, and that alone does not count.
    assert {row[0] for row in judged(flat(kv, 2), "is_pressure")} == {expected}


def test_footprint_is_the_mean_share_of_a_request() -> None:
    assert {round(row[0], 6) for row in judged(flat(0.9, 9), "kv_footprint_ratio")} == {0.1}


def test_without_occupancy_there_is_no_pressure() -> None:
    rows = judged([Scrape(second, running=16, waiting=9) for second in range(3)], "is_pressure, is_blocked")
    assert set(rows) == {(False, False)}


@pytest.mark.parametrize(("distance_s", "expected"), [(4, True), (5, False)])
def test_peak_counts_for_four_seconds_after_it(distance_s: int, expected: bool) -> None:
    scrapes = [Scrape(0, kv=1.0, running=10), *[Scrape(s, kv=0.5, running=10) for s in range(1, 9)]]
    assert judged(scrapes, "is_pressure")[distance_s] == (expected,)


@pytest.mark.parametrize(("distance_s", "expected"), [(2, True), (3, False)])
def test_peak_counts_for_two_seconds_before_it(distance_s: int, expected: bool) -> None:
    scrapes = [*[Scrape(s, kv=0.5, running=10) for s in range(8)], Scrape(8, kv=1.0, running=10)]
    assert judged(scrapes, "is_pressure")[8 - distance_s] == (expected,)


@pytest.mark.parametrize(
    ("running", "waiting", "expected"), [(15, 1, True), (16, 1, False), (15, 0, False), (17, 1, False)]
)
def test_blocked_is_a_queue_below_the_running_limit(running: int, waiting: int, expected: bool) -> None:
    rows = judged([Scrape(0, kv=1.0, running=running, waiting=waiting)], "is_blocked")
    assert rows == [(expected,)]


def test_queue_without_pressure_is_not_blocked() -> None:
    assert judged([Scrape(0, kv=0.3, running=3, waiting=5)], "is_blocked") == [(False,)]


def possible_since(interval: float, kv: list[float], waiting: list[int]) -> list[object]:
    scrapes = [
        Scrape(number * interval, kv=ratio, running=9, waiting=count)
        for number, (ratio, count) in enumerate(zip(kv, waiting, strict=True))
    ]
    return [row[0] for row in judged(scrapes, "possible_since_ns")]


def test_stretch_without_proof_of_calm_begins_at_the_sample_before_it() -> None:
    assert possible_since(1, [0.5, 0.5, 1.0, 0.85, 0.85, 1.0], [0, 0, 0, 3, 0, 4]) == [
        None, None, S, S, None, 4 * S
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "calm"), [([0, 0, 0, 0], [1, 2]), ([0, 0, 1, 1], []), ([0, 0, 0, 1], [1])]
)
def test_counter_that_stands_still_proves_calm_where_nobody_waits(counts: list[int], calm: list[int]) -> None:
    # A victim since the sample before would be running again, and had to speak within a second.
    scrapes = [
        Scrape(second, kv=1.0, running=6.0, waiting=0.0, preemptions=float(count))
        for second, count in enumerate(counts)
    ]
    since = [row[0] for row in judged(scrapes, "possible_since_ns")]
    assert [number for number in range(4) if since[number] is None] == calm


def test_empty_queue_proves_calm_when_it_is_read_often() -> None:
    assert possible_since(0.2, [0.5, 1.0, 1.0, 1.0], [0, 0, 2, 0]) == [None, None, ns(0.2), None]


def test_requests_swapped_out_wait() -> None:
    names = {"swapped_count": 2.0, "waiting_count": 0.0, "running_count": 9.0, "kv_used_ratio": 1.0}
    row = {"source_id": 1, "replica_id": "0", "origin": "metrics", "sample_no": 0, "ts_ns": 0, **names}
    stubs = {
        "int_kv_samples": [row],
        "int_engine_limits": [{"replica_id": "0", "running_limit": 16.0}],
    }
    con = model("int_kv_pressure", {}, stubs)
    assert table(con, "select waiting_count, is_blocked from int_kv_pressure") == [(2.0, True)]


def flipped(before: Scrape, after: Scrape) -> bool:
    return bool(judged([before, after], "is_flip")[1][0])


BEFORE = Scrape(0, kv=1.0, running=10, waiting=0, finished=0)


def test_flip_is_running_that_falls_while_waiting_rises() -> None:
    assert flipped(BEFORE, Scrape(1, kv=0.95, running=9, waiting=1, finished=0))


def test_requests_that_finished_are_no_flip() -> None:
    assert not flipped(BEFORE, Scrape(1, kv=0.95, running=9, waiting=1, finished=1))


def test_flip_needs_more_vanished_than_finished() -> None:
    assert flipped(BEFORE, Scrape(1, kv=0.95, running=8, waiting=1, finished=1))


def test_steady_running_is_no_flip() -> None:
    assert not flipped(BEFORE, Scrape(1, kv=1.0, running=10, waiting=1, finished=0))


def test_steady_queue_is_no_flip() -> None:
    assert not flipped(
        Scrape(0, kv=1.0, running=10, waiting=1, finished=0),
        Scrape(1, kv=0.9, running=9, waiting=1, finished=0),
    )


def test_flip_without_pressure_does_not_count() -> None:
    assert not flipped(Scrape(0, kv=0.3, running=10, waiting=0), Scrape(1, kv=0.3, running=9, waiting=1))


def test_counter_that_restarts_shows_no_flip() -> None:
    # The finished counter falls to zero: how many finished in that step is unknown, so nothing is claimed.
    before = Scrape(0, kv=1.0, running=10, waiting=0, finished=50)
    assert not flipped(before, Scrape(1, kv=0.95, running=9, waiting=1, finished=0))


def gauges(rows: list[tuple[float, int, int]], prompt_s: float = 0.0) -> list[bool]:
    """Return the flips of one scrape a second: (KV, running, waiting); 100 tokens/s are generated."""
    scrapes = scrape_rows(
        [
            Scrape(second, kv=kv, running=running, waiting=waiting, generated=100.0 * second)
            for second, (kv, running, waiting) in enumerate(rows)
        ]
    )
    series = {"source_id": 1, "series_id": 40, "name": "vllm:prompt_tokens_total", "kind": "counter"}
    prompts = [
        {"source_id": 1, "scrape_no": number, "series_id": 40, "value": prompt_s * number}
        for number in range(len(rows))
    ]
    more = {"raw_metric_series": [{**series, "engine": "0"}], "raw_metric_samples": prompts}
    limit = {"raw_settings": [LIMIT]}
    con = model("int_kv_pressure", merge(scrapes, more, limit))
    return [flip for (flip,) in table(con, "select is_flip from int_kv_pressure order by ts_ns")]


def test_a_cache_that_stands_still_while_requests_run_preempts_nothing() -> None:
    still = [(0.97, 10, 0)] * 12
    rising = [(0.9 + 0.005 * second, 10, 0) for second in range(12)]
    assert not any(gauges([*still, (0.92, 9, 1)]))
    assert gauges([*rising, (0.9, 9, 1)])[-1]


@pytest.mark.parametrize(("prompt_s", "expected"), [(100.0, True), (890.0, True), (910.0, False)])
def test_falls_of_running_are_ends_of_requests_when_hardly_anything_is_generated(
    prompt_s: float, expected: bool
) -> None:
    rising = [(0.9 + 0.005 * second, 10, 0) for second in range(12)]
    assert gauges([*rising, (0.9, 9, 1)], prompt_s)[-1] == expected


@pytest.mark.parametrize("is_action_logged", [False, True])
def test_producer_that_logs_every_preemption_needs_no_flips(is_action_logged: bool) -> None:
    lines = [
        log_row(
            1, 10, kv_used_ratio=1.0, running_count=10, waiting_count=0, is_action_logged=is_action_logged
        ),
        log_row(
            2, 20, kv_used_ratio=0.95, running_count=9, waiting_count=1, is_action_logged=is_action_logged
        ),
    ]
    con = model("int_kv_pressure", {"raw_log_stats": lines})
    assert table(con, "select is_flip from int_kv_pressure order by ts_ns") == [
        (False,),
        (not is_action_logged,),
    ]


def unusual_deficit(running: int, kv: float = 0.95) -> bool:
    """Ten samples wait two below the limit without pressure; then the queue falls and running too."""
    calm = [Scrape(second, kv=0.5, running=14, waiting=3) for second in range(10)]
    scrapes = [
        *calm,
        Scrape(20, kv=0.98, running=14, waiting=3),
        Scrape(21, kv=kv, running=running, waiting=3),
    ]
    return bool(judged(scrapes, "is_flip")[-1][0])


def test_deficit_beyond_the_usual_is_a_flip_without_a_longer_queue() -> None:
    assert unusual_deficit(13)


def test_deficit_beyond_the_usual_with_more_occupancy_is_growth() -> None:
    assert not unusual_deficit(13, kv=0.99)


def test_preemptions_since_the_sample_before() -> None:
    counts = [3, 3, 5, 1, 2]
    scrapes = [Scrape(second, kv=0.5, running=1, preemptions=count) for second, count in enumerate(counts)]
    # The counter restarts between the third and the fourth.
    assert [row[0] for row in judged(scrapes, "preemption_delta")] == [None, 0, 2, 0, 1]


def test_without_counter_the_preemptions_are_unknown() -> None:
    rows = judged([Scrape(0, kv=0.5, running=1), Scrape(1, kv=0.5, running=1)], "preemption_delta")
    assert rows == [(None,), (None,)]


def test_replicas_are_judged_apart() -> None:
    other = scrape_rows(
        [Scrape(0, kv=0.2, running=1, waiting=0), Scrape(1, kv=0.2, running=1, waiting=0)], engine="1"
    )
    raw = merge(
        scrape_rows([Scrape(0, kv=1.0, running=9, waiting=1), Scrape(1, kv=1.0, running=9, waiting=1)]), other
    )
    con = model("int_kv_pressure", {**raw, "raw_settings": [LIMIT]})
    rows = table(
        con, "select replica_id, bool_or(is_pressure), bool_or(is_blocked) from int_kv_pressure group by all"
    )
    assert sorted(rows) == [("0", True, True), ("1", False, False)]


def test_rolling_maximum_does_not_reach_into_another_level() -> None:
    sources = [
        source(1, "c8/metrics.prom", "metrics", level="c8"),
        source(4, "c16/metrics.prom", "metrics", level="c16"),
    ]
    raw = merge(
        scrape_rows([Scrape(0, kv=0.3, running=8)]), scrape_rows([Scrape(1, kv=1.0, running=9)], source_id=4)
    )
    con = model("int_kv_pressure", {**raw, "sources": sources})
    assert table(con, "select level, kv_rolling_ratio from int_kv_pressure order by level") == [
        ("c16", 1.0),
        ("c8", 0.3),
    ]


def test_times_are_the_samples_times() -> None:
    rows = judged([Scrape(0, kv=1, running=1), Scrape(1.5, kv=1, running=1)], "ts_ns, previous_ts_ns")
    assert rows == [(0, None), (ns(1.5), 0)]


@pytest.mark.parametrize(("is_logged", "expected"), [(None, True), (False, True), (True, False)])
def test_gauges_are_not_searched_where_actions_are_logged(is_logged: bool | None, expected: bool) -> None:
    lines = [
        log_row(1, 10, kv_used_ratio=1.0, running_count=12, waiting_count=1, is_action_logged=is_logged),
        log_row(2, 11, kv_used_ratio=1.0, running_count=9, waiting_count=4, is_action_logged=is_logged),
    ]
    con = model("int_kv_pressure", {"raw_log_stats": lines, "raw_settings": [LIMIT]})
    rows = table(con, "select is_flip, is_blocked from int_kv_pressure order by ts_ns")
    assert rows == [(False, True), (expected, True)]


def test_cache_that_is_reserved_in_advance_does_not_flip() -> None:
    rows = [
        {
            "source_id": 1,
            "replica_id": "0",
            "origin": "log",
            "kv_used_ratio": 1.0,
            "running_count": 10.0 - second,
            "waiting_count": float(second),
            "is_action_logged": False,
            "sample_no": second,
            "ts_ns": second * S,
            "interval_ns": S,
        }
        for second in range(2)
    ]
    limits = [{"replica_id": "0", "running_limit": 16.0}]
    for semantics, expected in (("reserved_tokens", False), ("referenced_blocks", True)):
        given = [{**row, "semantics": semantics} for row in rows]
        con = model("int_kv_pressure", {}, {"int_kv_samples": given, "int_engine_limits": limits})
        assert table(con, "select bool_or(is_flip) from int_kv_pressure") == [(expected,)]


def flip_since_s(seconds: list[int]) -> float:
    """Return how far back the first flip reaches when the cache is full and somebody waits all along."""
    scrapes = [Scrape(second, kv=0.99, running=10, waiting=1) for second in seconds[:-1]]
    scrapes.append(Scrape(seconds[-1], kv=0.95, running=9, waiting=2))
    con = model("int_kv_pressure", merge(scrape_rows(scrapes), {"raw_settings": [LIMIT]}))
    query = "select flip_since_ns / 1e9 from int_kv_pressure where is_flip order by ts_ns limit 1"
    ((since,),) = table(con, query)
    assert isinstance(since, float)
    return since


def test_a_flip_reaches_back_by_the_gap_of_an_episode() -> None:
    # One can have been missed in the ten seconds ahead of the sample before; earlier is another episode.
    assert flip_since_s(list(range(41))) == 29.0


def test_time_without_samples_is_no_quiet_time() -> None:
    assert flip_since_s([*range(20), *range(34, 41)]) == pytest.approx(15, abs=1)


def test_coarse_samples_exclude_nothing_of_a_full_cache() -> None:
    # The record begins under pressure: before the first sample nothing is known.
    assert flip_since_s(list(range(0, 100, 5))) == -15.0
