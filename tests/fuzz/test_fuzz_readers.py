"""Damaged inputs of every format, random and those that once broke something."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.harness import Bench
from fuzz.mutations import KINDS, Edit, edited
from fuzz.seeds import Seed, all_seeds
from kvcliff.readers import READERS

_SEEDS = all_seeds()
_IDS = [f"{seed.reader}-{seed.name}" for seed in _SEEDS]
_EDITS = st.lists(
    st.builds(
        Edit,
        kind=st.sampled_from(KINDS),
        where=st.floats(0, 1),
        length=st.integers(0, 60),
        pick=st.integers(0, 200),
    ),
    min_size=1,
    max_size=5,
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    found = Bench(tmp_path_factory.mktemp("fuzz"))
    yield found
    found.close()


def damaged(seed: Seed, part: int, edits: list[Edit]) -> dict[str, bytes]:
    """Return a seed with one of its files changed."""
    names = sorted(seed.files)
    chosen = names[part % len(names)]
    return {name: edited(data, edits) if name == chosen else data for name, data in seed.files.items()}


def test_every_reader_has_a_seed() -> None:
    assert {seed.reader for seed in _SEEDS} == {reader.name for reader in READERS}


@pytest.mark.parametrize("seed", _SEEDS, ids=_IDS)
def test_seeds_are_read(bench: Bench, seed: Seed) -> None:
    assert bench.try_input(seed.reader, seed.name, seed.files)


#: A panel of Grafana is a table of series too, and is better known as a panel.
_ALSO_KNOWN = {"grafana_csv": {"series_csv"}}


@pytest.mark.parametrize("seed", _SEEDS, ids=_IDS)
def test_seeds_are_known_by_their_reader_alone(bench: Bench, seed: Seed) -> None:
    source = bench.write(seed.name, seed.files)
    scores = {reader.name: reader.sniff(source).score for reader in READERS}
    known = {name: score for name, score in scores.items() if score > 0}
    assert max(known, key=known.__getitem__) == seed.reader
    assert known[seed.reader] >= 70
    assert set(known) - {seed.reader} <= _ALSO_KNOWN.get(seed.reader, set())


@pytest.mark.parametrize("seed", _SEEDS, ids=_IDS)
@given(part=st.integers(0, 30), edits=_EDITS)
@settings(max_examples=15, derandomize=True, deadline=None, database=None)
def test_damage_is_survived(bench: Bench, seed: Seed, part: int, edits: list[Edit]) -> None:
    bench.try_input(seed.reader, seed.name, damaged(seed, part, edits))


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", _SEEDS, ids=_IDS)
@given(part=st.integers(0, 30), edits=_EDITS)
@settings(
    max_examples=3000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_much_damage_is_survived(bench: Bench, seed: Seed, part: int, edits: list[Edit]) -> None:
    bench.try_input(seed.reader, seed.name, damaged(seed, part, edits))


FINDINGS = Path(__file__).parent / "findings"


@pytest.mark.parametrize(
    "path", sorted(FINDINGS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_what_once_broke_a_reader(bench: Bench, path: Path) -> None:
    """The folder of a file says whose input it is."""
    bench.try_input(path.parent.name, path.name, {"": path.read_bytes()})
