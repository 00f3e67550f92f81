"""Every finding of the sample runs rests on rows that are there, and its numbers are theirs."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

TRACES = Path(__file__).parents[2] / "sample_traces"
STORIES = tuple(sorted(path.name for path in TRACES.iterdir() if path.is_dir()))
Row = dict[str, Any]

#: Names of numbers that are no column of the rows, and how they follow from them.
DERIVED: dict[str, Callable[[list[Row], re.Match[str]], Any]] = {
    r"rows|jumps|traces|swap points": lambda rows, _: len(rows),
    r"max (\w+)": lambda rows, name: max(row[name[1]] for row in rows if row[name[1]] is not None),
    r"(hbm|host|remote) hit_ratio": lambda rows, name: _hit_ratio(rows, name[1]),
    r"source (\d+) uncertainty_ns": lambda rows, name: next(
        row["uncertainty_ns"] for row in rows if row["source_id"] == int(name[1])
    ),
    r"hbm_bandwidth|sm_active": lambda rows, name: next(
        row["value"] for row in rows if row["indicator"] == name[0]
    ),
}
#: Numbers of other marts that stand beside the rows.
ELSEWHERE = frozenset({"mean footprint_ratio"})


def _hit_ratio(rows: list[Row], tier: str) -> float:
    own = [row for row in rows if row["tier"] == tier]
    return sum(row["hit_tokens"] for row in own) / sum(row["lookup_tokens"] for row in own)


@pytest.fixture
def store(diagnosed_stories: Path) -> Path:
    return diagnosed_stories / "runs.duckdb"


def _query(store: Path, sql: str, *parameters: object) -> list[Row]:
    with duckdb.connect(str(store), read_only=True) as con:
        result = con.execute(sql, list(parameters))
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _rows(store: Path, story: str, mart: str, where: str = "true") -> list[Row]:
    its_run = "run_id = (select run_id from runs where name = ?)"
    return _query(store, f"select * from {mart} where {its_run} and ({where or 'true'})", story)


def _matches(rows: list[Row], name: str, value: Any) -> bool:
    if rows and name in rows[0]:
        values = [row[name] for row in rows if row[name] is not None]
        is_sum = bool(values) and isinstance(value, int) and sum(values) == value
        return value in values or (value is None and not values) or is_sum
    for pattern, derive in DERIVED.items():
        match = re.fullmatch(pattern, name)
        if match is not None:
            return derive(rows, match) == pytest.approx(value, rel=1e-12)
    return name in ELSEWHERE


@pytest.mark.parametrize("story", STORIES)
def test_evidence_is_in_the_rows_that_it_names(store: Path, story: str) -> None:
    checked = 0
    for finding in _rows(store, story, "findings"):
        for item in json.loads(finding["evidence"]):
            rows = _rows(store, story, item["mart"], item["where"])
            for name, value in item["numbers"].items():
                assert _matches(rows, name, value), (finding["finding"], item, name)
                checked += 1
    assert checked >= 5


@pytest.mark.parametrize("story", STORIES)
def test_what_was_found_cites_rows(store: Path, story: str) -> None:
    for finding in _rows(store, story, "findings", "verdict = 'found'"):
        cited = [_rows(store, story, item["mart"], item["where"]) for item in json.loads(finding["evidence"])]
        assert any(cited), finding["finding"]


@pytest.mark.parametrize("story", STORIES)
def test_advice_states_the_settings_of_the_run(store: Path, story: str) -> None:
    settings = {row["name"]: row["number"] for row in _rows(store, story, "settings", "is_effective")}
    for finding in _rows(store, story, "findings", "verdict = 'found' and action is not null"):
        for name, number in re.findall(r"(\w+), now ([\d,]+)", finding["action"]):
            assert settings[name] == float(number.replace(",", "")), finding["action"]


@pytest.mark.parametrize("story", STORIES)
def test_a_cap_is_a_number_of_requests_that_ran_while_kv_was_full(store: Path, story: str) -> None:
    for finding in _rows(store, story, "findings", "verdict = 'found' and action is not null"):
        match = re.search(r"at about (\d+) running requests", finding["action"])
        if match is not None:
            rows = _rows(store, story, "kv_occupancy", "tier = 'hbm' and used_ratio >= 0.8")
            assert int(match[1]) in {row["running_count"] for row in rows}
