"""Levels of a sweep: folders first, then tags that hold a load, then one client file per level."""

import pytest

from builders_raw import Row, Rows, source, table
from builders_serving import S, model

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
