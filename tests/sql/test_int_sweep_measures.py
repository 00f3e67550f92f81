"""Figures of the levels of a sweep: which load was raised, and which source each figure comes from."""

from collections.abc import Sequence

import pytest

from builders_raw import Row, Rows, source, table
from builders_serving import S, model


def measures(
    columns: str,
    levels: Sequence[Row],
    totals: Rows = (),
    streams: Rows = (),
    engine: Rows = (),
) -> list[tuple[object, ...]]:
    stubs = {
        "int_sweep_levels": [{"origin": "folder", **level} for level in levels],
        "int_sweep_totals": totals,
        "int_sweep_streams": streams,
        "int_sweep_engine": engine,
    }
    con = model("int_sweep_measures", {}, stubs)
    return table(con, f"select {columns} from int_sweep_measures order by place_no, level")


LEVELS: list[Row] = [{"level": "a8", "level_number": 8.0}, {"level": "a16", "level_number": 16.0}]


def both(first: Row, second: Row) -> list[Row]:
    return [{"level": "a8", **first}, {"level": "a16", **second}]


def test_elasticity_is_growth_of_throughput_over_growth_of_load() -> None:
    rates = both({"tokens_per_s": 100.0}, {"tokens_per_s": 100.0 * 2**0.5})
    rows = measures("level, place_no, round(elasticity, 9)", LEVELS, totals=rates)
    assert rows == [("a8", 1, None), ("a16", 2, 0.5)]


def test_token_times_come_before_the_clients_totals_and_these_before_the_engine() -> None:
    streams = [{"level": "a8", "itl_p50_ms": 1.0, "ttft_p50_ms": 10.0, "tokens_per_s": 5.0}]
    totals = both({"itl_p50_ms": 2.0, "itl_p99_ms": 20.0, "tokens_per_s": 6.0}, {"itl_p50_ms": 2.0})
    engine = both({"itl_p50_ms": 3.0, "itl_p99_ms": 30.0, "tokens_per_s": 7.0}, {"tokens_per_s": 7.0})
    rows = measures("level, tokens_per_s, itl_p50_ms, itl_p99_ms", LEVELS, totals, streams, engine)
    assert rows == [("a8", 6.0, 1.0, None), ("a16", 7.0, 2.0, None)]


def test_a_raised_request_rate_is_the_load() -> None:
    totals = both(
        {"request_rate_per_s": 2.0, "decoding_count": 3.0, "before_first_count": 1.0, "tokens_per_s": 9.0},
        {"request_rate_per_s": 4.0, "decoding_count": 6.0, "before_first_count": 3.0, "tokens_per_s": 9.0},
    )
    assert measures("load_kind, load, concurrency", LEVELS, totals) == [
        ("request rate", 2.0, 4.0),
        ("request rate", 4.0, 9.0),
    ]


def test_a_raised_client_limit_is_the_load_whatever_the_folder_is_called() -> None:
    totals = both(
        {"concurrency_limit": 3.0, "tokens_per_s": 9.0}, {"concurrency_limit": 5.0, "tokens_per_s": 9.0}
    )
    assert measures("load_kind, load", LEVELS, totals) == [("concurrency", 3.0), ("concurrency", 5.0)]


@pytest.mark.parametrize(
    ("running", "loads"),
    [((8, 16), (8.0, 16.0)), ((None, None), (8.0, 16.0)), ((20, 40), (None, None)), ((8, 40), (8.0, 16.0))],
    ids=["confirmed", "not recorded", "contradicted", "confirmed in half of them"],
)
def test_a_number_that_the_engine_contradicts_is_no_load(
    running: tuple[int | None, int | None], loads: tuple[float | None, float | None]
) -> None:
    engine = both(
        {"running_max": running[0], "tokens_per_s": 1.0}, {"running_max": running[1], "tokens_per_s": 2.0}
    )
    rows = dict(measures("level, load", LEVELS, engine=engine))
    assert (rows["a8"], rows["a16"]) == loads


def totals_of(**values: float) -> tuple[object, ...]:
    """Return ITL percentiles and requests of one client's totals."""
    con = model(
        "int_sweep_totals",
        {
            "sources": [source(1, "8/bench.json", "client", level="a8")],
            "clocks": [],
            "raw_client_summary": [
                {"source_id": 1, "load_no": 0, "name": name, "value": value} for name, value in values.items()
            ],
        },
        {"int_sweep_levels": [{"level": "a8", "origin": "folder", "level_number": 8.0}]},
    )
    (row,) = table(con, "select itl_p50_ms, itl_p99_ms, decoding_count from int_sweep_totals")
    return row


def test_chunks_that_arrive_bunched_hide_the_time_between_tokens() -> None:
    seen = {"median_tpot_ms": 9.0, "p99_itl_ms": 30.0, "mean_itl_ms": 10.0}
    assert totals_of(median_itl_ms=0.9, **seen)[:2] == (9.0, None)
    assert totals_of(median_itl_ms=1.1, **seen)[:2] == (1.1, 30.0)


def test_requests_at_once_follow_from_rate_and_mean_times() -> None:
    assert totals_of(request_throughput_per_s=100.0, mean_e2el_ms=4200.0, mean_ttft_ms=3000.0)[2] == 120.0


def test_the_engine_is_looked_at_inside_the_time_of_a_level() -> None:
    levels = [
        {"level": "c1", "origin": "tag", "source_id": 3, "start_ns": 10 * S, "end_ns": 20 * S},
        {"level": "c2", "origin": "tag", "source_id": 3, "start_ns": 20 * S, "end_ns": 30 * S},
    ]
    samples = [
        {
            "replica_id": "0", "tier": tier, "used_ratio": used, "running_count": running,
            "waiting_count": 0, "ts_ns": second * S,
        }
        for tier, used, running, second in (
            ("hbm", 0.9, 9, 5), ("hbm", 0.1, 1, 10), ("host", 0.8, 8, 15), ("hbm", 0.2, 2, 20),
            ("hbm", 0.95, 9, 30),
        )
    ]  # fmt: skip
    events = [
        {
            "event_no": number, "replica_id": "0", "source_id": 1, "kind": "preempt", "proof": proof,
            "event_count": count, "ts_ns": 25 * S,
        }
        for number, (proof, count) in enumerate((("counter", 2), ("log", 5)))
    ]  # fmt: skip
    con = model(
        "int_sweep_engine",
        {},
        {
            "int_sweep_levels": levels, "kv_occupancy": samples, "token_latency": [],
            "engine_events": events, "int_engine_limits": [], "int_model_sizes": [],
        },
    )  # fmt: skip
    columns = "level, kv_used_ratio_max, running_max, preemption_count"
    assert table(con, f"select {columns} from int_sweep_engine order by level") == [
        ("c1", 0.1, 1, 0),
        ("c2", 0.2, 2, 2),
    ]
