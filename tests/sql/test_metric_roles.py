"""What a metric family means is stated for families that are read, in words that a model looks for."""

import csv
from pathlib import Path

import pytest

from kvcliff.readers.metric_families import known_kind

SQL = Path(__file__).resolve().parents[2] / "sql"


def _rows(seed: str) -> list[dict[str, str]]:
    with (SQL / "seeds" / f"{seed}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("seed", ["metric_roles", "cache_metrics"])
def test_every_family_with_a_role_is_read(seed: str) -> None:
    assert [row["name"] for row in _rows(seed) if known_kind(row["name"]) is None] == []


@pytest.mark.parametrize("seed", ["metric_roles", "cache_metrics"])
def test_every_role_is_looked_for_by_a_model(seed: str) -> None:
    models = "\n".join(
        path.read_text(encoding="utf-8")
        for layer in ("intermediate", "marts")
        for path in sorted((SQL / layer).glob("*.sql"))
    )
    roles = {row["role"] for row in _rows(seed)}
    assert roles
    assert {role for role in roles if f"'{role}'" not in models} == set()
