import json
from pathlib import Path

import pytest

from builders_metrics import CORPUS, GARBAGE, NO_CORPUS
from kvcliff.errors import InputError, UsageProblem
from kvcliff.readers.run_config import FileRule, load_run_config

WHOLE = """
name = "llama sweep"
time_zone = "+09:00"
year = 2025

[labels]
team = "serving"
attempt = 3

[[file]]
path = "*.log"
time_zone = "UTC"

[[file]]
path = "c32/server.log"
role = "log"
level = 32
replica = "b"
year = 2024
clock_offset_s = -1.5

[[file]]
path = "dcgmi.txt"
interval_ms = 500
level = "warm"
level_number = 8

[[file]]
path = "scratch/*"
ignore = true

[model]
layers = 40
kv_heads = 8
weight_bytes = 26070000000
dtype = "float16"

[gpu]
name = "H100 64 GB HBM2e"
memory_bytes = 68416438272
hbm_bytes_per_s = 2.04e12

[engine]
block_size = 16
enable_prefix_caching = true

[slo]
ttft_ms = 500
itl_ms = 37.5
"""


def load(tmp_path: Path, text: str | bytes):
    path = tmp_path / "run.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_run_config(path)


def test_whole_file(tmp_path: Path) -> None:
    config = load(tmp_path, WHOLE)
    assert (config.name, config.labels) == ("llama sweep", (("attempt", "3"), ("team", "serving")))
    assert (config.zone_offset_s, config.year, len(config.files)) == (9 * 3600, 2025, 4)
    assert config.settings() == (
        ("", "block_size", "16", "tokens"),
        ("", "dtype", "float16", None),
        ("", "enable_prefix_caching", "true", None),
        ("", "gpu_memory_bytes", "68416438272", "bytes"),
        ("", "gpu_name", "H100 64 GB HBM2e", None),
        ("", "hbm_bytes_per_s", "2040000000000", "bytes_per_s"),
        ("", "kv_heads", "8", None),
        ("", "layers", "40", None),
        ("", "slo_itl_ms", "37.5", "ms"),
        ("", "slo_ttft_ms", "500", "ms"),
        ("", "weight_bytes", "26070000000", "bytes"),
    )


def test_later_rules_add_to_earlier_ones(tmp_path: Path) -> None:
    config = load(tmp_path, WHOLE)
    assert config.rule_for("c32/server.log") == FileRule(
        "c32/server.log",
        role="log",
        level="32",
        level_number=32,
        replica="b",
        zone_offset_s=0,
        year=2024,
        clock_offset_s=-1.5,
    )
    assert config.rule_for("scratch/a.csv").is_ignored
    assert config.rule_for("other.csv") == FileRule("other.csv")
    assert config.rule_for("deep/down/dcgmi.txt").level_number == 8


def test_context_of_a_file(tmp_path: Path) -> None:
    config = load(tmp_path, WHOLE)
    context = config.context_for("c32/server.log")
    assert (context.time_zone_offset_s, context.year, dict(context.options)) == (0, 2024, {})
    context = config.context_for("dcgmi.txt")
    assert (context.time_zone_offset_s, context.year, dict(context.options)) == (
        9 * 3600,
        2025,
        {"interval_ms": "500"},
    )


def test_shape_of_a_model_configuration_yields_to_explicit_keys(tmp_path: Path) -> None:
    shape = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 768, "num_attention_heads": 12}
    (tmp_path / "config.json").write_text(json.dumps(shape))
    settings = {
        name: value
        for _, name, value, _ in load(tmp_path, '[model]\nconfig = "config.json"\nlayers = 9\n').settings()
    }
    assert settings == {
        "attention_heads": "12",
        "head_dim": "64",
        "hidden_size": "768",
        "kv_heads": "12",
        "layers": "9",
        "model_type": "llama",
    }


@pytest.mark.parametrize(
    ("zone", "seconds"),
    [("UTC", 0), ("Z", 0), ("+09:00", 32400), ("-0730", -27000), ("UTC+2", 7200), ("Asia/Tokyo", 32400)],
)
def test_zones(tmp_path: Path, zone: str, seconds: int) -> None:
    assert load(tmp_path, f'time_zone = "{zone}"').zone_offset_s == seconds


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("nam = 1", "unknown key 'nam'", "name"),
        ("[model]\nheads = 3", "unknown key 'model.heads'", "attention_heads"),
        ("[gpu]\ngpu_name = 'x'", "unknown key 'gpu.gpu_name'", "name"),
        ("[engine]\nlayers = 3", "unknown key 'engine.layers'", "max_num_seqs"),
        ("[slo]\np99 = 3", "unknown key 'slo.p99'", "itl_ms, ttft_ms"),
        ("[[file]]\npath = 'a'\nzone = 'UTC'", "unknown key 'file[1].zone'", "time_zone"),
        ("[[file]]\nrole = 'log'", "'file[1].path' is missing", "path"),
        ("[[file]]\npath = 'a'\nrole = 'x'", "'file[1].role' is unknown", "log"),
        ("[[file]]\npath = 'a'\nignore = 'yes'", "'file[1].ignore' is neither true nor false", "true"),
        ("[[file]]\npath = 'a'\ninterval_ms = 0", "'file[1].interval_ms' is not positive", "1000"),
        ("[[file]]\npath = 'a'\nclock_offset_s = 'x'", "'file[1].clock_offset_s' is no number", "1.5"),
        ("[file]\npath = 'a'", "'file' is no array of tables", "[[file]]"),
        ("model = 3", "'model' is no table", "[model]"),
        ("name = 3", "'name' is no text", "name"),
        ("year = '2025'", "'year' is no year", "2026"),
        ("time_zone = 'Europe/Berlin'", "'time_zone' names no zone with one fixed offset", "+09:00"),
        ("time_zone = '+77:00'", "'time_zone' names no zone with one fixed offset", "+09:00"),
        ("[engine]\nblock_size = [1]", "'engine.block_size' is neither a text", "plain"),
        ("[slo]\nttft_ms = inf", "'slo.ttft_ms' is neither a text", "plain"),
        ("[model]\nconfig = 'absent.json'", "'model.config' cannot be opened", "relative"),
        ("name = = 3", "is no valid TOML (at line 1", "README"),
        (GARBAGE, "is not encoded in UTF-8", "README"),
    ],
)
def test_mistakes_name_the_key_the_file_and_the_way_out(
    tmp_path: Path, text: str | bytes, message: str, hint: str
) -> None:
    with pytest.raises(UsageProblem) as problem:
        load(tmp_path, text)
    assert problem.value.message.startswith("run.toml")
    assert message in problem.value.message
    assert hint in str(problem.value.hint)


def test_absent_and_empty_file(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load_run_config(tmp_path / "run.toml")
    config = load(tmp_path, "")
    assert (config.name, config.files, config.settings()) == (None, (), ())


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_example_of_the_corpus_loads() -> None:
    config = load_run_config(CORPUS / "serving_runs" / "memory_gap" / "run.toml.example")
    assert config.name == "llama-2-13b 1xH100-64GB"
    assert ("", "head_dim", "128", None) in config.settings()
