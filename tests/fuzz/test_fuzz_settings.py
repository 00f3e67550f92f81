"""Damaged run.toml and policy files: a sentence with a way out, never another error."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.mutations import KINDS, Edit, edited
from kvcliff.cli.policy import read_policy
from kvcliff.errors import KvcliffError, UsageProblem
from kvcliff.nightly.policy import read_nightly_policy
from kvcliff.readers.run_config import load_run_config
from kvcliff.store.catalog import threshold_names

RUN = b"""\
name = "llama sweep"
time_zone = "+09:00"
year = 2025
[labels]
team = "serving"
attempt = 3
[[file]]
path = "c32/*.log"
role = "log"
level = 32
replica = "b"
time_zone = "Asia/Tokyo"
clock_offset_s = -1.5
interval_ms = 500
ignore = false
[model]
layers = 40
dtype = "float16"
[gpu]
name = "H100"
[engine]
block_size = 16
[slo]
ttft_ms = 500
"""
POLICY = b"""\
[discovery]
marker = "DONE"
quiet_s = 60
ignore = ["scratch*"]
[baseline]
labels = ["model", "gpu"]
runs = 7
[gate]
worse = "warn"
allowed_swap_points = 3
[gate.metrics.itl_p99]
severity = "fail"
max = 250
[[series]]
match = "model=llama*"
[series.metrics.itl_p99]
max = 100
[retention]
raw_days = 30
[thresholds]
kv_high_ratio = 0.9
"""
_PIECES = (
    *(
        b"1979-05-27T07:32:00Z",
        b"1979-05-27",
        b"07:32:00",
        b"{a = 1}",
        b"[1, 'x', {}]",
        b"inf",
        b"nan",
        b"0x1F",
    ),
    *(
        b'""',
        b'"../../etc"',
        b"true",
        b"1e400",
        b"9" * 400,
        b'"\\u0000"',
        b"'''\n'''",
        b"[x]\n",
        b"[[x]]\n",
        b"a.b = 1\n",
    ),
)
_EDITS = st.lists(
    st.builds(
        Edit,
        kind=st.sampled_from(KINDS),
        where=st.floats(0, 1),
        length=st.integers(0, 30),
        pick=st.integers(0, 200),
    ),
    max_size=3,
)
#: Another value for the n-th key, which keeps the file valid TOML more often than other edits do.
_VALUES = st.lists(st.tuples(st.integers(0, 40), st.sampled_from(_PIECES)), max_size=3)


def _with_values(data: bytes, values: list[tuple[int, bytes]]) -> bytes:
    lines = data.split(b"\n")
    for number, value in values:
        places = [place for place, line in enumerate(lines) if b" = " in line]
        if places:
            place = places[number % len(places)]
            lines[place] = lines[place].split(b" = ", 1)[0] + b" = " + value
    return b"\n".join(lines)


def _check(folder: Path, data: bytes, *, is_run: bool) -> None:
    try:
        _read(folder, data, is_run=is_run)
    except KvcliffError as problem:
        _check_problem(problem)


def _read(folder: Path, data: bytes, *, is_run: bool) -> None:
    path = folder / "x.toml"
    path.write_bytes(data)
    if is_run:
        config = load_run_config(path)
        assert config.rule_for("c32/a.log").path == "c32/a.log"
        config.context_for("c32/a.log")
    else:
        read_nightly_policy(path, known_thresholds=_NAMES)
        read_policy(path, _NAMES)


def _check_problem(problem: KvcliffError) -> None:
    assert problem.hint, problem.message


_NAMES = threshold_names()
_SETTINGS = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
    "database": None,
}


@pytest.mark.parametrize("is_run", [True, False], ids=["run", "policy"])
@given(values=_VALUES, edits=_EDITS)
@settings(max_examples=200, derandomize=True, **_SETTINGS)
def test_damage_is_a_sentence(
    tmp_path: Path, is_run: bool, values: list[tuple[int, bytes]], edits: list[Edit]
) -> None:
    _check(tmp_path, edited(_with_values(RUN if is_run else POLICY, values), edits), is_run=is_run)


@pytest.mark.parametrize("is_run", [True, False], ids=["run", "policy"])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"x = " + b"9" * 5000, id="long number"),
        pytest.param(b"x = " + b"[" * 100_000, id="deep list"),
        # The parser would take 40 GB for this one.
        pytest.param(b"a." * 100_000 + b"b = 1", id="long key"),
        pytest.param(b"x = 1\n" * 200_000, id="large"),
    ],
)
def test_what_once_broke_the_parser(tmp_path: Path, is_run: bool, data: bytes) -> None:
    with pytest.raises(UsageProblem):
        _read(tmp_path, data, is_run=is_run)


@pytest.mark.fuzz
@pytest.mark.parametrize("is_run", [True, False], ids=["run", "policy"])
@given(values=_VALUES, edits=_EDITS)
@settings(max_examples=10_000, **_SETTINGS)
def test_much_damage_is_a_sentence(
    tmp_path: Path, is_run: bool, values: list[tuple[int, bytes]], edits: list[Edit]
) -> None:
    _check(tmp_path, edited(_with_values(RUN if is_run else POLICY, values), edits), is_run=is_run)
