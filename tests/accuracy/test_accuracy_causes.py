"""Causes of latency jumps in simulated runs: `make accuracy` prints the confusion table of README.md."""

from collections import Counter

import pytest

from accuracy.cause_scenarios import CauseModels, cause_scenario, confusion, judge

pytestmark = pytest.mark.accuracy

COUNT = 220


@pytest.fixture(scope="module")
def counts() -> Counter[tuple[str, str]]:
    """Return how often each cause was told as what, and print it."""
    models = CauseModels()
    total: Counter[tuple[str, str]] = Counter()
    for number in range(COUNT):
        item = cause_scenario(number)
        total += judge(item, models.jumps(item))
    print(f"\n\n{confusion(total)}")
    return total


def test_a_cause_is_rarely_a_wrong_one(counts: Counter[tuple[str, str]]) -> None:
    named = sum(count for (_, said), count in counts.items() if said not in ("none", "unknown"))
    wrong = sum(count for (true, said), count in counts.items() if said not in (true, "none", "unknown"))
    assert wrong <= 0.02 * named


def test_most_causes_are_named(counts: Counter[tuple[str, str]]) -> None:
    true_counts: Counter[str] = Counter()
    for (true, _), count in counts.items():
        true_counts[true] += count
    for cause in ("cpu", "prefill"):
        assert counts[cause, cause] >= 0.8 * true_counts[cause], cause
