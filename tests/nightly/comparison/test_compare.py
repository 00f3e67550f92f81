"""Comparing stored runs: verdicts, doubts about time, causes, and what an older or poorer store lacks."""

from dataclasses import replace

import pytest

from builders_compare import FakeRun, decode_steps, gpu_rows, store
from kvcliff.errors import UsageProblem
from kvcliff.nightly.comparison.compare import ComparePolicy, Comparison, MetricVerdict, compare_runs

BASE = FakeRun("base")
SLOWER = FakeRun("run", 120, itl_ms=11.5)


def compared(*runs: FakeRun, policy: ComparePolicy | None = None) -> Comparison:
    """Return the last run compared with the others."""
    con = store(*runs)
    return compare_runs(con, [run.run_id for run in runs[:-1]], runs[-1].run_id, policy=policy)


def metric(comparison: Comparison, name: str, level: str | None = None) -> MetricVerdict:
    return next(found for found in comparison.metrics if (found.metric, found.level) == (name, level))


def subjects(comparison: Comparison, kind: str | None = None) -> list[str]:
    return [cause.subject for cause in comparison.causes if kind in (None, cause.kind)]


def test_repeats_are_the_same() -> None:
    found = compared(BASE, FakeRun("run", 120, itl_ms=10.2))
    assert found.verdict == "same"
    assert found.causes == ()
    assert found.summary.startswith("no regression: median time between tokens +2.0 % (a change of ")
    assert {m.verdict for m in found.metrics if m.is_gating} <= {"same", "inconclusive"}


def test_slower_decode_near_in_time_is_worse() -> None:
    found = compared(BASE, SLOWER)
    assert found.verdict == "worse"
    itl = metric(found, "itl_p50")
    assert (itl.verdict, itl.base_value, itl.run_value) == ("worse", 10.0, 11.5)
    assert itl.change_ratio == pytest.approx(0.15)
    assert itl.interval_low is not None
    assert itl.interval_high is not None
    assert 0 < itl.interval_low < 0.15 < itl.interval_high
    assert metric(found, "tpot_p50").verdict == "worse"
    assert metric(found, "ttft_p50").verdict == "same"
    assert found.summary.startswith("worse: median time between tokens +15.0 %")


def test_faster_decode_is_better() -> None:
    found = compared(BASE, FakeRun("run", 120, itl_ms=8.5))
    assert (found.verdict, metric(found, "itl_p50").verdict) == ("better", "better")


def test_the_same_slowdown_long_after_is_no_verdict_on_the_engine() -> None:
    found = compared(BASE, replace(SLOWER, start_s=1200))
    assert found.verdict == "inconclusive"
    itl = metric(found, "itl_p50")
    assert (itl.verdict, itl.leaning) == ("inconclusive", "worse")
    assert subjects(found, "doubt") == ["repeats_missing"]
    assert "nothing in the run explains it and the nearest baseline run is 19.3 min away" in found.summary


def test_nor_is_one_without_dates() -> None:
    found = compared(replace(BASE, is_dated=False), replace(SLOWER, is_dated=False))
    assert found.verdict == "inconclusive"
    assert "when the runs took place is not recorded" in found.summary


def test_long_after_but_explained_by_a_setting_is_a_verdict() -> None:
    base = replace(BASE, settings={"engine_version": "0.31", "max_num_seqs": "64"})
    run = replace(SLOWER, start_s=90_000, settings={"engine_version": "0.32", "max_num_seqs": "64"})
    found = compared(base, run)
    assert found.verdict == "worse"
    assert subjects(found, "why") == ["engine_version"]
    assert subjects(found, "doubt") == ["repeats_missing"]
    assert "engine_version 0.31 → 0.32" in found.summary
    assert "25 h away, so part of the change can be drift of the host" in found.summary


def test_an_irrelevant_setting_explains_nothing() -> None:
    base = replace(BASE, settings={"model_type": "llama"})
    found = compared(base, replace(SLOWER, start_s=90_000, settings={"model_type": "mistral"}))
    assert found.verdict == "inconclusive"
    assert [item.name for item in found.differences] == ["model_type"]


def test_what_is_the_same_long_after_is_the_same() -> None:
    assert compared(BASE, FakeRun("run", 90_000)).verdict == "same"


