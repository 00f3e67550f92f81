"""The concurrency_knee mart: where throughput stops following the load, where its plateau begins, and why."""

from collections.abc import Sequence
from math import exp, log
from pathlib import Path

import duckdb
import pytest

from accuracy.recordings import ROOT, WHY_SKIPPED
from builders_raw import Row, table
from builders_serving import model
from kvcliff.findings import concurrency_knee
from kvcliff.store.ingest import stage_run
from kvcliff.store.plan import plan_run

LOADS = (1, 2, 4, 8, 16, 32, 64)
needs_recordings = pytest.mark.skipif(not ROOT.is_dir(), reason=WHY_SKIPPED)
CLIENTS = ROOT.parent / "load_clients" / "inference-perf"


def sweep(rates: Sequence[float], loads: Sequence[float] = LOADS, **columns: Sequence[object]) -> list[Row]:
    """Return levels with these throughputs; further columns by name, one value per level."""
    rows: list[Row] = []
    for index, (load, rate) in enumerate(zip(loads, rates, strict=False)):
        step = log(rate / rates[index - 1]) / log(load / loads[index - 1]) if index else None
        more = {name: values[index] for name, values in columns.items()}
        rows.append(
            {
                "level": f"c{load}", "load_kind": "concurrency", "load": load, "concurrency": load,
                "place_no": index + 1, "tokens_per_s": rate, "elasticity": step, **more,
            }
        )  # fmt: skip
    return rows


def knee(rows: list[Row], columns: str = "level, is_knee, is_saturation") -> list[tuple[object, ...]]:
    """Return columns of the levels that are knee or saturation."""
    con = model("concurrency_knee", {}, {"int_sweep_measures": rows})
    return table(
        con, f"select {columns} from concurrency_knee where is_knee or is_saturation order by place_no"
    )


def powers(*elasticities: float) -> list[float]:
    """Return throughputs at doubling loads with these elasticities between them."""
    rates = [100.0]
    for elasticity in elasticities:
        rates.append(rates[-1] * 2**elasticity)
    return rates


def test_knee_is_the_last_level_that_pays() -> None:
    assert knee(sweep(powers(0.95, 0.9, 0.8, 0.4, 0.3))) == [("c8", True, False)]


@pytest.mark.parametrize(("elasticity", "claimed"), [(0.501, []), (0.499, [("c4", True, False)])])
def test_elasticity_of_one_half_still_pays(elasticity: float, claimed: list[tuple[object, ...]]) -> None:
    assert knee(sweep(powers(1, 1, elasticity, elasticity))) == claimed


@pytest.mark.parametrize(
    "elasticities",
    [(1, 0.3, 0.3, 0.3), (1, 1, 1, 0.2), (1, 1, 0.45, 0.6, 0.6, 0.6)],
    ids=["one level below", "one level above", "a dip that recovers"],
)
def test_no_knee_without_a_trend_on_both_sides(elasticities: tuple[float, ...]) -> None:
    rows = sweep(powers(*elasticities))
    con = model("concurrency_knee", {}, {"int_sweep_measures": rows})
    assert table(con, "select distinct is_knee, is_saturation, reason from concurrency_knee") == [
        (False, False, "no knee with enough levels on both sides")
    ]


def test_throughput_that_scatters_has_no_knee() -> None:
    rows = sweep(powers(1, 1, 0.3, 1, 1, 0.3, 0.3))
    con = model("concurrency_knee", {}, {"int_sweep_measures": rows})
    assert table(con, "select distinct is_knee, is_saturation, reason from concurrency_knee") == [
        (False, False, "throughput scatters too much from level to level")
    ]


def test_three_levels_are_too_few() -> None:
    con = model("concurrency_knee", {}, {"int_sweep_measures": sweep(powers(1, 0.1))})
    assert table(con, "select distinct is_knee, reason from concurrency_knee") == [(False, "too few levels")]


def test_a_level_of_unknown_load_has_a_row_and_no_place() -> None:
    rows = [*sweep(powers(1, 1, 0.3, 0.3)), {"level": "other", "tokens_per_s": 5.0}]
    con = model("concurrency_knee", {}, {"int_sweep_measures": rows})
    assert table(con, "select count(*), count(place_no), sum(is_knee::int) from concurrency_knee") == [
        (6, 5, 1)
    ]


@pytest.mark.parametrize(
    ("rates", "claimed"),
    [
        ((100, 200, 400, 960, 990, 1000), [("c8", True, True)]),
        ((100, 200, 400, 940, 990, 1000), [("c8", True, False)]),
        ((100, 200, 400, 600, 990, 1000), []),
        ((100, 200, 400, 800, 700, 500), [("c8", True, True)]),
    ],
    ids=["three levels", "first at 94 %", "two levels", "collapse"],
)
def test_saturation_is_claimed_for_a_reached_plateau(
    rates: tuple[float, ...], claimed: list[tuple[object, ...]]
) -> None:
    assert knee(sweep(rates)) == claimed


