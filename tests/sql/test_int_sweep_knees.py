"""Knees of random sweeps: the bounds that are claimed hold the truth, and sweeps without a knee get none."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log

import duckdb
import pytest

from builders_serving import model

#: Grids of load that people use: doubling, a mixed one, even steps, and too few levels.
GRIDS = (
    (1, 2, 4, 8, 16, 32, 64, 128, 256),
    (1, 2, 4, 8, 16, 32, 64, 80, 96, 128, 160, 192, 256, 512),
    (8, 16, 24, 32, 48, 64, 96, 128, 192, 256),
    (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120),
    (1, 4, 16, 64),
    (1, 8, 64),
)
#: Throughput at a load, for a knee: where its elasticity falls below one half.
WITH_KNEE: dict[str, Callable[[float, float], float]] = {
    "limit": lambda load, knee: 50 * min(load, knee),
    "saturating": lambda load, knee: 50 * load / (1 + load / knee),
    "collapsing": lambda load, knee: 50 * min(load, knee) * min(1.0, (knee / load) ** 0.4),
}
WITHOUT_KNEE: dict[str, Callable[[float, float], float]] = {
    "linear": lambda load, _: 50 * load,
    "slower": lambda load, _: 50 * load**0.8,
    "flat": lambda load, _: 500.0,
    "falling": lambda load, _: 500 * load**-0.3,
}


@dataclass(frozen=True)
class Answer:
    """What is claimed about one sweep: the knee's bounds, ``None`` without one, and the saturation's load."""

    bounds: tuple[float, float] | None
    saturation: float | None


@cache
def _con() -> duckdb.DuckDBPyConnection:
    return model("int_sweep_knees", {}, {"int_sweep_measures": []})


def ask(loads: Sequence[float], rates: Sequence[float]) -> Answer:
    """Return what is claimed about a sweep; the levels may come in any order."""
    con = _con()
    con.execute("delete from int_sweep_measures")
    rows, previous = [], None
    for place_no, (load, rate) in enumerate(sorted(zip(loads, rates, strict=True)), start=1):
        step = None
        if previous is not None and load > previous[0]:
            step = log(rate / previous[1]) / log(load / previous[0])
        rows.append((f"level {place_no}", load, place_no, rate, step))
        previous = (load, rate)
    if rows:
        con.executemany(
            "insert into int_sweep_measures (level, load, place_no, tokens_per_s, elasticity) "
            "values (?, ?, ?, ?, ?)",
            rows,
        )
    found = con.execute(
        "select knee_min_load, knee_max_load, saturation_place from int_sweep_knees"
    ).fetchone()
    if found is None:
        return Answer(None, None)
    return Answer(
        None if found[0] is None else (found[0], found[1]),
        None if found[2] is None else rows[found[2] - 1][1],
    )


def random_sweep(
    chance: random.Random, shape: Callable[[float, float], float], noise: float
) -> tuple[float, Answer]:
    """Return the true knee of a sweep of this shape and what is claimed about it."""
    grid = chance.choice(GRIDS)
    knee = exp(chance.uniform(log(grid[0] * 1.2), log(grid[-1] / 1.2)))
    loads = list(grid)
    if chance.random() < 0.2:
        loads.append(chance.choice(grid))
    chance.shuffle(loads)
    rates = [shape(load, knee) * exp(chance.gauss(0, noise)) for load in loads]
    return knee, ask(loads, rates)


def score(count: int, noise: float, seed: int) -> tuple[int, int, int]:
    """Return knees claimed where there is none, knees claimed where there is one, and misses among these."""
    chance = random.Random(seed)
    false = claimed = missed = 0
    for _ in range(count):
        for shape in WITHOUT_KNEE.values():
            false += random_sweep(chance, shape, noise)[1].bounds is not None
        for shape in WITH_KNEE.values():
            knee, answer = random_sweep(chance, shape, noise)
            if answer.bounds is not None:
                claimed += 1
                missed += not answer.bounds[0] * 0.999 <= knee <= answer.bounds[1] * 1.001
    return false, claimed, missed


def test_bounds_hold_the_truth_of_exact_sweeps() -> None:
    false, claimed, missed = score(8, 0.0, seed=1)
    assert (false, missed) == (0, 0)
    assert claimed >= 6


def test_noise_makes_no_knees() -> None:
    false, claimed, missed = score(6, 0.03, seed=2)
    assert false == 0
    assert claimed >= 4
    assert missed <= 1


@pytest.mark.accuracy
@pytest.mark.parametrize(("noise", "missed_ratio"), [(0.0, 0.0), (0.02, 0.02), (0.05, 0.1), (0.1, 0.2)])
def test_many_sweeps(noise: float, missed_ratio: float) -> None:
    false, claimed, missed = score(100, noise, seed=3)
    print(
        f"\nnoise {noise:.2f}: {false} false knees in 400 sweeps, {missed} of {claimed} knees out of bounds"
    )
    assert false <= 2
    assert missed <= missed_ratio * claimed


@pytest.mark.parametrize(
    ("loads", "rates"),
    [
        ((), ()),
        ((4,), (100,)),
        ((1, 2, 4), (100, 110, 111)),
        ((4, 4, 4, 4, 4), (100, 101, 99, 100, 102)),
        ((1, 2, 4, 8, 16), (500, 400, 300, 200, 100)),
        ((100, 104, 108, 112, 116, 120), (100, 104, 108, 108, 109, 108)),
    ],
    ids=["none", "one", "too few", "one load again and again", "falling from the start", "narrow range"],
)
def test_no_claim_without_evidence(loads: tuple[float, ...], rates: tuple[float, ...]) -> None:
    assert ask(loads, rates).bounds is None


def test_repeated_levels_do_not_hide_a_knee() -> None:
    loads = (1, 2, 2, 4, 4, 8, 16, 16, 32)
    rates = [50.0 * min(load, 6) for load in loads]
    bounds = ask(loads, rates).bounds
    assert bounds is not None
    assert bounds[0] <= 6 <= bounds[1]


def test_order_of_the_levels_does_not_matter() -> None:
    loads, rates = (1, 2, 4, 8, 16, 32), (50, 100, 200, 230, 240, 242)
    assert ask(loads, rates) == ask(loads[::-1], rates[::-1])


def test_flat_throughput_is_no_saturation_that_was_reached() -> None:
    assert ask((1, 2, 4, 8, 16, 32), (500, 460, 505, 510, 490, 500)).saturation is None
    assert ask((1, 2, 4, 8, 16, 32), (100, 200, 400, 510, 490, 500)).saturation == 8