def test_runs_that_scatter_widen_the_interval() -> None:
    calm = compared(BASE, replace(BASE, run_id="b2", start_s=60), replace(SLOWER, itl_ms=11.0))
    wild = compared(replace(BASE, itl_ms=9.2), FakeRun("b2", 60, itl_ms=10.8), replace(SLOWER, itl_ms=11.0))
    assert calm.verdict == "worse"
    assert wild.verdict != "worse"
    assert "weighed with the built-in" in metric(wild, "itl_p50").noise


def test_baseline_is_the_median_of_its_runs_in_any_order() -> None:
    runs = (
        BASE,
        FakeRun("b2", 60, itl_ms=10.1),
        FakeRun("b3", 120, itl_ms=14.0),
        FakeRun("run", 180, itl_ms=10.1),
    )
    found = compared(*runs)
    assert metric(found, "itl_p50").base_value == 10.1
    con = store(*runs)
    assert compare_runs(con, ["b3", "base", "b2", "base"], "run") == found


def test_policy_says_what_is_relevant() -> None:
    strict = compared(BASE, SLOWER, policy=ComparePolicy(minimum_change_ratio={"itl_p50": 0.2}))
    assert metric(strict, "itl_p50").verdict == "same"
    quiet = compared(BASE, SLOWER, policy=ComparePolicy(thresholds={"compare_min_change_ratio": 0.2}))
    assert quiet.verdict == "same"
    with pytest.raises(KeyError):
        compared(BASE, SLOWER, policy=ComparePolicy(thresholds={"compare_nonsense": 1.0}))


def test_other_load_is_refused_unless_forced() -> None:
    run = replace(SLOWER, tokens=(512, 101))
    refused = compared(BASE, run)
    assert (refused.verdict, refused.metrics) == ("inconclusive", ())
    assert refused.incomparable_reason == "another load: 128 and 512 prompt tokens per request"
    assert refused.summary == f"not comparable: {refused.incomparable_reason}"
    forced = compared(BASE, run, policy=ComparePolicy(is_forced=True))
    assert forced.verdict == "worse"
    assert "load" in subjects(forced, "why")
    assert forced.incomparable_reason == refused.incomparable_reason


def test_preemptions_and_swap_points_stay_facts_long_after() -> None:
    run = FakeRun("run", 90_000, kv=1.0, preemptions=40, swap_points=1, waiting=3)
    found = compared(BASE, run)
    assert found.verdict == "worse"
    assert {m.metric for m in found.worse} == {"preemptions", "swap_points"}
    assert "kv_ceiling" in subjects(found, "where")
    assert "KV reaches its ceiling (peak 30 % → 100 %, preemptions 0 → 40)" in found.summary
    assert "waiting" in subjects(found, "where")


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(0, 2, "same"), (40, 42, "same"), (40, 90, "worse"), (0, 9, "worse"), (9, 0, "better")],
)
def test_preemptions_beyond_counting_noise(before: int, after: int, verdict: str) -> None:
    found = compared(replace(BASE, preemptions=before), FakeRun("run", 120, preemptions=after))
    assert metric(found, "preemptions").verdict == verdict


@pytest.mark.parametrize(
    ("base", "after", "verdict"),
    [
        ((0, 0), 1, "worse"),
        ((1, 1), 0, "better"),
        ((1, 2), 1, "same"),
        ((0, 1), 1, "inconclusive"),
        ((0, 0), 0, "same"),
    ],
)
def test_swap_points_appear_or_go(base: tuple[int, int], after: int, verdict: str) -> None:
    runs = [FakeRun(f"b{number}", 60 * number, swap_points=count) for number, count in enumerate(base)]
    found = compared(*runs, FakeRun("run", 120, swap_points=after))
    assert metric(found, "swap_points").verdict == verdict


@pytest.mark.parametrize(
    ("failed", "verdict"), [(0, "same"), (2, "same"), (6, "inconclusive"), (20, "worse")]
)
def test_failed_requests(failed: int, verdict: str) -> None:
    assert metric(compared(BASE, FakeRun("run", 120, failed=failed)), "errors").verdict == verdict


def test_every_step_and_not_kv() -> None:
    base = replace(BASE, rows=decode_steps(9, 9.5, 10, 10.5, 12))
    found = compared(base, replace(SLOWER, rows=decode_steps(10.3, 10.9, 11.5, 12.1, 13.8)))
    assert subjects(found) == ["every_step", "not_kv", "unexplained"]
    assert (
        "every decode step is slower (p10 +14.4 %, median +15.0 %, p90 +15.0 %) at the same batch size"
        in found.summary
    )
    assert "not KV (peak 30 % on both sides, no preemption)" in found.summary


