"""The victims mart: requests whose stream stalled in a swap point."""

from builders_raw import Row, Rows, table
from builders_serving import S, model, ns

POINT = {"replica_id": "0", "swap_point_id": 7, "at_ns": 20 * S, "end_ns": 30 * S}
SPAN = {"replica_id": "0", "episode_no": 1, "at_ns": 20 * S, "end_ns": 30 * S}
REQUEST = {"replica_id": "0", "source_id": 3, "request_no": 0, "prompt_tokens": 64, "output_tokens": 256}


def stall(start: float, gap_ms: float, request_no: int = 0, episode_no: int = 1, **values: object) -> Row:
    return {
        "replica_id": "0",
        "episode_no": episode_no,
        "source_id": 3,
        "request_no": request_no,
        "request_id": f"r{request_no}",
        "gap_ms": gap_ms,
        "start_ns": ns(start),
        "end_ns": ns(start + gap_ms / 1000),
        **values,
    }


def victims(
    columns: str, *stalls: Row, points: Rows = (POINT,), spans: Rows = (SPAN,)
) -> list[tuple[object, ...]]:
    requests = [{**REQUEST, "request_no": number} for number in range(3)]
    stubs = {
        "swap_points": points,
        "int_episode_spans": spans,
        "int_episode_stalls": stalls,
        "requests": requests,
    }
    con = model("victims", {}, stubs)
    return table(con, f"select {columns} from victims order by swap_point_id, source_id, request_no")


def test_stalls_of_one_request_are_one_row() -> None:
    rows = victims(
        "swap_point_id, request_id, gap_count, gap_ms, gap_total_ms, start_ns, end_ns",
        stall(21, 500),
        stall(25, 2000),
    )
    assert rows == [(7, "r0", 2, 2000.0, 2500.0, 21 * S, 27 * S)]


def test_sizes_of_the_request() -> None:
    assert victims("prompt_tokens, output_tokens", stall(21, 500)) == [(64, 256)]


def test_each_request_is_a_row() -> None:
    assert victims("request_no", stall(21, 500), stall(22, 500, 2)) == [(0,), (2,)]


def test_request_can_be_a_victim_of_two_swap_points() -> None:
    points = [POINT, {**POINT, "swap_point_id": 8, "at_ns": 50 * S, "end_ns": 60 * S}]
    spans = [SPAN, {**SPAN, "episode_no": 2, "at_ns": 50 * S, "end_ns": 60 * S}]
    rows = victims("swap_point_id, gap_ms", stall(21, 500), stall(52, 900, 0, 2), points=points, spans=spans)
    assert rows == [(7, 500.0), (8, 900.0)]


def test_stalls_of_another_replica_belong_to_its_swap_point() -> None:
    points = [POINT, {**POINT, "swap_point_id": 8, "replica_id": "1"}]
    spans = [SPAN, {**SPAN, "replica_id": "1"}]
    rows = victims("swap_point_id", stall(21, 500, replica_id="1"), points=points, spans=spans)
    assert rows == [(8,)]


def test_no_stalls_no_victims() -> None:
    assert victims("1") == []
