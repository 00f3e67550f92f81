"""The zoom on the worst swap point: what it draws, and when there is nothing to draw."""

from builders_marts import START, S, add_rows, add_run, empty_marts, kv_row, swap_point
from kvcliff.report.content import build_content
from kvcliff.report.zoom_figure import zoom_figure


def _stream(stream_no: int, seconds: list[float], *, is_victim: bool, request_id: str | None = None):
    return [
        {
            "replica_id": "0",
            "swap_point_id": 1,
            "source_id": 3,
            "request_no": stream_no,
            "request_id": request_id,
            "stream_no": stream_no,
            "tokens": number + 1,
            "is_victim": is_victim,
            "ts_ns": START + round(second * S),
        }
        for number, second in enumerate(seconds)
    ]


def _run():
    con = empty_marts()
    add_run(con)
    add_rows(con, "kv_occupancy", *(kv_row(second, 0.99) for second in range(57, 70)))
    add_rows(con, "swap_points", swap_point())
    return con


def _drawn(con):
    content = build_content(con, "night-1")
    return zoom_figure(con, content.run_time, content.run.name)


def _texts(drawn) -> set[str]:
    lines = [line.strip() for line in drawn.svg.decode().splitlines()]
    return {line[5:-4] for line in lines if line.startswith("<!-- ") and line.endswith(" -->")}


def test_victims_are_named_and_others_are_not():
    con = _run()
    add_rows(con, "swap_streams", *_stream(1, [57.0, 60.0, 66.0], is_victim=True, request_id="chat-1"))
    add_rows(con, "swap_streams", *_stream(2, [57.0, 57.2, 57.4], is_victim=True))
    add_rows(con, "swap_streams", *_stream(3, [57.0, 61.0], is_victim=False, request_id="chat-3"))
    drawn = _drawn(con)
    texts = _texts(drawn)
    assert {"chat-1", "request 2", "other streams", "KV occupancy", "tokens since the left edge"} <= texts
    assert "chat-3" not in texts
    assert "2 of 6 victims in colour" in drawn.caption
    assert drawn.png.startswith(b"\x89PNG")
    assert drawn.svg == _drawn(con).svg


def test_a_long_name_is_cut():
    con = _run()
    add_rows(con, "swap_streams", *_stream(1, [57.0, 66.0], is_victim=True, request_id="r" * 40))
    assert "r" * 15 + "..." in _texts(_drawn(con))


def test_without_streams_there_is_no_figure():
    assert _drawn(_run()) is None
