"""A few simulated runs whose jumps have a known cause, one of each kind (hundreds of them: make accuracy)."""

from collections import Counter

from accuracy.cause_scenarios import (
    KINDS,
    CauseModels,
    CauseScenario,
    Jump,
    Trouble,
    cause_scenario,
    confusion,
    judge,
)


def test_no_cause_is_a_wrong_one_and_most_are_named() -> None:
    models = CauseModels()
    counts: Counter[tuple[str, str]] = Counter()
    for number in range(len(KINDS)):
        item = cause_scenario(number)
        counts += judge(item, models.jumps(item))
    wrong = {pair: count for pair, count in counts.items() if pair[1] not in (pair[0], "none", "unknown")}
    assert wrong == {}, confusion(counts)
    assert counts["cpu", "cpu"] == 2
    assert counts["prefill", "prefill"] == 3


def test_judging_counts_right_unknown_missing_and_false_jumps() -> None:
    item = CauseScenario(
        cause_scenario(5).scenario,
        (
            Trouble("cpu", 10, 20),
            Trouble("prefill", 40, 45),
            Trouble("jit", 60, 62),
            Trouble("client", 90, 95),
        ),
    )
    jumps = (Jump("cpu", 11, 19), Jump("unknown", 41, 42), Jump("concurrency", 61, 62), Jump("cpu", 75, 76))
    assert judge(item, jumps) == Counter(
        {
            ("cpu", "cpu"): 1,
            ("prefill", "unknown"): 1,
            ("jit", "concurrency"): 1,
            ("client", "none"): 1,
            ("nothing", "cpu"): 1,
        }
    )
