"""Phases of generated GPU traces against the truth: `make accuracy` prints the tables of README.md."""

from pathlib import Path

import pytest

from accuracy.phase_score import GENERATOR, WHY_SKIPPED, PhaseScore, confusion, score, table, traces

pytestmark = [pytest.mark.accuracy, pytest.mark.skipif(not GENERATOR.is_file(), reason=WHY_SKIPPED)]


def _scores(folder: Path, *, is_labelled: bool) -> list[PhaseScore]:
    found = [score(trace, folder, is_labelled=is_labelled) for trace in traces()]
    print(f"\n\n{table(found)}\n\n{confusion(found)}")
    return found


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> list[PhaseScore]:
    """Return the scores of traces with step labels."""
    return _scores(tmp_path_factory.mktemp("labelled"), is_labelled=True)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> list[PhaseScore]:
    """Return the scores of traces without any NVTX range."""
    return _scores(tmp_path_factory.mktemp("bare"), is_labelled=False)


def test_labels_give_every_kernel_its_phase(labelled: list[PhaseScore]) -> None:
    assert {item.title: item.exact_ratio for item in labelled if item.exact_ratio < 1} == {}
    assert {item.title: item.sure_ratio for item in labelled if item.sure_ratio < 1} == {}


def test_decode_is_told_from_the_rest_without_labels(bare: list[PhaseScore]) -> None:
    low = {item.title: item.split_right_ratio for item in bare if item.split_right_ratio < 0.99}
    assert low == {}


def test_no_answer_without_labels_that_is_acted_upon_is_wrong(bare: list[PhaseScore]) -> None:
    assert {item.title: item.wrong_sure_count for item in bare if item.wrong_sure_count} == {}


def test_backends_that_launch_parts_apart_get_exact_phases(bare: list[PhaseScore]) -> None:
    apart = [item for item in bare if "flashinfer" in item.title]
    assert apart
    assert all(item.exact_ratio == 1 for item in apart)
