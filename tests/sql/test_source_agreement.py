"""source_agreement: what two sources state of the same fact, and whether both can be right."""

import pytest

from builders_raw import Row, Rows, source
from builders_serving import Scrape, log_row, ns, rows_of, scrape_rows

CLOCKS = [
    {"source_id": number, "offset_ns": 0, "uncertainty_ns": 1_000_000, "method": "stated"}
    for number in (1, 2, 3)
]
SCRAPES = [Scrape(second, kv=0.5, running=10) for second in range(61)]
ALL = "topic, first_value, second_value, compared_count, differing_count, is_disagreement"


def agreement(columns: str = ALL, *, topic: str | None = None, **raw: Rows) -> list[tuple[object, ...]]:
    rows = rows_of("source_agreement", f"topic, {columns}", **{"clocks": CLOCKS, **raw})
    return [row[1:] for row in rows if topic in (None, row[0])]


def lines(kv: float, running: int, *, semantics: str = "referenced_blocks") -> list[Row]:
    return [
        log_row(number, 5.0 + 5 * number, kv_used_ratio=kv, running_count=running, kv_semantics=semantics)
        for number in range(1, 8)
    ]


def test_sources_that_agree() -> None:
    rows = agreement(**scrape_rows(SCRAPES), raw_log_stats=lines(0.52, 12))
    assert rows == [
        ("kv_used", 0.52, 0.5, 7, 0, False),
        ("running", 12.0, 10.0, 7, 0, False),
    ]


def test_running_requests_that_exclude_each_other() -> None:
    rows = agreement(topic="running", **scrape_rows(SCRAPES), raw_log_stats=lines(0.5, 20))
    assert rows == [("running", 20.0, 10.0, 7, 7, True)]
    moments = agreement(
        "start_ns, end_ns", topic="running", **scrape_rows(SCRAPES), raw_log_stats=lines(0.5, 20)
    )
    assert moments == [(ns(10.5), ns(40.5))]


def test_kv_shares_of_other_meaning_are_not_compared() -> None:
    same = agreement("is_disagreement", topic="kv_used", **scrape_rows(SCRAPES), raw_log_stats=lines(0.9, 10))
    assert same == [(True,)]
    other = lines(0.9, 10, semantics="live_tokens")
    assert agreement(topic="kv_used", **scrape_rows(SCRAPES), raw_log_stats=other) == []


def test_a_load_that_moves_between_scrapes_is_no_disagreement() -> None:
    moving = [Scrape(second, kv=0.1 + 0.02 * (second % 40), running=second % 40) for second in range(61)]
    stats = [
        log_row(
            number,
            5.0 + 5 * number,
            kv_used_ratio=0.1 + 0.02 * ((5 + 5 * number) % 40),
            running_count=(5 + 5 * number) % 40,
            kv_semantics="referenced_blocks",
        )
        for number in range(1, 8)
    ]
    rows = agreement("is_disagreement", **scrape_rows(moving), raw_log_stats=stats)
    assert rows == [(False,), (False,)]


def test_few_moments_and_untied_clocks_say_nothing() -> None:
    few = agreement(
        "is_disagreement", topic="running", **scrape_rows(SCRAPES), raw_log_stats=lines(0.5, 20)[:4]
    )
    assert few == [(False,)]
    untied = [CLOCKS[0], {**CLOCKS[1], "uncertainty_ns": None, "method": "untied"}]
    raw = {**scrape_rows(SCRAPES), "clocks": untied}
    assert agreement(**raw, raw_log_stats=lines(0.5, 20)) == []


def test_a_line_over_several_engines_has_no_counterpart() -> None:
    both = {
        name: [*rows, *scrape_rows(SCRAPES, engine="1", source_id=3)[name]]
        for name, rows in scrape_rows(SCRAPES).items()
    }
    sources = [source(1, "a.prom", "metrics"), source(2, "s.log", "log"), source(3, "b.prom", "metrics")]
    assert agreement(**both, sources=sources, raw_log_stats=lines(0.5, 20)) == []


@pytest.mark.parametrize(("logged", "expected"), [(4, False), (7, True)])
def test_a_log_cannot_show_more_preemptions_than_the_counter(logged: int, expected: bool) -> None:
    scrapes = [Scrape(second, kv=0.5, running=10, preemptions=min(second, 5)) for second in range(61)]
    events = [
        {"source_id": 2, "line_no": number, "kind": "preempt", "engine": "0", "src_ns": ns(8 + number)}
        for number in range(logged)
    ]
    rows = agreement(
        topic="preemptions", **scrape_rows(scrapes), raw_log_stats=lines(0.5, 10), raw_log_events=events
    )
    assert rows == [("preemptions", float(logged), 5.0, 1, int(expected), expected)]


@pytest.mark.parametrize(("tokens", "expected"), [(120, False), (130, True)])
def test_clients_cannot_get_more_tokens_than_were_generated(tokens: int, expected: bool) -> None:
    scrapes = [Scrape(second, kv=0.5, running=10, generated=10 * second) for second in range(61)]
    request = {
        "source_id": 3,
        "request_no": 0,
        "output_tokens": tokens * 6,
        "submit_src_ns": ns(5),
        "done_src_ns": ns(50),
    }
    rows = agreement(
        topic="generated_tokens",
        **scrape_rows(scrapes),
        raw_client_requests=[request],
    )
    assert rows == [("generated_tokens", tokens * 6.0, 600.0, 1, int(expected), expected)]


def setting(source_id: int, name: str, value: float, line_no: int = 1) -> Row:
    return {"source_id": source_id, "line_no": line_no, "scope": "", "name": name, "value": str(int(value))}


@pytest.mark.parametrize(
    ("stated", "blocks", "expected"),
    [
        (86_432, 5402, [False]),
        (86_416, 5402, [False]),  # one block is the engine's own
        (172_864, 5402, [False]),  # two ranks, or two groups of layers
        (60_000, 5402, [True]),
    ],
)
def test_capacity_in_tokens_and_blocks(stated: int, blocks: int, expected: list[bool]) -> None:
    facts = [
        setting(2, "kv_cache_tokens", stated),
        setting(1, "num_gpu_blocks", blocks),
        setting(1, "block_size", 16),
    ]
    rows = agreement("is_disagreement", topic="kv_capacity", raw_settings=facts)
    assert [row[0] for row in rows] == expected


def test_a_restart_with_another_capacity_agrees_when_one_value_does() -> None:
    facts = [
        setting(2, "kv_cache_tokens", 60_000, 1),
        setting(2, "kv_cache_tokens", 86_432, 9),
        setting(1, "num_gpu_blocks", 5402),
        setting(1, "block_size", 16),
    ]
    rows = agreement("is_disagreement, compared_count", topic="kv_capacity", raw_settings=facts)
    assert rows == [(False, 2)]
