"""Predictions of other levels from one recorded level alone, against the levels that were recorded."""

import csv
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from accuracy.recordings import ROOT, WHY_SKIPPED
from builders_models import KNOWN_MODELS
from kvcliff.readers.model_shape import model_shape
from kvcliff.store.ingest import stage_run
from kvcliff.store.plan import plan_run

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=WHY_SKIPPED)

SHAPES = {model.name: model.config for model in KNOWN_MODELS}
FOLDER = {"Llama-2-13B": "background__llama-2-13b", "OPT-1.3B": "background__opt-1.3b"}
WEIGHT_BYTES = {"Llama-2-13B": 26_070_000_000, "OPT-1.3B": 2_630_000_000}


def run_toml(model: str, folder: Path) -> Path:
    """Return the example of the corpus with the model's own numbers."""
    text = (ROOT / "memory_gap" / "run.toml.example").read_text(encoding="utf-8")
    facts = {**model_shape(SHAPES[model]), "weight_bytes": str(WEIGHT_BYTES[model])}
    for name in ("hidden_size", "layers", "attention_heads", "kv_heads", "head_dim", "weight_bytes"):
        text = re.sub(rf"(?m)^{name} = \d+", f"{name} = {facts[name]}", text)
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


@contextmanager
def staged(model: str, level: int, config: Path | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection with the models of one recorded level."""
    with duckdb.connect() as con:
        con.execute("set threads = 1")
        stage_run(con, plan_run(ROOT / "memory_gap" / FOLDER[model] / str(level), config_path=config))
        yield con


def truth(model: str, level: int) -> dict[str, str]:
    """Return what was recorded at a level."""
    with (ROOT / "memory_gap" / "truth.csv").open(encoding="utf-8", newline="") as file:
        return next(row for row in csv.DictReader(file) if row["dir"] == f"{FOLDER[model]}/{level}")


def predicted(
    con: duckdb.DuckDBPyConnection, sequences: int
) -> tuple[float | None, float | None, str | None]:
    (row,) = con.execute(
        "select tokens_per_s, step_ms, reason from predictions where sequences = ?", [sequences]
    ).fetchall()
    return row


def test_llama_from_64_sequences_alone(tmp_path: Path) -> None:
    with staged("Llama-2-13B", 64, run_toml("Llama-2-13B", tmp_path)) as con:
        (ceiling,) = con.execute("select sequences from predictions where basis = 'kv_ceiling'").fetchall()
        assert 80 < ceiling[0] < 96
        for level in (32, 80, 96, 128):
            rate, _, reason = predicted(con, level)
            assert reason is None
            assert rate == pytest.approx(float(truth("Llama-2-13B", level)["out_tok_s"]), rel=0.1)
        assert predicted(con, 192) == (None, None, "more than twice the level of this run")


def test_opt_from_64_sequences_alone(tmp_path: Path) -> None:
    with staged("OPT-1.3B", 64, run_toml("OPT-1.3B", tmp_path)) as con:
        for level in (96, 128, 192, 256):
            rate, step_ms, reason = predicted(con, level)
            recorded = truth("OPT-1.3B", level)
            assert reason is None
            assert rate == pytest.approx(float(recorded["out_tok_s"]), rel=0.1)
            assert step_ms == pytest.approx(float(recorded["mean_itl_ms"]), rel=0.1)


def test_a_run_that_was_not_at_full_batch_predicts_nothing(tmp_path: Path) -> None:
    with staged("OPT-1.3B", 512, run_toml("OPT-1.3B", tmp_path)) as con:
        assert predicted(con, 768) == (None, None, "the run was not at full batch")


def test_without_model_and_gpu_nothing_is_predicted() -> None:
    with staged("Llama-2-13B", 64, None) as con:
        rate, step_ms, reason = predicted(con, 96)
        assert (rate, step_ms) == (None, None)
        assert reason
        assert con.execute(
            "select count(step_ms) from advice where advice in ('kv_fp8', 'cap_sequences')"
        ).fetchall() == [(0,)]


def test_a_cap_at_a_lower_level_of_a_sweep_brings_what_that_level_brought(tmp_path: Path) -> None:
    for level in (64, 128):
        recorded_level = ROOT / "memory_gap" / FOLDER["Llama-2-13B"] / str(level)
        shutil.copytree(recorded_level, tmp_path / "sweep" / str(level))
    with duckdb.connect() as con:
        con.execute("set threads = 1")
        stage_run(con, plan_run(tmp_path / "sweep", config_path=run_toml("Llama-2-13B", tmp_path)))
        (row,) = con.execute(
            "select cap, tokens_per_s, step_ms from advice where advice = 'cap_sequences' and level = '128'"
        ).fetchall()
    recorded = truth("Llama-2-13B", 64)
    assert row[0] == 64
    assert row[1] == pytest.approx(float(recorded["out_tok_s"]), rel=0.1)
    assert row[2] == pytest.approx(float(recorded["mean_itl_ms"]), rel=0.1)