def test_loads_close_together_are_no_plateau() -> None:
    loads = (50, 75, 100, 101, 102)
    assert knee(sweep([float(load) for load in loads], loads)) == []


def causes(rates: Sequence[float], **columns: Sequence[object]) -> list[tuple[object, ...]]:
    return knee(sweep(rates, **columns), "level, cause, reason")


KNEE_AT_4 = powers(1, 1, 0.3, 0.3)


@pytest.mark.parametrize(("kv", "preemptions", "cause"), [(0.95, 3, "kv"), (0.94, 3, None), (1.0, 2, None)])
def test_kv_is_the_cause_only_full_and_with_preemptions(
    kv: float, preemptions: int, cause: str | None
) -> None:
    full = {"kv_used_ratio_max": (0.1, 0.2, 0.5, kv, kv), "preemption_count": (0, 0, 0, preemptions, 9)}
    assert [row[1] for row in causes(KNEE_AT_4, **full)] == [cause]


def test_max_num_seqs_below_the_load_is_a_scheduler_limit() -> None:
    assert causes(
        KNEE_AT_4, running_limit=[6.0] * 5, running_max=[1, 2, 4, 6, 6], waiting_max=[0, 0, 0, 2, 10]
    ) == [("c4", "scheduler limit", "running at max_num_seqs while requests wait")]


@pytest.mark.parametrize(
    ("budget", "waiting", "cause"),
    [(0.9, 3, "scheduler limit"), (0.89, 3, None), (1.0, 0, None)],
    ids=["full", "not full", "nobody waits"],
)
def test_steps_filled_to_their_token_budget_are_a_scheduler_limit(
    budget: float, waiting: int, cause: str | None
) -> None:
    ((_, found, reason),) = causes(
        KNEE_AT_4, step_budget_ratio=(0.1, 0.2, 0.5, budget, 1.0), waiting_max=[waiting] * 5
    )
    assert found == cause
    assert (reason == "steps at max_num_batched_tokens while requests wait") is (cause is not None)


def test_slots_come_before_the_token_budget() -> None:
    ((_, _, reason),) = causes(
        KNEE_AT_4,
        step_budget_ratio=[1.0] * 5,
        running_limit=[6.0] * 5,
        running_max=[1, 2, 4, 6, 6],
        waiting_max=[2] * 5,
    )
    assert reason == "running at max_num_seqs while requests wait"


def test_token_budget_is_compared_with_the_median_step_of_the_level() -> None:
    steps = [
        {
            "level": level, "source_id": 2, "line_no": line_no, "context_tokens": tokens - 8,
            "generation_tokens": 8, "is_dummy": line_no == 9, "ts_ns": line_no,
        }
        for level, sizes in (("c1", (8, 8, 2048, 5000)), ("c2", (2048, 2048, 8, 5000)))
        for line_no, tokens in zip((1, 2, 3, 9), sizes, strict=True)
    ]  # fmt: skip
    levels = [{"level": level, "origin": "folder", "level_number": 1.0} for level in ("c1", "c2")]
    budget = [
        {"level": level, "name": "max_num_batched_tokens", "number": 2048.0} for level in (None, "c1", "c2")
    ]
    stubs = {"stg_log__iterations": steps, "int_sweep_levels": levels, "int_settings_effective": budget}
    con = model("int_sweep_engine", {}, stubs)
    assert table(con, "select level, step_budget_ratio from int_sweep_engine order by level") == [
        ("c1", 8 / 2048),
        ("c2", 1.0),
    ]


def test_max_num_seqs_that_is_the_load_limits_nothing() -> None:
    assert causes(
        KNEE_AT_4,
        running_limit=[1.0, 2.0, 4.0, 8.0, 16.0],
        running_max=[1, 2, 4, 8, 16],
        waiting_max=[99] * 5,
    ) == [("c4", None, "nothing recorded shows it")]


@pytest.mark.parametrize(
    ("decoding", "waiting", "kv", "reason"),
    [
        ((1, 2, 4, 6.0, 6.5), (0, 0, 0, 3, 9), None, "while others wait, KV not recorded"),
        ((1, 2, 4, 6.0, 6.5), (0, 0, 0, 3, 9), 0.5, "as many requests decode while others wait"),
        ((1, 2, 4, 6.0, 6.7), (0, 0, 0, 3, 9), None, "nothing recorded shows it"),
        ((1, 2, 4, 6.0, 6.5), (0, 0, 0, 2.9, 9), None, "nothing recorded shows it"),
    ],
    ids=["flat", "flat, KV known", "growing", "nobody waits"],
)
def test_as_many_decoding_while_others_wait_is_a_scheduler_limit(
    decoding: tuple[float, ...], waiting: tuple[float, ...], kv: float | None, reason: str
) -> None:
    ((_, _, said),) = causes(
        KNEE_AT_4, decoding_count=decoding, before_first_count=waiting, kv_used_ratio_max=[kv] * 5
    )
    assert str(said).endswith(reason)


