"""What other numbers of sequences would do, by hand, and when nothing is predicted."""

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders_advice import facts_with
from builders_raw import build, has_documented_columns, is_unique, one, table


def predict(**columns: object) -> duckdb.DuckDBPyConnection:
    con = build("predictions", {}, {"int_advice_facts": [facts_with(**columns)]})
    assert has_documented_columns(con, "predictions")
    assert is_unique(con, "predictions")
    return con


def reasons(con: duckdb.DuckDBPyConnection) -> dict[object, object]:
    return dict(table(con, "select sequences, reason from predictions order by sequences"))


def test_a_step_grows_with_the_bytes_that_it_reads() -> None:
    # 15 sequences read 6 + 3 GB instead of 6 + 2: 16 ms x 9 / 8 = 18 ms; 600 x 1.5 x 16 / 18 = 800.
    row = one(
        predict(),
        "select factor, kv_peak_ratio, kv_read_bytes, floor_ms, step_ms, tokens_per_s, is_kv_limited"
        " from predictions where sequences = 15",
    )
    assert row == (1.5, 0.75, 3e9, 9.0, 18.0, pytest.approx(800), False)


def test_the_measured_level_is_what_was_measured() -> None:
    row = one(predict(), "select basis, step_ms, tokens_per_s, assumption from predictions where factor = 1")
    assert row == ("measured", 16.0, 600.0, None)


def test_the_ceiling_is_where_the_peak_grows_to_the_pool() -> None:
    # The peak of 10 sequences takes half of the pool: 20 fill it.
    row = one(predict(), "select sequences, kv_peak_ratio from predictions where basis = 'kv_ceiling'")
    assert row == (20, 1.0)


def test_beyond_the_ceiling_the_batch_stops_growing() -> None:
    # Mean 0.64 and scatter 0.16: 0.64 r + 0.16 sqrt(r) = 1 has sqrt(r) = 1.1312, so 12.8 sequences.
    con = predict(used_ratio_peak=0.8, used_ratio_mean=0.64)
    root = (-0.16 + (0.16**2 + 4 * 0.64) ** 0.5) / (2 * 0.64)
    batch, limited, more, said = one(
        con,
        "select batch, is_kv_limited, kv_peak_ratio, assumption from predictions where sequences = 15",
    )
    assert batch == pytest.approx(10 * root**2)
    assert (limited, more) == (True, pytest.approx(1.2))
    assert str(said).endswith("what is recomputed is not counted")


def test_more_than_twice_the_level_is_refused() -> None:
    found = reasons(predict())
    assert found[20] is None
    assert found[30] == found[40] == "more than twice the level of this run"


def test_where_kv_is_most_of_a_step_four_times_the_level_can_be_told() -> None:
    # Throughput can grow to 1 / 0.5 of the measured one at most.
    found = reasons(predict(weight_bytes=2e9, all_weight_bytes=2e9, used_ratio_peak=0.1, used_ratio_mean=0.1))
    assert found[40] is None
    assert found[100] == "too far from the level of this run"


def test_just_below_that_share_it_is_refused() -> None:
    found = reasons(predict(weight_bytes=2.1e9, all_weight_bytes=2.1e9))
    assert found[40] == "more than twice the level of this run"


def test_a_run_that_was_not_at_full_batch_is_no_ground() -> None:
    found = reasons(predict(level_reason="the run was not at full batch"))
    assert found.pop(10) is None
    assert set(found.values()) == {"the run was not at full batch"}


def test_above_a_ceiling_that_was_reached_nothing_is_predicted() -> None:
    con = predict(swap_count=1, sequences_held=8.0, used_ratio_peak=1.0)
    found = reasons(con)
    assert found[15] == "the KV ceiling was reached in this run"
    assert found[5] is None
    assert one(con, "select sequences from predictions where basis = 'kv_ceiling'") == (8,)


def test_without_model_or_gpu_no_step_is_predicted() -> None:
    con = predict(step_reason="no file names the GPU")
    assert set(reasons(con).values()) == {"no file names the GPU"}
    assert one(con, "select count(step_ms), count(tokens_per_s), count(kv_peak_ratio) from predictions") == (
        0,
        0,
        7,
    )


def test_experts_are_read_as_the_batch_needs_them() -> None:
    # Of 2 experts one token uses 1: a batch of n touches 1 - 0.5^n of them, 10 nearly all, 5 31/32.
    con = predict(
        weight_bytes=6e9 - 4e9 / 2**10,
        expert_weight_bytes=4e9,
        num_experts=2.0,
        experts_per_token=1.0,
    )
    read = 6e9 - 4e9 / 32 + 1e9
    before = 6e9 - 4e9 / 2**10 + 2e9
    assert one(con, "select step_ms from predictions where sequences = 5") == (
        pytest.approx(16 * read / before),
    )


@settings(max_examples=15, deadline=None)
@given(
    peak=st.floats(0.05, 1.0),
    share=st.floats(0.1, 1.0),
    weights=st.floats(1e8, 1e11),
    kv=st.floats(1e8, 1e11),
)
def test_more_sequences_are_slower_each_and_faster_together(
    peak: float, share: float, weights: float, kv: float
) -> None:
    con = predict(
        used_ratio_peak=peak,
        used_ratio_mean=peak * share,
        weight_bytes=weights,
        all_weight_bytes=weights,
        kv_read_bytes=kv,
    )
    rows = table(
        con,
        "select batch, step_ms, tokens_per_s from predictions where reason is null order by sequences",
    )
    for column in zip(*rows, strict=True):
        assert list(column) == sorted(column, key=lambda value: round(float(str(value)), 6))
