"""Levels of a sweep: folders first, then tags that hold a load, then one client file per level."""

import pytest

from builders_raw import Row, Rows, source, table
from builders_serving import LOG, METRICS, S, Scrape, model, scrape_rows

CLIENT = [source(1, "requests.jsonl", "client"), source(2, "bench.json", "client")]


def requests(tag: str, load: int, start_s: float, *, count: int = 8, source_id: int = 1) -> list[Row]:
    """Return requests of one second each, ``load`` at once, one behind the other."""
    return [
        {
            "source_id": source_id, "request_no": round(start_s * 1000) + number, "tag": tag,
            "submit_src_ns": round((start_s + number // load) * S),
            "done_src_ns": round((start_s + number // load + 1) * S),
        }
        for number in range(count)
    ]  # fmt: skip


def limits(*numbers: float, source_id: int = 2) -> list[Row]:
    return [
        {"source_id": source_id, "load_no": load_no, "name": "max_concurrency", "value": number}
        for load_no, number in enumerate(numbers)
    ]


def levels(rows: dict[str, Rows], columns: str = "level, origin, level_number") -> list[tuple[object, ...]]:
    con = model("int_sweep_levels", {"sources": CLIENT, "clocks": [], **rows})
    return table(con, f"select {columns} from int_sweep_levels order by level_number, level")


def test_tags_one_after_the_other_are_levels_with_their_time() -> None:
    sent = [*requests("c1", 1, 0), *requests("c4", 4, 20)]
    assert levels({"raw_client_requests": sent}, "level, origin, level_number, start_ns, end_ns") == [
        ("c1", "tag", 1.0, 0, 8 * S),
        ("c4", "tag", 4.0, 20 * S, 22 * S),
    ]


@pytest.mark.parametrize(
    "second",
    [
        requests("c4", 4, 7),
        requests("c4", 4, 20, count=3),
        requests("turn 9", 4, 20),
        requests("burst", 4, 20),
        [{**row, "is_warmup": True} for row in requests("c4", 4, 20)],
    ],
    ids=["overlaps", "too few requests", "number is no load", "no number", "warm-up"],
)
def test_other_tags_are_no_levels(second: list[Row]) -> None:
    assert levels({"raw_client_requests": [*requests("c1", 1, 0), *second]}) == []


def test_one_level_is_no_sweep() -> None:
    assert levels({"raw_client_requests": requests("c4", 4, 0), "raw_client_summary": limits(4)}) == []
    assert levels({"sources": [source(1, "8/server.log", "log", level="8", level_number=8.0)]}) == []


def test_client_files_with_limits_of_their_own_are_levels() -> None:
    sent = requests("", 4, 20, source_id=1)
    rows = {"raw_client_summary": [*limits(4, source_id=1), *limits(16)], "raw_client_requests": sent}
    assert levels(rows, "level, origin, source_id, load_no, start_ns, end_ns") == [
        ("4", "file", 1, 0, 20 * S, 22 * S),
        ("16", "file", 2, 0, None, None),
    ]


def test_loads_of_one_file_are_levels_without_a_time() -> None:
    rows = {"raw_client_summary": limits(4, 16), "raw_client_requests": requests("", 4, 20, source_id=2)}
    assert levels(rows, "level, load_no, start_ns") == [("4", 0, None), ("16", 1, None)]


def test_folders_beat_tags_and_tags_beat_files() -> None:
    tagged = {
        "raw_client_requests": [*requests("c1", 1, 0), *requests("c4", 4, 20)],
        "raw_client_summary": limits(2, 8),
    }
    assert [row[1] for row in levels(tagged)] == ["tag", "tag"]
    folders = [
        source(number, f"{number}/server.log", "log", level=str(number), level_number=float(number))
        for number in (8, 16)
    ]
    assert levels({**tagged, "sources": [*CLIENT, *folders]}) == [
        ("8", "folder", 8.0),
        ("16", "folder", 16.0),
    ]


def gauges(*stretches: tuple[float, int], step_s: float = 0.5, wiggle: int = 0) -> dict[str, Rows]:
    """Return scrapes of an engine that holds a number of requests for some seconds, one after another."""
    scrapes, second = [], 0.0
    for seconds, running in stretches:
        for number in range(round(seconds / step_s)):
            scrapes.append(Scrape(second, 0.2, running + wiggle * (number % 2), 0))
            second += step_s
    return scrape_rows(scrapes)


def seen(rows: dict[str, Rows]) -> list[tuple[object, ...]]:
    """Return the levels of a run without a client."""
    con = model("int_sweep_levels", {"sources": [METRICS], "clocks": [], **rows})
    return table(con, "select level, origin from int_sweep_levels order by level_number")


RISING = tuple((40.0, load) for load in (1, 2, 4, 8))


def test_requests_in_flight_that_stand_still_are_levels() -> None:
    assert seen(gauges(*RISING)) == [(str(load), "running") for load in (1, 2, 4, 8)]
    assert seen(gauges(*RISING[::-1])) == [(str(load), "running") for load in (1, 2, 4, 8)]
    assert seen(gauges(*RISING, (200, 0), *RISING)) == [(str(load), "running") for load in (1, 2, 4, 8)]


@pytest.mark.parametrize(
    "stretches",
    [
        ((40, 1), (40, 2), (40, 4)),
        tuple((2.5, load) for load in range(1, 40)),
        ((40, 4), (40, 5), (40, 6), (40, 8)),
        tuple((40, load) for load in (1, 4, 2, 8, 1, 6, 2, 8)),
        (*RISING, *((1, load) for load in range(1, 120))),
    ],
    ids=["three loads", "a ramp", "narrow range", "any order", "most time on the move"],
)
def test_other_traffic_is_no_sweep(stretches: tuple[tuple[float, int], ...]) -> None:
    assert seen(gauges(*stretches)) == []


def test_client_file_without_times_lies_where_as_many_requests_are_in_flight() -> None:
    rows = {"raw_client_summary": limits(2, 8), **gauges(*RISING)}
    con = model("int_sweep_levels", {"sources": [METRICS, CLIENT[1]], "clocks": [], **rows})
    assert table(
        con,
        "select level, origin, start_ns // 1000000000, end_ns // 1000000000 from int_sweep_levels "
        "order by level_number",
    ) == [("2", "file", 42, 78), ("8", "file", 122, 158)]


def restarts(*stretches: tuple[int, int, int], waiting: int = 5) -> dict[str, Rows]:
    """Return a log whose engine starts again: max_num_seqs, first second, requests running."""
    settings, stats = [], []
    for number, (limit, second, running) in enumerate(stretches):
        line_no = 100 * number
        settings += [
            {"source_id": 2, "line_no": line_no + copy, "name": "max_num_seqs", "value": str(limit)}
            for copy in (1, 2)
        ]
        stats += [
            {
                "source_id": 2, "line_no": line_no + 10 + sample, "src_ns": (second + 5 * sample) * S,
                "running_count": running, "waiting_count": waiting, "kv_used_ratio": 0.1,
            }
            for sample in range(6)
        ]  # fmt: skip
    return {"raw_settings": settings, "raw_log_stats": stats}


def restarted(rows: dict[str, Rows]) -> list[tuple[object, ...]]:
    con = model("int_sweep_levels", {"sources": [LOG], "clocks": [], **rows})
    return table(
        con,
        "select level, origin, level_number, start_ns // 1000000000, end_ns // 1000000000 "
        "from int_sweep_levels order by level",
    )


def test_restarts_with_another_max_num_seqs_are_levels() -> None:
    assert restarted(restarts((16, 0, 16), (32, 100, 32))) == [
        ("16", "limit", 16.0, 0, 25),
        ("32", "limit", 32.0, 100, 125),
    ]


def test_a_limit_that_nothing_reached_is_no_load() -> None:
    rows = restarts((16, 0, 16), (32, 100, 20), waiting=0)
    assert [row[:3] for row in restarted(rows)] == [("16", "limit", 16.0), ("32", "limit", None)]


@pytest.mark.parametrize(
    "stretches",
    [((16, 0, 16), (16, 100, 16)), ((16, 0, 16), (32, 10, 32))],
    ids=["same limit", "at the same time"],
)
def test_other_restarts_are_no_levels(stretches: tuple[tuple[int, int, int], ...]) -> None:
    assert restarted(restarts(*stretches)) == []
