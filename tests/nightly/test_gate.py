from dataclasses import replace

import pytest

from builders_nightly import comparison, metric
from kvcliff.nightly.comparison.compare import Cause
from kvcliff.nightly.gate import Judgement, Subject, judge
from kvcliff.nightly.policy import (
    GatePolicy,
    MetricRule,
    NightlyPolicy,
    QuarantinePolicy,
    SeriesRule,
)

SUBJECT = Subject("run-1", "model=llama", "night-01", ("base-1",), 0)
DEFAULT = NightlyPolicy()


def gate(**changes: object) -> NightlyPolicy:
    return NightlyPolicy(gate=replace(GatePolicy(), **changes))  # type: ignore[arg-type]


def rule(name: str, **changes: object) -> NightlyPolicy:
    return gate(metrics=((name, MetricRule(**changes)),))  # type: ignore[arg-type]


WORSE = comparison(metric("itl_p50", "worse", run=23.0), metric("tokens_per_s"), verdict="worse")
DOUBTFUL = comparison(metric("itl_p50", "inconclusive", run=21.0), verdict="inconclusive")


def told(judgement: Judgement) -> list[tuple[str, str]]:
    return [(check.metric, check.severity) for check in judgement.told]


def test_the_same_passes() -> None:
    found = judge(SUBJECT, comparison(metric()), DEFAULT)
    assert (found.verdict, found.summary, told(found)) == ("passed", "the whole is same", [])


def test_worse_fails_with_the_comparison_in_words() -> None:
    causes = (Cause("where", "every_step", "", "every step"), Cause("why", "setting", "x", "x differs"))
    found = judge(SUBJECT, replace(WORSE, causes=causes), DEFAULT)
    assert (found.verdict, found.summary, found.cause) == ("failed", "the whole is worse", "x differs")
    assert told(found) == [("itl_p50", "fail")]
    assert found.checks[0].message == "title of itl_p50 worse, 20 ms -> 23 ms (+15.0 %)"


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [
        (gate(worse="warn"), "warned"),
        (gate(worse="ignore"), "passed"),
        (gate(worse="inconclusive"), "inconclusive"),
        (rule("itl_p50", severity="warn"), "warned"),
        (NightlyPolicy(quarantine=QuarantinePolicy(metrics=("itl_p50",))), "passed"),
        (
            NightlyPolicy(
                series=(SeriesRule("model=*", None, (("itl_p50", MetricRule(severity="ignore")),)),)
            ),
            "passed",
        ),
    ],
)
def test_severities_of_a_worse_metric(policy: NightlyPolicy, verdict: str) -> None:
    assert judge(SUBJECT, WORSE, policy).verdict == verdict


def test_inconclusive_is_its_own_word() -> None:
    found = judge(SUBJECT, DOUBTFUL, DEFAULT)
    assert (found.verdict, found.summary) == ("inconclusive", "the whole is inconclusive")
    assert judge(SUBJECT, DOUBTFUL, gate(inconclusive="warn")).verdict == "warned"
    assert judge(SUBJECT, DOUBTFUL, gate(inconclusive="fail")).verdict == "failed"


def test_one_noisy_metric_does_not_make_the_run_inconclusive() -> None:
    noisy = comparison(metric("itl_p50"), metric("itl_p99", "inconclusive", run=22.0))
    assert judge(SUBJECT, noisy, DEFAULT).verdict == "passed"
    assert judge(SUBJECT, noisy, rule("itl_p99", severity="warn")).verdict == "passed"
    found = judge(SUBJECT, noisy, rule("itl_p99", severity="fail"))
    assert (found.verdict, told(found)) == ("inconclusive", [("itl_p99", "inconclusive")])


def test_a_worse_metric_in_an_inconclusive_whole_is_no_failure() -> None:
    drifted = comparison(metric("itl_p50", "worse", run=23.0), verdict="inconclusive")
    assert judge(SUBJECT, drifted, DEFAULT).verdict == "inconclusive"


