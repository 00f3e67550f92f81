"""stg_client__requests: requests of load clients on the run clock."""

from builders_raw import source
from builders_serving import MS, S, request_row, rows_of

CLOCK = {"source_id": 3, "offset_ns": 100 * S, "uncertainty_ns": 7, "method": "events"}


def test_all_three_times_are_shifted() -> None:
    rows = rows_of(
        "stg_client__requests",
        "arrival_ns, first_token_ns, end_ns, ttft_ns, uncertainty_ns",
        clocks=[CLOCK],
        raw_client_requests=[request_row(0, 2, 5)],
    )
    assert rows == [(101_900 * MS, 102 * S, 105 * S, 100 * MS, 7)]


def test_unstated_flags_mean_no() -> None:
    rows = rows_of(
        "stg_client__requests",
        "is_error, is_warmup",
        raw_client_requests=[request_row(0, 2, 5), request_row(1, 2, 5, is_error=True, is_warmup=True)],
        order="request_no",
    )
    assert rows == [(False, False), (True, True)]


def test_client_without_times() -> None:
    rows = rows_of(
        "stg_client__requests",
        "arrival_ns, end_ns, ttft_ns",
        clocks=[CLOCK],
        raw_client_requests=[{"source_id": 3, "request_no": 0, "ttft_ns": 9}],
    )
    assert rows == [(None, None, 9)]


def test_request_that_two_files_of_one_client_list_counts_once() -> None:
    records, raw = request_row(0, 2, 5), request_row(7, 2, 5, source_id=4, request_id="r0")
    others = [request_row(1, 3, 5, request_id="r0"), request_row(8, 2, 5, source_id=4, request_id=None)]
    rows = rows_of(
        "stg_client__requests",
        "source_id, request_no",
        sources=[
            source(3, "profile_export.jsonl", "client"),
            source(4, "profile_export_raw.jsonl", "client"),
        ],
        raw_client_requests=[records, raw, *others],
    )
    assert rows == [(3, 0), (3, 1), (4, 8)]
