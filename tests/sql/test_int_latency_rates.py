"""int_latency_rates: tokens per second from counters and statistics lines."""

from builders_raw import source
from builders_serving import Scrape, log_row, merge, rows_of, scrape_rows

COLUMNS = "origin, tokens_per_s, ts_ns / 1e9"


def rates(**raw: object) -> list[tuple[object, ...]]:
    return rows_of("int_latency_rates", COLUMNS, order="origin, replica_id, ts_ns", **raw)  # type: ignore[arg-type]


def test_counter_rate_over_the_scrape_interval() -> None:
    scrapes = [Scrape(10, generated=100), Scrape(12, generated=300)]
    assert rates(**scrape_rows(scrapes)) == [("counters", 100.0, 12.0)]


def test_scrapes_of_one_second_are_weighed_by_time() -> None:
    scrapes = [Scrape(10, generated=0), Scrape(11.2, generated=120), Scrape(11.6, generated=130)]
    assert rates(**scrape_rows(scrapes)) == [("counters", 130 / 1.6, 11.0)]


def test_counter_that_restarts_gives_no_rate() -> None:
    scrapes = [Scrape(10, generated=100), Scrape(11, generated=5), Scrape(12, generated=25)]
    assert rates(**scrape_rows(scrapes)) == [("counters", 20.0, 12.0)]


def test_counter_that_stands_still_is_a_rate_of_zero() -> None:
    scrapes = [Scrape(10, generated=100), Scrape(11, generated=100)]
    assert rates(**scrape_rows(scrapes)) == [("counters", 0.0, 11.0)]


def test_statistics_lines_are_taken_as_printed() -> None:
    lines = [log_row(1, 10, gen_tokens_per_s=50.0), log_row(2, 20, gen_tokens_per_s=None)]
    assert rates(raw_log_stats=lines) == [("log", 50.0, 10.0)]


def test_replicas_stay_apart() -> None:
    raw = merge(
        scrape_rows([Scrape(10, generated=0), Scrape(11, generated=10)]),
        scrape_rows([Scrape(10, generated=0), Scrape(11, generated=70)], engine="1"),
    )
    assert [row[1] for row in rates(**raw)] == [10.0, 70.0]


def test_two_files_of_one_replica_do_not_mix_their_counters() -> None:
    raw = merge(
        scrape_rows([Scrape(10, generated=100), Scrape(11, generated=110)]),
        scrape_rows([Scrape(12, generated=5), Scrape(13, generated=7)], source_id=4),
    )
    sources = [source(1, "a.prom", "metrics"), source(4, "b.prom", "metrics")]
    assert [row[1] for row in rates(sources=sources, **raw)] == [10.0, 2.0]


def test_a_rate_that_averages_an_idle_time_is_left_out() -> None:
    seconds = (10, 11, 12, 13, 60, 61)
    lines = [
        log_row(
            number,
            second,
            gen_tokens_per_s=2.0 if second == 60 else 50.0,
            waiting_count=0,
            kv_semantics="live_tokens",
        )
        for number, second in enumerate(seconds, start=1)
    ]
    assert [row[1] for row in rates(raw_log_stats=lines)] == [50.0] * 5
    queued = [{**line, "waiting_count": 3} for line in lines]
    assert len(rates(raw_log_stats=queued)) == 6