def test_a_client_that_sends_late_is_the_cause_when_nothing_else_is() -> None:
    rows = sweep(KNEE_AT_4, request_rate_per_s=[1, 2, 4, 8, 16], achieved_rate_per_s=[1, 2, 4, 6, 6])
    con = model("concurrency_knee", {}, {"int_sweep_measures": rows})
    assert table(con, "select cause from concurrency_knee where is_knee") == [("client",)]
    assert table(con, "select level from concurrency_knee where is_client_late order by place_no") == [
        ("c8",),
        ("c16",),
    ]


@pytest.mark.parametrize(
    ("itl_ms", "read_bytes", "cause"),
    [
        ((10, 10, 10, 14, 20), (100, 101, 103, 107, 115), "compute"),
        ((10, 10, 10, 14, 20), (100, 110, 120, 160, 200), "bandwidth or compute"),
        ((10, 10, 10, 14, 20), (None,) * 5, "bandwidth or compute"),
        ((10, 10, 10, 10.9, 12), (100, 101, 103, 107, 115), None),
        ((10, 10, 10, 11.1, 12), (100, 101, 103, 104, 115), "compute"),
    ],
    ids=["steps outgrow bytes", "steps follow bytes", "bytes unknown", "steps flat", "just not flat"],
)
def test_steps_that_grow_are_judged_by_the_bytes_they_read(
    itl_ms: tuple[float, ...], read_bytes: tuple[float | None, ...], cause: str | None
) -> None:
    (row,) = causes(KNEE_AT_4, itl_p50_ms=itl_ms, read_bytes=read_bytes)
    assert row[1] == cause


@pytest.mark.parametrize(
    ("collapse_at", "cause"), [("c2", "l2"), ("c4", "l2"), ("c8", "l2"), ("c16", "bandwidth or compute")]
)
def test_a_collapse_of_l2_hits_next_to_the_knee_is_its_cause(collapse_at: str, cause: str) -> None:
    rates = powers(1, 1, 0.3, 0.3)
    is_collapse = [f"c{load}" == collapse_at for load in LOADS[: len(rates)]]
    steps = (10, 10, 10, 14, 20)
    assert [row[1] for row in causes(rates, is_hit_collapse=is_collapse, itl_p50_ms=steps)] == [cause]


@pytest.mark.parametrize(("dram", "cause"), [(0.8, "bandwidth"), (0.79, "bandwidth or compute")])
def test_a_full_dram_behind_the_knee_is_its_cause(dram: float, cause: str) -> None:
    steps = (10, 10, 10, 14, 20)
    (row,) = causes(KNEE_AT_4, dram_use_ratio=(0.1, 0.2, 0.5, dram, 0.9), itl_p50_ms=steps)
    assert row[1] == cause


def test_dram_use_of_a_level_comes_from_its_gpu_samples() -> None:
    samples = [
        {"level": level, "source_id": 1, "device_id": 0, "counter": counter, "value": value, "ts_ns": ts_ns}
        for level, ts_ns, counter, value in (
            ("c1", 1, "dram_read_pct", 30.0),
            ("c1", 1, "dram_write_pct", 10.0),
            ("c1", 2, "dram_read_pct", 60.0),
            ("c2", 3, "dram_active_pct", 90.0),
            ("c2", 3, "dram_read_pct", 5.0),
            ("c2", 3, "sm_active_pct", 99.0),
        )
    ]
    levels = [{"level": level, "origin": "folder", "level_number": 1.0} for level in ("c1", "c2")]
    con = model("int_sweep_engine", {}, {"gpu_samples": samples, "int_sweep_levels": levels})
    assert table(con, "select level, dram_use_ratio from int_sweep_engine order by level") == [
        ("c1", 0.5),
        ("c2", 0.9),
    ]


def test_knee_and_saturation_have_causes_of_their_own() -> None:
    rates = (100, 200, 400, 500, 800 * exp(-0.3), 800, 810)
    assert causes(
        rates,
        kv_used_ratio_max=(0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.0),
        preemption_count=(0, 0, 0, 0, 0, 50, 60),
        itl_p50_ms=(10, 10, 10, 14, 20, 30, 30),
    ) == [("c4", "bandwidth or compute", "steps grow, their bytes are unknown")]
    assert causes(
        (100, 200, 400, 540, 780, 800, 810),
        kv_used_ratio_max=(0.1, 0.2, 0.4, 0.6, 1.0, 1.0, 1.0),
        preemption_count=(0, 0, 0, 0, 40, 50, 60),
        itl_p50_ms=(10, 10, 10, 14, 20, 30, 30),
    ) == [
        ("c4", "bandwidth or compute", "steps grow, their bytes are unknown"),
        ("c16", "kv", "KV at its ceiling with preemptions"),
    ]


