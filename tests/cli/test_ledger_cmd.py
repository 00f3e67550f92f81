"""``kvcliff ledger``: worked examples to the digit, three formats, and honest gaps."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from builders_cli import CHECKOUT, Invoke
from builders_models import KNOWN_MODELS
from kvcliff.cli.ledger_options import Amount
from kvcliff.cli.root import root

CONFIG = CHECKOUT / "sample_traces" / "steady" / "config.json"
MHA = ("--hidden", "4096", "--heads", "32", "--dtype", "float16")
GIVEN = ("--weights", "14GB", "--kv-per-token", "2MB", "--context", "1000")
BY_NAME = {model.name: model.config for model in KNOWN_MODELS}


def lines(text: str) -> dict[tuple[str, str], str]:
    """Return the value of every (section, line) of the text output."""
    found, section = {}, ""
    for block in text.split("\n\n"):
        head, *rest = block.splitlines()
        if len(rest) < 3:
            continue
        section = head
        widths = [len(part) for part in rest[1].split("  ")]
        for row in rest[2:]:
            name = row[: widths[0]].strip()
            found[section, name] = row[widths[0] + 2 : widths[0] + 2 + widths[1]].strip()
    return found


def ledger(invoke: Invoke, *arguments: str | Path) -> dict[tuple[str, str], str]:
    result = invoke("ledger", *arguments)
    assert result.exit_code == 0, result.stderr
    return lines(result.stdout)


def as_json(invoke: Invoke, *arguments: str | Path) -> dict[str, Any]:
    result = invoke("ledger", *arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    envelope: dict[str, Any] = json.loads(result.stdout)
    return envelope


@pytest.mark.parametrize(
    ("layers", "per_token", "sequence"),
    [("32", "512 KiB (524 kB)", "2 GiB (2.15 GB)"), ("80", "1.25 MiB (1.31 MB)", "5 GiB (5.37 GB)")],
)
def test_kv_of_multi_head_attention(invoke: Invoke, layers: str, per_token: str, sequence: str) -> None:
    found = ledger(invoke, "--layers", layers, *MHA, "--context", "4096")
    assert found["KV cache", "per token"] == per_token
    assert found["KV cache", "one sequence"] == sequence


def test_decode_floor_of_one_sequence(invoke: Invoke) -> None:
    found = ledger(invoke, *GIVEN, "--bandwidth", "2TB/s")
    assert found["Decode step", "weights read"] == "13.04 GiB (14 GB)"
    assert found["Decode step", "KV read"] == "1.863 GiB (2 GB)"
    assert found["Decode step", "floor"] == "8 ms"
    assert found["Decode step", "ceiling"] == "125 tokens/s"
    assert found["Decode step", "achievable"] == "10 ms"
    assert found["Decode step", "achievable rate"] == "100 tokens/s"


def test_swap_route_against_hbm(invoke: Invoke) -> None:
    found = ledger(invoke, *GIVEN, "--bandwidth", "2TB/s", "--link", "64GB/s", "--host-bandwidth", "50GB/s")
    assert found["Swap route", "route"] == "50 GB/s"
    assert found["Swap route", "one sequence"] == "40 ms"
    assert found["Swap route", "in HBM"] == "1 ms"
    assert found["Swap route", "realistic"] == "80 ms"


def test_a_config_and_a_known_gpu_give_everything(invoke: Invoke) -> None:
    envelope = as_json(invoke, "--config", CONFIG, "--gpu", "L4 24GB", "--batch", "16", "--context", "1024")
    assert (envelope["schema"], envelope["command"], envelope["status"]) == (
        "kvcliff.result/1",
        "ledger",
        "ok",
    )
    data = envelope["data"]
    assert data["cannot_tell"] == []
    assert data["load"]["batch"] == 16
    assert data["settings"]["layers"] == "8"
    assert data["ledger"]["kv_bytes_per_token"] == 8192
    assert data["ledger"]["batch_bytes"] == 16 * 1024 * 8192
    assert data["ledger"]["memory_bytes"] == 24 * 2**30
    assert data["ledger"]["gpu_model"] == "L4 24GB"
    floor_ms = (data["ledger"]["step_weight_bytes"] + 16 * 1024 * 8192) / 3e11 * 1e3
    assert data["ledger"]["decode_floor_ms"] == pytest.approx(floor_ms)


def test_options_replace_values_of_the_config(invoke: Invoke) -> None:
    plain = as_json(invoke, "--config", CONFIG)["data"]["ledger"]["kv_bytes_per_token"]
    grouped = as_json(invoke, "--config", CONFIG, "--kv-heads", "2")["data"]["ledger"]
    assert grouped["kv_bytes_per_token"] == plain / 2
    halved = as_json(invoke, "--config", CONFIG, "--kv-dtype", "fp8")["data"]["ledger"]
    assert halved["kv_bytes_per_token"] == plain / 2


def test_ranks_share_the_model(invoke: Invoke) -> None:
    shape = ("--layers", "80", "--hidden", "8192", "--heads", "64", "--kv-heads", "8", "--weights", "140GB")
    found = as_json(invoke, *shape, "--tp", "8", "--gpu", "H100 SXM")["data"]["ledger"]
    assert found["model_kv_bytes_per_token"] == 8 * found["kv_bytes_per_token"]
    assert found["weight_bytes"] == 17_500_000_000
    assert found["collective_bytes"] == 2 * 80 * 8192 * 2 * 2 * 7 / 8


def test_a_mixture_says_how_many_experts_a_step_touches(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(BY_NAME["Mixtral-8x7B"]))
    found = ledger(invoke, "--config", path, "--gpu", "H200", "--batch", "4")
    assert found["Decode step", "experts touched"] == "5.47 of 8"
    assert found["Model", "active parameters"] == "12.9 billion"


def test_windows_and_states_have_their_lines(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(BY_NAME["gpt-oss-20b"]))
    assert ledger(invoke, "--config", path)["Model", "layers"] == "12 full, 12 window of 128 tokens"
    path.write_text(json.dumps(BY_NAME["Qwen3-Next-80B-A3B"]))
    found = ledger(invoke, "--config", path)
    assert found["Model", "layers"] == "12 full, 36 constant state"
    assert found["KV cache", "state"].startswith("73.69 MiB")


def test_capacity_of_a_gpu(invoke: Invoke) -> None:
    found = ledger(
        invoke, *GIVEN, "--memory", "20GB", "--utilization", "1", "--overhead", "1GB", "--block-size", "10"
    )
    assert found["Capacity of one GPU", "KV pool"] == "4.657 GiB (5 GB)"
    assert found["Capacity of one GPU", "tokens"] == "2,500"
    assert found["Capacity of one GPU", "blocks"] == "250"
    assert found["Capacity of one GPU", "requests"] == "2"


def test_what_cannot_be_told_is_named_with_the_option_that_would(invoke: Invoke) -> None:
    result = invoke("ledger", "--layers", "32", *MHA)
    assert result.exit_code == 0
    assert "Decode step" not in lines(result.stdout)
    assert "Cannot tell the decode floor and the capacity: neither the engine nor the shape" in result.stdout
    assert "(--gpu or --bandwidth)" in result.stdout
    envelope = as_json(invoke, "--layers", "32", *MHA)
    assert envelope["status"] == "partial"
    assert envelope["data"]["ledger"]["decode_floor_ms"] is None


def test_markdown(invoke: Invoke) -> None:
    result = invoke("ledger", *GIVEN, "--bandwidth", "2TB/s", "--format", "md")
    assert result.exit_code == 0
    assert "## Decode step\n\n| line | value | what it is |\n| --- | ---: | --- |\n" in result.stdout
    assert "\n| floor | 8 ms | " in result.stdout


def test_same_input_same_bytes(invoke: Invoke) -> None:
    arguments = ("ledger", "--config", CONFIG, "--gpu", "L4", "--format", "json")
    assert invoke(*arguments).stdout == invoke(*arguments).stdout


def test_a_context_beyond_the_model_is_warned_of(invoke: Invoke) -> None:
    result = invoke("ledger", "--config", CONFIG, "--context", "1000000")
    assert result.exit_code == 0
    assert "positions, 1,000,000 tokens are asked for" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "no model is given"),
        (("--layers", "0"), 2, "no whole number from 1 on"),
        (("--layers", "32", *MHA, "--gpu", "Brand New 9000"), 2, "not in the list of known parts"),
        (("--layers", "32", *MHA, "--gpu", "A100"), 2, "more than one GPU is called A100"),
        (("--layers", "32", *MHA, "--bandwidth", "fast"), 2, "is no amount"),
        (("--layers", "32", *MHA, "--bandwidth", "0"), 2, "out of range"),
        (("--config", "missing.json"), 2, "does not exist"),
        (("--layers", "32"), 4, "KV bytes per token cannot be told"),
        (("--layers", "32", *MHA, "--kv-dtype", "brand_new"), 4, "element type of the KV cache"),
    ],
)
def test_errors(invoke: Invoke, arguments: tuple[str, ...], code: int, words: str) -> None:
    result = invoke("ledger", *arguments)
    assert result.exit_code == code
    assert words in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no whole JSON file"),
        (b'{"num_hidden_layers": 3', "no whole JSON file"),
        (b"\xff\x00\x80garbage", "no whole JSON file"),
        (b"[1, 2]", "holds no model shape"),
        (b'{"model_type": "llama"}', "holds no model shape"),
    ],
)
def test_files_that_are_no_configuration(invoke: Invoke, tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    result = invoke("ledger", "--config", path)
    assert result.exit_code == 3
    assert words in result.stderr
    envelope = json.loads(invoke("ledger", "--config", path, "--format", "json").stdout)
    assert (envelope["status"], envelope["errors"][0]["code"]) == ("error", "input_unreadable")


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("14GB", 14e9),
        ("80GiB", 80 * 2**30),
        ("3.35TB/s", 3.35e12),
        ("989TFLOPS", 989e12),
        ("1e12", 1e12),
        ("512", 512),
        ("1.5 TB", 1.5e12),
    ],
)
def test_amounts(text: str, amount: float) -> None:
    assert Amount().convert(text, None, None) == amount


def test_help_ends_with_examples_that_run() -> None:
    text = CliRunner().invoke(root, ["ledger", "--help"]).output
    assert "Example:" in text
    assert "kvcliff ledger --config sample_traces/steady/config.json --gpu 'L4 24GB' --batch 16" in text
