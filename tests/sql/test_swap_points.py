"""The swap_points mart: from the rows of a few sources to the episodes claimed, their class and date."""

import math
from dataclasses import replace

import pytest

from builders_raw import Row, Rows, source, table
from builders_serving import (
    CLIENT,
    LOG,
    METRICS,
    MS,
    NO_TRANSFERS,
    STALLS,
    S,
    Scrape,
    every,
    histogram_rows,
    limit_row,
    log_row,
    merge,
    model,
    ns,
    pressure_story,
    request_row,
    scrape_rows,
    story_scrapes,
    story_streams,
    token_rows,
)

SUMMARY = "class, e_proof, l_status"


def points(
    raw: dict[str, list[Row]], columns: str = SUMMARY, sources: Rows = (METRICS, LOG, CLIENT)
) -> list[tuple[object, ...]]:
    con = model("swap_points", {**raw, "sources": sources}, NO_TRANSFERS)
    return table(con, f"select {columns} from swap_points order by swap_point_id")


# Whole runs


def test_counter_and_silent_streams_confirm_a_swap_point() -> None:
    columns = f"{SUMMARY}, dated_by, action_count, victim_count"
    assert points(pressure_story(), columns) == [("confirmed", "counter", "worse", "stall", 3, 3)]


def test_first_action_lies_in_the_error_bar() -> None:
    ((at_ns, error_ns),) = points(pressure_story(), "at_ns, error_ns")
    # The cache is full before, but the counter stands still: no victim waited between two samples.
    assert abs(at_ns - ns(STALLS[0][0])) <= error_ns <= S // 2  # type: ignore[operator]


def test_order_of_times() -> None:
    columns = "pressure_at_ns, at_ns, resume_at_ns, counter_at_ns, end_ns, recovered_at_ns"
    ((pressure, at, resume, counter, end, recovered),) = points(pressure_story(), columns)
    # The first sample near full, not the rolling window that sees it two seconds ahead.
    assert pressure == 40 * S
    # The victim's next token, and the scrape after it in which the counter moved.
    assert (resume, counter, end) == (ns(49.8), 50 * S, 63 * S)
    assert pressure < at < resume
    # Four seconds after the cache was last full.
    assert recovered == 68 * S


def test_measures_of_harm_and_price() -> None:
    columns = "longest_gap_ms, victim_gap_p50_ms, itl_p99_before_ms, itl_p99_during_ms, ttft_p50_during_ms"
    ((longest, median, before, during, ttft),) = points(pressure_story(), columns)
    assert (longest, median) == (5400.0, 5400.0)
    assert (before, ttft) == (200.0, None)
    assert during == pytest.approx(200.0)


def test_scrapes_alone_are_probable() -> None:
    columns = f"{SUMMARY}, l_reason, dated_by, at_ns, error_ns, victim_count"
    assert points(pressure_story(has_streams=False), columns, [METRICS, LOG]) == [
        (
            "probable",
            "counter",
            "not_measurable",
            "no token times and no latency histogram",
            "flip",
            ns(44.5),
            # The cache is full from 40 s on, but the counter stands still: nobody waited in between.
            S,
            None,
        )
    ]


def test_gauges_alone_are_probable_when_streams_stall() -> None:
    assert points(pressure_story(has_counter=False)) == [("probable", "gauges", "worse")]


def test_gauges_alone_are_probable_when_nothing_measures_harm() -> None:
    story = pressure_story(has_counter=False, has_streams=False)
    assert points(story) == [("probable", "gauges", "not_measurable")]


@pytest.mark.parametrize(("count", "expected"), [(2, "pressure"), (3, "probable")])
def test_few_flips_are_nothing_where_nobody_counts_finished_requests(count: int, expected: str) -> None:
    scrapes = story_scrapes(has_counter=False, stalls=STALLS[:count])
    story = merge(scrape_rows(scrapes), {"raw_settings": [limit_row()]})
    assert points(story, "class") == [(expected,)]
    counted = merge(
        scrape_rows([replace(scrape, finished=0) for scrape in scrapes]), {"raw_settings": [limit_row()]}
    )
    assert points(counted, "class") == [("probable",)]


def test_gauges_without_stalls_are_pressure() -> None:
    story = merge(
        scrape_rows(story_scrapes(has_counter=False)),
        story_streams(stalls=()),
        {"raw_settings": [limit_row()]},
    )
    assert points(story, f"{SUMMARY}, victim_count") == [("pressure", "gauges", "not_worse", 0)]


def test_proved_action_without_stalls_is_pressure() -> None:
    story = merge(scrape_rows(story_scrapes()), story_streams(stalls=()), {"raw_settings": [limit_row()]})
    assert points(story) == [("pressure", "counter", "not_worse")]