def test_an_inconclusive_whole_counts_although_no_metric_is() -> None:
    found = judge(SUBJECT, comparison(metric(), verdict="inconclusive"), DEFAULT)
    assert found.verdict == "inconclusive"
    assert told(found) == [("comparable", "inconclusive")]


def test_a_change_since_an_upgrade_of_the_tool_proves_nothing() -> None:
    upgraded = replace(SUBJECT, base_versions=("0.0.9",))
    assert judge(upgraded, comparison(metric()), DEFAULT).verdict == "passed"
    found = judge(upgraded, WORSE, DEFAULT)
    assert found.verdict == "inconclusive"
    assert found.summary.startswith("the whole is worse; but kvcliff 0.0.9 read the baseline")
    assert judge(upgraded, comparison(metric()), rule("itl_p50", maximum=1.0)).verdict == "failed"


def test_incomparable_runs() -> None:
    other = comparison(metric(), verdict="inconclusive", incomparable="other GPU: H100 and L4")
    found = judge(SUBJECT, other, DEFAULT)
    assert (found.verdict, found.summary) == ("inconclusive", "other GPU: H100 and L4")


def test_metrics_that_do_not_gate_do_so_when_named() -> None:
    background = comparison(metric("ttft_p99", "worse", run=30.0, is_gating=False))
    assert judge(SUBJECT, background, DEFAULT).verdict == "passed"
    assert judge(SUBJECT, background, rule("ttft_p99", severity="fail")).verdict == "failed"


@pytest.mark.parametrize(
    ("limits", "verdict", "words"),
    [
        ({"maximum": 20.0}, "passed", ""),
        ({"maximum": 19.9}, "failed", "title of itl_p50 is 20 ms, above the limit of 19.9 ms"),
        ({"minimum": 20.0}, "passed", ""),
        ({"minimum": 20.1}, "failed", "title of itl_p50 is 20 ms, below the limit of 20.1 ms"),
        ({"maximum": 19.9, "severity": "warn"}, "warned", "above"),
    ],
)
def test_limits(limits: dict[str, object], verdict: str, words: str) -> None:
    found = judge(SUBJECT, comparison(metric()), rule("itl_p50", **limits))
    assert found.verdict == verdict
    assert not words or words in found.summary


def test_limits_hold_for_the_first_run_too() -> None:
    first = replace(SUBJECT, base_run_ids=())
    found = judge(first, comparison(metric()), DEFAULT)
    assert found.verdict == "learning"
    assert [(check.metric, check.run_value) for check in found.checks if check.is_gating] == [("itl_p50", 20)]
    assert judge(first, comparison(metric()), rule("itl_p50", maximum=10.0)).verdict == "failed"


def test_swap_points() -> None:
    three = replace(SUBJECT, swap_point_count=3)
    assert judge(three, comparison(metric()), DEFAULT).verdict == "passed", "the comparison decides"
    assert judge(three, comparison(metric()), gate(allowed_swap_points=3)).verdict == "passed"
    found = judge(three, comparison(metric()), gate(allowed_swap_points=2))
    assert (found.verdict, found.summary) == ("failed", "3 confirmed swap points, 2 allowed")
    first = judge(replace(three, base_run_ids=()), comparison(metric()), DEFAULT)
    assert (first.verdict, told(first)) == ("learning", [("swap_points_found", "warn")])


def test_a_run_that_the_policy_sets_aside_trips_nothing() -> None:
    found = judge(replace(SUBJECT, is_set_aside=True), WORSE, DEFAULT)
    assert (found.verdict, found.summary) == ("set_aside", "the policy sets night-01 aside")


def test_a_comparison_that_failed() -> None:
    found = judge(SUBJECT, None, DEFAULT, problem="a bug")
    assert (found.verdict, found.summary) == ("inconclusive", "it was not compared: a bug")
