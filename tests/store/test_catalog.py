import pytest

from kvcliff.store.catalog import NS_PER_DAY, StoredRun, runs_to_prune, threshold_names


def _run(name: str, day: int, suffix: str = "0") -> StoredRun:
    return StoredRun(f"{name}-{suffix}{day}", name, None, "ok", True, 0, 1, 0, 1, "0.1.0", day * NS_PER_DAY)


RUNS = (_run("a", 1), _run("a", 5), _run("a", 9), _run("b", 2))


@pytest.mark.parametrize(
    ("newest", "older_than_days", "expected"),
    [
        (1, None, ["a-01", "a-05"]),
        (2, None, ["a-01"]),
        (3, None, []),
        (None, 4.9, ["a-01", "a-05", "b-02"]),
        (None, 5.0, ["a-01", "b-02"]),
        (None, 100.0, []),
        (1, 6.0, ["a-01"]),
        (None, 0.0, ["a-01", "a-05", "a-09", "b-02"]),
    ],
)
def test_runs_to_prune(newest: int | None, older_than_days: float | None, expected: list[str]) -> None:
    doomed = runs_to_prune(RUNS, newest=newest, older_than_days=older_than_days, now_ns=10 * NS_PER_DAY)
    assert [run.run_id for run in doomed] == expected


def test_runs_of_the_same_moment_are_told_apart_by_id() -> None:
    twins = (_run("a", 1, "x"), _run("a", 1, "y"))
    doomed = runs_to_prune(twins, newest=1, older_than_days=None, now_ns=0)
    assert [run.run_id for run in doomed] == ["a-x1"]


def test_threshold_names() -> None:
    assert "kv_high_ratio" in threshold_names()
