import json
from pathlib import Path

import pytest

from builders_metrics import CORPUS, GARBAGE, NO_CORPUS, read, source_of
from kvcliff.readers.base import Source
from kvcliff.readers.model_config import READER
from kvcliff.readers.model_shape import model_shape

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
    "max_position_embeddings": 131072,
    "_name_or_path": "/home/somebody/private",
}


def test_grouped_query_model(tmp_path: Path) -> None:
    source = source_of(tmp_path, "config.json", json.dumps(LLAMA))
    assert READER.sniff(source).score == 90
    sink, report = read(READER, source)
    assert {name: value for (_, name), value in sink.settings().items()} == {
        "model_type": "llama",
        "layers": "32",
        "hidden_size": "4096",
        "attention_heads": "32",
        "kv_heads": "8",
        "head_dim": "128",
        "intermediate_size": "14336",
        "vocab_size": "128256",
        "dtype": "bfloat16",
        "tie_word_embeddings": "false",
        "max_position_embeddings": "131072",
    }
    assert (report.damage, report.skipped_count) == (None, 0)


def test_defaults_and_explicit_head_dim() -> None:
    plain = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert model_shape(plain)["kv_heads"] == "32"
    assert model_shape({**LLAMA, "head_dim": 64})["head_dim"] == "64"
    assert model_shape({**LLAMA, "head_dim": None})["head_dim"] == "128"
    assert "head_dim" not in model_shape({**LLAMA, "hidden_size": 4095})
    assert model_shape({**plain, "multi_query": True})["kv_heads"] == "1"


def test_latent_attention_experts_windows_and_quantisation() -> None:
    deepseek = {
        **LLAMA,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "sliding_window": 4096,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }
    shape = model_shape(deepseek)
    assert (shape["kv_lora_rank"], shape["qk_rope_head_dim"]) == ("512", "64")
    assert (shape["num_experts"], shape["experts_per_token"]) == ("256", "8")
    assert (shape["sliding_window"], shape["quantization"]) == ("4096", "fp8")
    assert "sliding_window" not in model_shape({**deepseek, "use_sliding_window": False})
    assert "sliding_window" not in model_shape({**LLAMA, "sliding_window": None})


def test_inner_text_model_and_old_spellings() -> None:
    assert model_shape({"model_type": "llava", "text_config": LLAMA})["layers"] == "32"
    gpt2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024}
    shape = model_shape(gpt2)
    assert (shape["layers"], shape["hidden_size"], shape["kv_heads"], shape["head_dim"]) == (
        "12",
        "768",
        "12",
        "64",
    )


def test_values_of_the_wrong_kind_are_left_out() -> None:
    shape = model_shape(
        {**LLAMA, "num_hidden_layers": "many", "hidden_size": True, "num_attention_heads": -3}
    )
    assert not {"layers", "hidden_size", "attention_heads", "head_dim"} & set(shape)


def test_cut_file(tmp_path: Path) -> None:
    source = source_of(tmp_path, "config.json", json.dumps(LLAMA)[:-40])
    _, report = read(READER, source)
    assert report.row_count == 0
    assert report.damage is not None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        GARBAGE,
        b"{}",
        b"[1]",
        b'{"model_type": "llama"}',
        b'{"model_id": "m", "num_hidden_layers": 3}',
        b'"model_type"',
    ],
)
def test_foreign_files_are_refused_and_do_no_harm(tmp_path: Path, content: bytes) -> None:
    source = source_of(tmp_path, "config.json", content)
    assert READER.sniff(source).score == 0
    read(READER, source)


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_only_configurations_of_the_corpus_are_claimed() -> None:
    paths = sorted(CORPUS.rglob("*.json"))
    claimed = {path.name for path in paths if READER.sniff(Source(path, path.name)).score}
    assert claimed == {"config.json"}
    path = CORPUS / "serving_runs" / "vllm_cpu" / "steady" / "config.json"
    sink, _ = read(READER, Source(path, path.name))
    shape = {name: value for (_, name), value in sink.settings().items()}
    assert (shape["layers"], shape["kv_heads"], shape["head_dim"], shape["dtype"]) == (
        "8",
        "4",
        "64",
        "bfloat16",
    )
