"""The requests mart: requests as their load client saw them."""

import pytest

from builders_raw import Row, Rows, table
from builders_serving import MS, S, model, ns


def request(**values: object) -> Row:
    return {
        "source_id": 3,
        "request_no": 0,
        "request_id": "r0",
        "ttft_ns": 200 * MS,
        "output_tokens": 11,
        "is_error": False,
        "is_warmup": False,
        "arrival_ns": 10 * S,
        "first_token_ns": ns(10.2),
        "end_ns": ns(11.3),
        **values,
    }


def requests(
    columns: str, row: Row, *, streams: Rows = (), replicas: Rows = (), settings: Rows = ()
) -> tuple[object, ...]:
    stubs = {
        "stg_client__requests": [row],
        "int_token_streams": streams,
        "int_client_replicas": replicas,
        "settings": settings,
    }
    (found,) = table(model("requests", {}, stubs), f"select {columns} from requests")
    return found


def test_times_of_a_request() -> None:
    assert requests("ttft_ms, e2e_ms, tpot_ms", request()) == (200.0, 1300.0, 110.0)


def test_last_token_ends_the_decoding_when_it_is_known() -> None:
    stream = {
        "source_id": 3,
        "request_no": 0,
        "median_gap_ns": 90 * MS,
        "longest_gap_ns": 300 * MS,
        "last_ns": ns(11.2),
    }
    row = requests("tpot_ms, itl_median_ms, longest_gap_ms", request(), streams=[stream])
    assert row == (100.0, 90.0, 300.0)


def test_single_token_has_no_time_per_token() -> None:
    assert requests("tpot_ms", request(output_tokens=1)) == (None,)


def test_what_the_client_did_not_keep_is_unknown() -> None:
    row = request(arrival_ns=None, first_token_ns=None, end_ns=None, ttft_ns=None)
    assert requests("ttft_ms, e2e_ms, tpot_ms, arrival_ns", row) == (None, None, None, None)


@pytest.mark.parametrize(
    ("row", "replicas", "expected"),
    [
        (request(), [{"replica_id": "a/0"}], "a/0"),
        (request(replica="b"), [{"replica_id": "?"}], "b"),
        (request(), [], "0"),
        (request(level="c8"), [{"level": "c16", "replica_id": "1"}, {"level": "c8", "replica_id": "2"}], "2"),
    ],
)
def test_replica(row: Row, replicas: list[Row], expected: str) -> None:
    assert requests("replica_id", row, replicas=replicas) == (expected,)


def objective(name: str, number: float, is_effective: bool = True) -> Row:
    return {"scope": "", "name": name, "number": number, "is_effective": is_effective}


@pytest.mark.parametrize(
    ("settings", "row", "expected"),
    [
        ([], request(), None),
        ([objective("slo_ttft_ms", 200)], request(), True),
        ([objective("slo_ttft_ms", 199.9)], request(), False),
        ([objective("slo_itl_ms", 110)], request(), True),
        ([objective("slo_itl_ms", 109.9)], request(), False),
        ([objective("slo_ttft_ms", 500), objective("slo_itl_ms", 50)], request(), False),
        ([objective("slo_ttft_ms", 500)], request(is_error=True), False),
        ([objective("slo_itl_ms", 50)], request(output_tokens=1), True),
        ([objective("slo_ttft_ms", 1, is_effective=False)], request(), None),
    ],
)
def test_objectives(settings: list[Row], row: Row, expected: bool | None) -> None:
    assert requests("is_slo_met", row, settings=settings) == (expected,)


def test_latency_that_the_client_states_comes_before_the_times() -> None:
    assert requests("e2e_ms", request(latency_ns=1250 * MS)) == (1250.0,)
    assert requests("e2e_ms", request(latency_ns=700 * MS, arrival_ns=None, end_ns=None)) == (700.0,)


def test_stated_last_token_ends_the_decoding() -> None:
    assert requests("tpot_ms", request(last_token_ns=ns(11.25))) == (105.0,)