def test_blocked_admission_without_any_action_is_pressure() -> None:
    scrapes = [
        Scrape(second, kv=1.0, running=10, waiting=4.0 if 20 <= second < 40 else 0.0) for second in range(60)
    ]
    columns = f"{SUMMARY}, mechanism, dated_by, evidence, action_count, blocked_s"
    assert points(merge(scrape_rows(scrapes), {"raw_settings": [limit_row()]}), columns) == [
        ("pressure", None, "not_measurable", "none", "blocked", "admission blocked (gauges)", 0, 20.0)
    ]


def test_full_cache_alone_is_nothing() -> None:
    scrapes = [Scrape(second, kv=1.0, running=10, waiting=0) for second in range(60)]
    assert points(scrape_rows(scrapes)) == []


def test_queue_at_the_running_limit_is_nothing() -> None:
    scrapes = [Scrape(second, kv=1.0, running=16, waiting=40) for second in range(60)]
    assert points(merge(scrape_rows(scrapes), {"raw_settings": [limit_row()]})) == []


def test_preemptions_with_room_in_the_cache_are_nothing() -> None:
    scrapes = [
        Scrape(second, kv=0.4, running=10, waiting=2, preemptions=second // 10) for second in range(60)
    ]
    assert points(merge(scrape_rows(scrapes), {"raw_settings": [limit_row()]})) == []


def test_silent_streams_alone_are_nothing() -> None:
    calm = [Scrape(second, kv=0.5, running=8, waiting=0, preemptions=0) for second in range(101)]
    assert points(merge(scrape_rows(calm), story_streams())) == []


@pytest.mark.parametrize(("count", "expected"), [(2, "pressure"), (3, "confirmed")])
def test_one_or_two_preemptions_are_a_corner_case(count: int, expected: str) -> None:
    story = merge(
        scrape_rows(story_scrapes(stalls=STALLS[:count])),
        story_streams(STALLS[:count]),
        {"raw_settings": [limit_row()]},
    )
    assert points(story, "class, e_proof, action_count") == [(expected, "counter", count)]


def test_log_alone() -> None:
    stats = [
        log_row(
            number,
            10 * number,
            kv_used_ratio=kv,
            running_count=10,
            waiting_count=waiting,
            gen_tokens_per_s=400.0,
        )
        for number, (kv, waiting) in enumerate(
            [(0.3, 0), (0.5, 0), (0.97, 0), (0.99, 3), (0.98, 2), (0.4, 0), (0.3, 0)]
        )
    ]
    lines = [
        log_row(100 + number, second, kind="preempt", mode="recompute", cumulative_count=count)
        for number, (second, count) in enumerate([(24, 1), (33, 51)])
    ]
    raw = {"raw_log_stats": stats, "raw_log_events": lines, "raw_settings": [limit_row()]}
    columns = f"{SUMMARY}, mechanism, dated_by, action_count, at_ns, error_ns"
    assert points(raw, columns, [LOG]) == [
        ("probable", "log", "not_measurable", "recompute", "log", 51, ns(24.5), S)
    ]


def test_iteration_log_alone() -> None:
    """Ten requests decode at the ceiling; one vanishes at 30 s and is recomputed three seconds later."""
    steps = []
    for number, second in enumerate(every(0.1, 20, 40)):
        requests = 9 if 30.05 < second < 33.05 else 10
        tokens = requests + (200 if second == 33.1 else 0)
        steps.append(
            log_row(
                number,
                second,
                context_requests=0,
                context_tokens=0,
                generation_requests=requests,
                generation_tokens=tokens,
                elapsed_ms=100.0,
                kv_used_ratio=0.9 if requests == 9 else 0.99,
            )
        )
    # Stamps are not whole seconds: each is good to its millisecond.
    steps[0]["src_ns"] = ns(20) + 7 * MS
    columns = f"{SUMMARY}, dated_by, mechanism, recomputed_tokens, at_ns, error_ns"
    assert points({"raw_log_iterations": steps}, columns, [LOG]) == [
        ("probable", "resume", "not_measurable", "drop", "recompute", 201, 30_000_500_000, 500_000)
    ]


def test_starved_client_falls_back_to_the_servers_histogram() -> None:
    slow = {50: 40, 60: 80}
    counts = {
        float(second): {
            0.1: 50.0 * second - sum(number for start, number in slow.items() if second >= start),
            0.3: 50.0 * second - sum(number for start, number in slow.items() if second >= start),
            math.inf: 50.0 * second,
        }
        for second in range(101)
    }
    streams = story_streams()
    for row in streams["raw_client_tokens"]:
        # Chunks arrive two by two.
        if int(str(row["chunk_no"])) % 2:
            row["src_ns"] = int(str(row["src_ns"])) - 200 * MS  # type: ignore[index]
    story = merge(
        scrape_rows(story_scrapes()), histogram_rows(counts), streams, {"raw_settings": [limit_row()]}
    )
    assert points(story, f"{SUMMARY}, l_reason, victim_count") == [
        ("confirmed", "counter", "worse", "more slow tokens in the server histogram", None)
    ]


def test_flip_that_the_counter_refutes_is_nothing() -> None:
    still = [replace(scrape, preemptions=0.0) for scrape in story_scrapes(stalls=STALLS[:1])]
    rows = points(merge(scrape_rows(still), {"raw_settings": [limit_row()]}))
    # Admission was blocked meanwhile, that remains true.
    assert rows == [("pressure", None, "not_measurable")]


# Two of something


def two_waves(gap_s: float) -> list[Scrape]:
    """Return scrapes with two waves of blocked admission and flips, so far apart from end to start."""
    waves = [(44.5, 49.5), (49.5 + gap_s, 54.5 + gap_s)]
    scrapes = []
    for second in range(160):
        away = sum(start <= second < end for start, end in waves)
        scrapes.append(Scrape(second, kv=1.0, running=10.0 - away, waiting=float(away)))
    return scrapes


@pytest.mark.parametrize(("gap_s", "expected"), [(11, 1), (12, 2)])
def test_quiet_time_splits_episodes(gap_s: float, expected: int) -> None:
    raw = merge(scrape_rows(two_waves(gap_s)), {"raw_settings": [limit_row()]})
    assert len(points(raw)) == expected


@pytest.mark.parametrize(("gap_s", "expected"), [(29, [1, 1]), (30, [1, 2])])
def test_episodes_close_together_form_a_series(gap_s: float, expected: list[int]) -> None:
    raw = merge(scrape_rows(two_waves(gap_s)), {"raw_settings": [limit_row()]})
    assert [row[0] for row in points(raw, "series_id")] == expected


def test_idle_engine_splits_episodes() -> None:
    scrapes = two_waves(8)
    assert len(points(merge(scrape_rows(scrapes), {"raw_settings": [limit_row()]}))) == 1
    stopped = [replace(s, running=0.0) if s.second == 53 else s for s in scrapes]
    assert len(points(merge(scrape_rows(stopped), {"raw_settings": [limit_row()]}))) == 2


def test_two_replicas_have_their_own() -> None:
    story = merge(
        scrape_rows(story_scrapes()),
        scrape_rows(
            [replace(s, second=s.second + 5) for s in story_scrapes()],
            engine="1",
            source_id=4,
        ),
        {"raw_settings": [limit_row()]},
    )
    sources = [METRICS, LOG, source(4, "b.prom", "metrics")]
    rows = points(story, "swap_point_id, series_id, replica_id, class, at_ns", sources)
    assert rows == [(1, 1, "0", "probable", ns(44.5)), (2, 2, "1", "probable", ns(49.5))]


def test_streams_of_several_replicas_cannot_be_assigned() -> None:
    busy = [Scrape(second, kv=0.3, running=3, waiting=0, preemptions=0) for second in range(101)]
    story = merge(pressure_story(), scrape_rows(busy, engine="1"))
    assert points(story, f"replica_id, {SUMMARY}") == [("0", "probable", "counter", "not_measurable")]


def test_two_levels_have_their_own() -> None:
    raw = merge(
        scrape_rows(story_scrapes()),
        scrape_rows([replace(s, second=s.second + 200) for s in story_scrapes()], source_id=4),
        {"raw_settings": [limit_row()]},
    )
    sources = [
        source(1, "c8/m.prom", "metrics", level="c8"),
        LOG,
        source(4, "c16/m.prom", "metrics", level="c16"),
    ]
    rows = points(raw, "level, class, at_ns", sources)
    assert rows == [("c8", "probable", ns(44.5)), ("c16", "probable", ns(244.5))]


def test_catch_up_burst_does_not_narrow_the_error() -> None:
    """The scraper hangs from 40 s to 45 s, then catches up with four answers at once."""
    kept = [scrape for scrape in story_scrapes() if not 40 < scrape.second < 45]
    burst = [replace(kept[41], second=45 + number / 100) for number in (1, 2, 3)]
    assert kept[41].second == 45
    stale = [replace(kept[40], second=44.98)]
    story = merge(
        scrape_rows([*kept[:41], *stale, *kept[41:42], *burst, *kept[42:]]), {"raw_settings": [limit_row()]}
    )
    ((at_ns, error_ns),) = points(story, "at_ns, error_ns")
    assert abs(at_ns - ns(44.5)) <= error_ns  # type: ignore[operator]
    assert error_ns >= 5 * S  # type: ignore[operator]


# Class and wording, by episode

EPISODE = {
    "replica_id": "0",
    "episode_no": 1,
    "e_proof": "counter",
    "evidence": "preempt (counter)",
    "action_count": 9,
    "counted_actions": 9,
}
SPAN = {
    "replica_id": "0",
    "episode_no": 1,
    "at_ns": 20 * S,
    "error_ns": S,
    "pressure_at_ns": 15 * S,
    "end_ns": 30 * S,
}
HARM = {"replica_id": "0", "episode_no": 1, "l_status": "worse", "l_reason": "stalls"}


def classified(
    columns: str = "class",
    *,
    settings: Rows = (),
    status: str = "worse",
    stalls: Rows = (),
    victims: int | None = None,
    **episode: object,
) -> object:
    stubs = {
        "int_episodes": [{**EPISODE, **episode}],
        "int_episode_spans": [SPAN],
        "int_episode_harm": [{**HARM, "l_status": status, "victim_count": victims}],
        "int_episode_stalls": stalls,
        "int_episode_prices": [],
        "settings": settings,
    }
    ((value,),) = table(model("swap_points", {}, stubs), f"select {columns} from swap_points")
    return value


@pytest.mark.parametrize(
    ("proof", "status", "expected"),
    [
        *[(proof, "worse", "confirmed") for proof in ("counter", "log", "resume", "copies")],
        ("gauges", "worse", "probable"),
        *[
            (proof, "not_measurable", "probable")
            for proof in ("counter", "log", "resume", "copies", "gauges")
        ],
        *[(proof, "not_worse", "pressure") for proof in ("counter", "log", "resume", "copies", "gauges")],
        (None, "worse", "pressure"),
        (None, "not_measurable", "pressure"),
    ],
)
def test_class_of_proof_and_harm(proof: str | None, status: str, expected: str) -> None:
    assert classified(e_proof=proof, status=status) == expected


@pytest.mark.parametrize(
    ("counted", "seen", "victims", "expected"),
    [
        (2, 2, 2, "pressure"),
        (2, 2, None, "pressure"),
        (3, 3, None, "confirmed"),
        (2, 3, None, "confirmed"),
        (2, 2, 3, "confirmed"),
        (None, 2, 2, "confirmed"),
    ],
)
def test_episode_is_isolated_when_a_counter_and_all_others_agree(
    counted: int | None, seen: int, victims: int | None, expected: str
) -> None:
    assert classified(counted_actions=counted, seen_actions=seen, victims=victims) == expected


def setting(name: str, value: str) -> Row:
    return {"scope": "", "name": name, "value": value, "is_effective": True}


@pytest.mark.parametrize(
    ("settings", "episode", "expected"),
    [
        ([], {}, "unknown"),
        ([], {"mode": "swap"}, "swap"),
        ([setting("engine", "sglang")], {}, "retract"),
        ([setting("engine", "vllm"), setting("engine_generation", "V1")], {}, "recompute"),
        ([setting("engine", "vllm"), setting("engine_generation", "V0")], {}, "unknown"),
        ([], {"evidence": "recompute_step (resume)", "e_proof": "resume"}, "recompute"),
        ([], {"e_proof": "copies", "evidence": "copies_out (copies)"}, "swap"),
        ([setting("engine_generation", "V1")], {"mode": "swap"}, "swap"),
        ([setting("engine_generation", "V1")], {"e_proof": None, "evidence": None}, "none"),
    ],
)
def test_mechanism(settings: list[Row], episode: Row, expected: str) -> None:
    assert classified("mechanism", settings=settings, **episode) == expected


def stall(start: float, end: float) -> Row:
    return {
        "replica_id": "0",
        "episode_no": 1,
        "source_id": 3,
        "request_no": 0,
        "start_ns": ns(start),
        "end_ns": ns(end),
    }


def test_recompute_step_is_the_resume_or_else_the_end_of_the_first_stall() -> None:
    stalls = [stall(21, 29), stall(20.5, 24)]
    assert classified("resume_at_ns", stalls=stalls) == 24 * S
    assert classified("resume_at_ns", stalls=stalls, resume_at_ns=22 * S) == 22 * S


def test_resume_before_the_first_action_belongs_to_something_else() -> None:
    assert classified("resume_at_ns", resume_at_ns=19 * S) is None


def test_single_stream_has_no_others_and_no_stall() -> None:
    story = merge(
        scrape_rows(story_scrapes()),
        {"raw_settings": [limit_row()]},
        {
            "raw_client_requests": [request_row(0, 25, 70)],
            "raw_client_tokens": token_rows(0, [s for s in every(0.2, 25, 70) if not 44.5 < s < 49.7]),
        },
    )
    assert points(story) == [("pressure", "counter", "not_worse")]
