"""False alarms and detections of the comparison on recorded repeats; the tables are those of README.md."""

from collections import Counter

import pytest

from accuracy.compare_trials import GROUPS, SLOWER, Bench, all_trials, ingest
from accuracy.recordings import ROOT, WHY_SKIPPED

pytestmark = [pytest.mark.accuracy, pytest.mark.skipif(not ROOT.is_dir(), reason=WHY_SKIPPED)]
_MAX_FALSE_SHARE = 0.01
_MIN_DETECTED_SHARE = 0.9
_VERDICTS = ("same", "worse", "better", "inconclusive")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    path = tmp_path_factory.mktemp("compare") / "recordings.duckdb"
    return Bench(path, ingest(path, [name for group in GROUPS.values() for name in group]))


def run_trials(bench: Bench, slower: float) -> Counter[tuple[str, str, str]]:
    """Return how often each verdict came out, by group and kind of trial."""
    return Counter((trial.group, trial.kind, bench.compare(trial).verdict) for trial in all_trials(slower))


def report(title: str, found: Counter[tuple[str, str, str]]) -> None:
    """Print a table of verdicts."""
    print(f"\n{title}\n\n| recordings | trials | {' | '.join(_VERDICTS)} |")
    print(f"|{' --- |' * (len(_VERDICTS) + 2)}")
    for group, kind in sorted({(group, kind) for group, kind, _ in found}):
        counts = [found[group, kind, verdict] for verdict in _VERDICTS]
        print(f"| {group}, {kind} | {sum(counts)} | {' | '.join(map(str, counts))} |")
    totals = [sum(count for (_, _, name), count in found.items() if name == verdict) for verdict in _VERDICTS]
    print(f"| all | {sum(totals)} | {' | '.join(map(str, totals))} |")


def test_repeats_raise_no_alarm(bench: Bench) -> None:
    found = run_trials(bench, 1.0)
    report("A/A: recorded repeats", found)
    alarms = sum(count for (_, _, verdict), count in found.items() if verdict in ("worse", "better"))
    assert found.total() >= 300
    assert alarms / found.total() < _MAX_FALSE_SHARE
    undecided = sum(count for (_, _, verdict), count in found.items() if verdict == "inconclusive")
    assert undecided / found.total() < 0.05


def test_tokens_slower_by_a_tenth_are_found(bench: Bench) -> None:
    found = run_trials(bench, SLOWER)
    report("A/B: tokens slower by 10 %", found)
    for group in GROUPS:
        counts = {
            verdict: sum(found[place] for place in found if place[::2] == (group, verdict))
            for verdict in _VERDICTS
        }
        assert counts["better"] == 0
        assert counts["worse"] / sum(counts.values()) >= _MIN_DETECTED_SHARE, group


def test_the_same_trials_every_time() -> None:
    assert list(all_trials()) == list(all_trials())