def test_slower_steps_alone_are_not_every_step() -> None:
    base = replace(BASE, rows=decode_steps(9, 9.5, 10, 10.5, 12))
    found = compared(base, replace(SLOWER, rows=decode_steps(9.1, 9.8, 11.5, 14, 20)))
    assert subjects(found)[0] == "slow_steps"


def test_bigger_batches_are_named() -> None:
    base = replace(BASE, rows=decode_steps(9, 9.5, 10, 10.5, 12))
    found = compared(base, replace(SLOWER, rows=decode_steps(10.3, 10.9, 11.5, 12.1, 13.8, batch=8)))
    assert "; a step holds 4 → 8 requests" in found.summary


def test_tail_without_median() -> None:
    found = compared(BASE, FakeRun("run", 120, itl_p99_ms=90))
    assert metric(found, "itl_p99").verdict == "worse"
    assert subjects(found, "where") == ["tail", "not_kv"]


def test_first_token_without_decode() -> None:
    found = compared(BASE, FakeRun("run", 120, ttft_ms=200))
    assert "prefill" in subjects(found, "where")


def test_kernel_family_that_makes_the_step_longer() -> None:
    base = replace(BASE, rows=gpu_rows(4, 5))
    found = compared(base, replace(SLOWER, rows=gpu_rows(5.4, 5.1)))
    assert [(cause.subject, cause.name) for cause in found.causes][:2] == [
        ("phase", "decode"), ("kernel_family", "attention_decode"),
    ]  # fmt: skip
    assert "most of it in attention_decode kernels (4 ms → 5.4 ms a step)" in found.summary


def test_traces_of_other_lengths_are_compared_by_the_step() -> None:
    found = compared(
        replace(BASE, rows=gpu_rows(4, 5, steps=100)), replace(SLOWER, rows=gpu_rows(4, 5, steps=300))
    )
    assert metric(found, "phase:decode").verdict == "same"
    assert "phase" not in subjects(found)


def test_idle_gpu_is_named() -> None:
    found = compared(replace(BASE, rows=gpu_rows(4, 5)), replace(SLOWER, rows=gpu_rows(4, 5, bubble_ms=1.6)))
    assert "gpu_idle" in subjects(found, "where")


def clock(value: float) -> dict[str, tuple[dict[str, object], ...]]:
    return {"gpu_samples": ({"counter": "sm_clock_mhz", "value": value},) * 5}


def test_lower_clock_explains() -> None:
    base = replace(BASE, rows=clock(1980))
    found = compared(base, replace(SLOWER, start_s=90_000, rows=clock(1700)))
    assert found.verdict == "worse"
    assert subjects(found, "why") == ["gpu_clock"]
    assert "the SM clock was 1,980 → 1,700 MHz" in found.summary
    slightly = compared(base, replace(SLOWER, start_s=90_000, rows=clock(1950)))
    assert slightly.verdict == "inconclusive"


def hits(hit_tokens: int) -> dict[str, tuple[dict[str, object], ...]]:
    return {"cache_hits": ({"tier": "hbm", "lookup_tokens": 1000, "hit_tokens": hit_tokens, "ts_ns": 1},)}


def test_prefix_caching_explains() -> None:
    base = replace(BASE, settings={"enable_prefix_caching": "false"})
    run = FakeRun("run", 120, ttft_ms=40, settings={"enable_prefix_caching": "true"}, rows=hits(930))
    found = compared(base, run)
    assert found.verdict == "better"
    assert subjects(found, "why") == ["prefix_cache"]
    assert (
        "prefix caching false → true: 0 % → 93 % of looked-up prompt tokens hit in tier hbm" in found.summary
    )


def test_printed_totals_stand_in_for_requests() -> None:
    def totals(run: FakeRun, itl_ms: float) -> FakeRun:
        values = {"median_itl_ms": itl_ms, "output_tokens_per_s": 1000 / itl_ms, "completed": 10.0}
        rows = tuple(
            {"source_id": 1, "load_no": 0, "name": name, "value": value} for name, value in values.items()
        )
        return replace(run, rows={"client_totals": rows})

    con = store(totals(BASE, 10), totals(SLOWER, 11.5))
    for mart in ("requests", "token_latency"):
        con.execute(f"delete from {mart}")
    found = compare_runs(con, ["base"], "run")
    assert metric(found, "itl_p50").verdict == "worse"
    con.execute("update client_totals set load_no = 1 where run_id = 'run' and name = 'completed'")
    two_loads = compare_runs(con, ["base"], "run")
    assert two_loads.verdict == "inconclusive"
    assert metric(two_loads, "itl_p50").reason == "only the baseline has it"


