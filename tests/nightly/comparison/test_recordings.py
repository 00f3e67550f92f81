"""What the comparison says of recorded runs; skipped without the recordings."""

from pathlib import Path

import duckdb
import pytest

from accuracy.compare_trials import KV_STRESS, PLATEAU, STEADY, ingest
from accuracy.recordings import ROOT, WHY_SKIPPED
from kvcliff.nightly.comparison.compare import Comparison, compare_runs

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=WHY_SKIPPED)
OTHERS = (
    "vllm_cpu/steady_6", "vllm_cpu/steady_slower_2", "vllm_cpu/prefix_on", "vllm_cpu/prefix_off",
    *(f"memory_gap/background__llama-2-13b/{limit}" for limit in (64, 96, 128)),
)  # fmt: skip


class Recorded:
    """Recordings in a database, compared by their names."""

    def __init__(self, path: Path) -> None:
        self._run_ids = ingest(path, [*STEADY, *KV_STRESS, *PLATEAU, *OTHERS])
        self._con = duckdb.connect(str(path), read_only=True)

    def __call__(self, *names: str) -> Comparison:
        """Return the last run compared with the others."""
        *base, run = [self._run_ids[self._full(name)] for name in names]
        return compare_runs(self._con, base, run)

    @staticmethod
    def _full(name: str) -> str:
        return f"memory_gap/background__llama-2-13b/{name}" if name.isdigit() else f"vllm_cpu/{name}"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("recorded") / "runs.duckdb")


@pytest.mark.parametrize(
    "names",
    [
        ("steady_1", "steady_2"), ("steady_2", "steady_1"), ("steady_1", "steady_3"),
        ("steady_2", "steady_3"),
        ("steady_1", "steady_2", "steady_3"), ("kv_stress_1", "kv_stress_2"), ("kv_stress_2", "kv_stress_1"),
        ("160", "192"), ("192", "256"), ("256", "512"), ("512", "160"), ("160", "192", "256", "512"),
    ],
)  # fmt: skip
def test_repeats_are_no_regression(recorded: Recorded, names: tuple[str, ...]) -> None:
    found = recorded(*names)
    assert found.verdict == "same", found.summary
    assert found.summary.startswith("no regression: ")


@pytest.mark.parametrize(
    "base", [("steady_1", "steady_2", "steady_3"), ("steady_1",), ("steady_2",), ("steady_3",)]
)
def test_a_slower_engine_is_worse_in_every_step_and_not_by_kv(
    recorded: Recorded, base: tuple[str, ...]
) -> None:
    found = recorded(*base, "steady_slower_2")
    assert found.verdict == "worse", found.summary
    itl = next(metric for metric in found.metrics if metric.metric == "itl_p50")
    assert itl.verdict == "worse"
    assert itl.change_ratio == pytest.approx(0.12, abs=0.02)
    subjects = [cause.subject for cause in found.causes]
    assert subjects[0] == "every_step"
    assert "not_kv" in subjects
    assert "kv_ceiling" not in subjects


def test_a_host_that_drifted_is_no_verdict_on_the_engine(recorded: Recorded) -> None:
    found = recorded("steady_1", "steady_2", "steady_3", "steady_6")
    assert found.verdict == "inconclusive"
    assert found.worse == ()
    itl = next(metric for metric in found.metrics if metric.metric == "itl_p50")
    assert (itl.verdict, itl.leaning) == ("inconclusive", "worse")
    assert "nothing in the run explains it" in found.summary
    assert "repeats near in time are missing" in found.summary


@pytest.mark.parametrize(
    ("base", "run", "word"), [("64", "96", "reaches"), ("64", "128", "reaches"), ("96", "128", "stays at")]
)
def test_more_slots_until_the_cache_is_full(recorded: Recorded, base: str, run: str, word: str) -> None:
    found = recorded(base, run)
    assert found.verdict == "worse"
    verdicts = {metric.metric: metric.verdict for metric in found.metrics}
    assert verdicts["itl_p99"] == "worse"
    assert verdicts["preemptions"] == "worse"
    assert verdicts["tokens_per_s"] == "better"
    causes = {(cause.subject, cause.name): cause.text for cause in found.causes}
    assert causes["setting", "max_num_seqs"].startswith(f"max_num_seqs {base} → {run}: ")
    assert causes["kv_ceiling", ""].startswith(f"KV {word} its ceiling")


def test_prefix_caching_is_the_cause(recorded: Recorded) -> None:
    found = recorded("prefix_off", "prefix_on")
    assert found.verdict == "better"
    assert [cause.subject for cause in found.causes if cause.kind == "why"] == ["prefix_cache"]
    back = recorded("prefix_on", "prefix_off")
    assert back.verdict == "worse"
    assert "prefix caching true → false" in back.summary


@pytest.mark.parametrize(
    ("base", "run", "words"),
    [
        ("steady_1", "kv_stress_1", "another load: "),
        ("steady_1", "160", "another device: "),
        ("prefix_on", "steady_1", "another load: "),
    ],
)
def test_other_loads_and_machines_are_refused(recorded: Recorded, base: str, run: str, words: str) -> None:
    found = recorded(base, run)
    assert (found.incomparable_reason or "").startswith(words)
    assert found.metrics == ()
