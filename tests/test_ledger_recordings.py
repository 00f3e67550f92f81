"""The ledgers against what real engines printed: pool sizes, block counts, memory that telemetry saw."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from accuracy.recordings import ROOT, WHY_SKIPPED
from builders_models import KNOWN_MODELS
from kvcliff.readers.model_shape import model_shape
from kvcliff.store.calculator import Load, calculate
from kvcliff.store.ingest import stage_run
from kvcliff.store.plan import plan_run

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=WHY_SKIPPED)

GIB = 2**30
SHAPES = {model.name: model.config for model in KNOWN_MODELS}
#: What the V0 logs print: memory, share, peak of the framework with the weights in it, the rest, blocks.
PRINTED = {
    "Llama-2-13B": ("background__llama-2-13b", 63.43, 0.9, 24.55, 0.10, 2657, 26_070_000_000),
    "OPT-1.3B": ("background__opt-1.3b", 63.43, 0.9, 2.64, 0.10, 18_550, 2_630_000_000),
}
_RUN_TOML = """
[model]
hidden_size = {hidden_size}
layers = {layers}
attention_heads = {attention_heads}
kv_heads = {kv_heads}
head_dim = {head_dim}
weight_bytes = {weight_bytes}
dtype = "float16"
[gpu]
name = "H100 64 GB HBM2e"
memory_bytes = 68416438272
hbm_bytes_per_s = 2.04e12
[engine]
block_size = 16
"""


@contextmanager
def staged(folder: Path, config: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection on which the models of a run are built."""
    with duckdb.connect() as con:
        stage_run(con, plan_run(folder, config_path=config))
        yield con


def run_toml(model: str, folder: Path) -> Path:
    """Return a run.toml with what the files of a recording do not say."""
    shape = model_shape(SHAPES[model])
    path = folder / "run.toml"
    path.write_text(_RUN_TOML.format(**shape, weight_bytes=PRINTED[model][-1]), encoding="utf-8")
    return path


@pytest.mark.parametrize("model", PRINTED)
def test_block_counts_follow_from_memory_weights_and_peak(model: str) -> None:
    _, memory_gib, limit, peak_gib, other_gib, blocks, _ = PRINTED[model]
    settings = {
        **model_shape(SHAPES[model]),
        "gpu_memory_bytes": str(memory_gib * GIB),
        # The printed peak holds the weights.
        "weight_bytes": str(peak_gib * GIB),
    }
    load = Load(1, 1, 1, block_tokens=16, limit_ratio=limit, other_bytes=round(other_gib * GIB))
    assert calculate(settings, load).block_count == pytest.approx(blocks, rel=0.02)


@pytest.mark.parametrize("model", PRINTED)
def test_books_of_a_recorded_gpu_run(model: str, tmp_path: Path) -> None:
    name, *_, blocks, _ = PRINTED[model]
    with staged(ROOT / "memory_gap" / name / "64", run_toml(model, tmp_path)) as con:
        found = {
            line: (size, tokens)
            for line, size, tokens in con.execute(
                "select line, bytes, tokens from capacity_ledger where tier = 'hbm'"
            ).fetchall()
        }
        share = con.execute(
            "select share from capacity_ledger where tier = 'hbm' and line = 'rest'"
        ).fetchone()
    assert found["total"] == (68_416_438_272, blocks * 16)
    assert found["pool_check"][1] == pytest.approx(blocks * 16, rel=0.02)
    # Nothing of weight is left without a name, and telemetry saw what is booked plus context and graphs.
    assert share is not None
    assert 0 <= share[0] < 0.02
    booked = sum(
        found[line][0]
        for line in ("weights", "kv_used_peak", "kv_block_tails", "kv_free", "activations", "non_torch")
    )
    assert 0 < found["device_used"][0] - booked < 2 * GIB


def test_the_ceiling_of_a_recorded_run_lies_where_others_reached_it(tmp_path: Path) -> None:
    config = run_toml("Llama-2-13B", tmp_path)
    with staged(ROOT / "memory_gap" / "background__llama-2-13b" / "64", config) as con:
        lines = {
            line: (tokens, requests, meaning)
            for line, tokens, requests, meaning in con.execute(
                "select line, tokens, request_count, meaning from capacity_ledger where tier = 'hbm'"
            ).fetchall()
        }
    assert lines["admission"][2].startswith("max_num_seqs (64)")
    # With 80 requests the pool still had room, with 96 it overflowed.
    assert 80 < lines["total"][0] / lines["per_request"][0] < 96


def test_pool_of_a_recorded_cpu_run_is_what_its_log_says() -> None:
    with staged(ROOT / "vllm_cpu" / "steady") as con:
        row = con.execute(
            "select tokens, bytes from capacity_ledger where tier = 'host' and line = 'total'"
        ).fetchone()
    # "CPU KV cache size: 4,096 tokens" of 8 layers x 4 KV heads x 64 x 2 x 2 bytes.
    assert row == (4096, 4096 * 8192)