def test_levels_are_compared_one_by_one() -> None:
    con = store(replace(BASE, level="c8"), replace(SLOWER, level="c8"))
    for run in (replace(BASE, level="c1"), FakeRun("run", 120, level="c1")):
        con.execute("insert into runs select * from runs limit 0")
        from builders_compare import put

        put(con, run)
    con.execute("delete from runs where rowid in (select max(rowid) from runs group by run_id)")
    found = compare_runs(con, ["base"], "run")
    assert metric(found, "itl_p50", "c8").verdict == "worse"
    assert metric(found, "itl_p50", "c1").verdict == "same"
    assert "median time between tokens +15.0 % at c8" in found.summary


@pytest.mark.parametrize(
    "missing", ["client_totals", "step_times", "requests", "token_latency", "kv_occupancy", "findings"]
)
def test_a_store_without_a_mart_is_no_error(missing: str) -> None:
    con = store(BASE, SLOWER, without=())
    con.execute(f"drop table {missing}")
    assert compare_runs(con, ["base"], "run").verdict in ("worse", "inconclusive")


def test_a_store_without_a_column_is_no_error() -> None:
    con = store(BASE, SLOWER)
    con.execute("alter table token_latency drop column itl_p99_ms")
    con.execute("alter table requests drop column longest_gap_ms")
    assert compare_runs(con, ["base"], "run").verdict == "worse"


def test_nothing_on_both_sides_is_inconclusive() -> None:
    con = store(BASE, SLOWER)
    con.execute("delete from requests where run_id = 'run'")
    con.execute("delete from token_latency where run_id = 'base'")
    found = compare_runs(con, ["base"], "run")
    assert found.verdict == "inconclusive"


def test_unknown_preemptions_are_not_none() -> None:
    con = store(BASE, SLOWER)
    con.execute("update findings set verdict = 'cannot_tell' where run_id = 'base'")
    found = compare_runs(con, ["base"], "run")
    assert metric(found, "preemptions").reason == "only the run has it"


def test_a_run_against_itself_is_the_same() -> None:
    con = store(BASE)
    assert compare_runs(con, ["base"], "base").verdict == "same"


def test_what_cannot_be_compared_is_said() -> None:
    con = store(BASE)
    with pytest.raises(UsageProblem, match="holds no run nowhere"):
        compare_runs(con, ["nowhere"], "base")
    with pytest.raises(UsageProblem, match="no baseline"):
        compare_runs(con, [], "base")


def test_nothing_is_created_in_the_store() -> None:
    con = store(BASE, SLOWER)
    names = "select table_name from duckdb_tables() order by 1"
    before = con.execute(names).fetchall()
    first = compare_runs(con, ["base"], "run")
    assert con.execute(names).fetchall() == before
    assert compare_runs(con, ["base"], "run") == first


def test_noise_of_throughput_falls_with_the_number_of_requests() -> None:
    def noise_of(count: int) -> str:
        con = store(BASE, FakeRun("run", 120))
        con.execute("delete from requests")
        for run_id in ("base", "run"):
            values = [("completed", float(count)), ("output_tokens_per_s", 100.0)]
            con.executemany(
                "insert into client_totals (run_id, source_id, load_no, name, value) values (?, 1, 0, ?, ?)",
                [[run_id, *value] for value in values],
            )
        return metric(compare_runs(con, ["base"], "run"), "tokens_per_s").noise

    assert noise_of(100).startswith("built-in 2.0 % between repeats")
    assert noise_of(10_000).startswith("built-in 1.6 % between repeats")


def test_a_load_that_is_printed_twice_is_one() -> None:
    exact = {"median_itl_ms": 10.004, "p99_itl_ms": 30.0, "completed": 10.0}
    rounded = {"median_itl_ms": 10.0, "completed": 10.0}
    rows = tuple(
        {"source_id": source_id, "load_no": 0, "name": name, "value": value}
        for source_id, totals in ((1, exact), (2, rounded))
        for name, value in totals.items()
    )
    con = store(replace(BASE, rows={"client_totals": rows}), replace(SLOWER, rows={"client_totals": rows}))
    con.execute("delete from token_latency")
    assert metric(compare_runs(con, ["base"], "run"), "itl_p50").base_value == 10.004
    con.execute("update client_totals set value = 12 where source_id = 2 and name = 'median_itl_ms'")
    assert "itl_p50" not in {found.metric for found in compare_runs(con, ["base"], "run").metrics}