def recorded(folder: Path) -> tuple[list[tuple[object, ...]], str]:
    """Return level, marks and cause of the marked levels of a recorded sweep, and the finding's sentence."""
    with duckdb.connect() as con:
        stage_run(con, plan_run(folder))
        marked = table(
            con,
            "select level, is_knee, is_saturation, cause from concurrency_knee "
            "where is_knee or is_saturation order by place_no",
        )
        (result,) = concurrency_knee.FINDING.evaluate(con)
    return marked, result.summary


@needs_recordings
def test_recorded_sweep_that_ends_at_the_kv_ceiling() -> None:
    marked, sentence = recorded(ROOT / "memory_gap" / "background__llama-2-13b")
    assert marked == [("64", True, False, "bandwidth or compute"), ("128", False, True, "kv")]
    assert "is 64 requests at once, because from there to 80" in sentence
    assert sentence.endswith("reached at 128, where the KV cache is full and requests are preempted.")


@needs_recordings
def test_recorded_sweep_that_ends_below_the_kv_ceiling() -> None:
    marked, sentence = recorded(ROOT / "memory_gap" / "background__opt-1.3b")
    assert marked == [
        ("64", True, False, "bandwidth or compute"),
        ("256", False, True, "bandwidth or compute"),
    ]
    assert "KV cache is full" not in sentence


@needs_recordings
def test_recorded_sweep_inside_one_folder() -> None:
    marked, sentence = recorded(ROOT / "vllm_cpu" / "sweep")
    assert marked == [("c8", True, False, "compute")]
    assert "from there to 16" in sentence
    assert sentence.endswith("no plateau is reached up to 32.")


@pytest.mark.skipif(not CLIENTS.is_dir(), reason="the published client results are not here")
@pytest.mark.parametrize(("name", "late_from"), [("vllm", "stage_4"), ("vllm+batch_size", "stage_4")])
def test_published_stages_stop_at_a_scheduler_limit(name: str, late_from: str) -> None:
    marked, sentence = recorded(CLIENTS / name)
    assert [(row[0], row[3]) for row in marked if row[1]] == [("stage_3", "scheduler limit")]
    assert {row[3] for row in marked} == {"scheduler limit"}
    assert f"({late_from}) on." in sentence


@needs_recordings
def test_a_run_with_one_level_has_no_rows_and_no_answer() -> None:
    with duckdb.connect() as con:
        stage_run(con, plan_run(ROOT / "vllm_cpu" / "steady_1"))
        assert table(con, "select count(*) from concurrency_knee") == [(0,)]
        assert concurrency_knee.FINDING.evaluate(con) == ()


def test_two_sweeps_of_one_run_have_a_knee_each() -> None:
    rows = [
        {**row, "level": f"{name}/{row['level']}", "sweep": name}
        for name, rates in (("a", powers(1, 1, 0.1, 0.1)), ("b", powers(1, 1, 1, 1, 0.1, 0.1)))
        for row in sweep(rates)
    ]
    assert sorted(knee(rows)) == [("a/c4", True, False), ("b/c16", True, False)]


@pytest.mark.parametrize(
    ("queued", "full", "running", "expected"),
    [
        ((0, 0, 0, 0.9, 0.9), (0, 0, 0, 0.8, 0.9), (None, None, None, 30, 31),
         ("kv", "KV at its ceiling while requests wait")),
        ((0, 0, 0, 0.9, 0.9), (0, 0, 0, 0.1, 0.1), (None, None, None, 30, 31),
         ("scheduler limit", "as many requests decode while others wait")),
        ((0, 0, 0, 0.9, 0.9), (0, 0, 0, 0.1, 0.1), (None, None, None, 30, 40),
         (None, "nothing recorded shows it")),
        ((0, 0, 0, 0.4, 0.4), (0, 0, 0, 0.4, 0.4), (None, None, None, 30, 31),
         (None, "nothing recorded shows it")),
    ],
)  # fmt: skip
def test_gauges_alone_show_what_holds_requests_back(
    queued: Sequence[float],
    full: Sequence[float],
    running: Sequence[float | None],
    expected: tuple[str | None, str],
) -> None:
    rows = sweep(
        powers(1, 1, 0.1, 0.1), queued_ratio=queued, kv_full_ratio=full, running_queued=running,
        kv_used_ratio_max=(0.1, 0.2, 0.4, 0.8, 0.8),
    )  # fmt: skip
    assert [row[:2] for row in knee(rows, "cause, reason")][:1] == [expected]
