"""Options of ``kvcliff ledger``: the shape of a model, the GPU, the load and how ranks share them."""

import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from kvcliff.cli.options import option

_AMOUNT = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:e\+?\d{1,2})?)\s*(?P<scale>[kKMGTP]?)(?P<binary>i?)(?:B|FLOPS?)?(?:/s)?"
)
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_LIMIT = 1e21


class Amount(click.ParamType[float]):
    """A number with or without a unit: ``14GB`` is 14e9, ``80GiB`` 80 x 2^30, ``3.35TB/s`` 3.35e12."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the amount in bytes, bytes per second or FLOP/s."""
        match = _AMOUNT.fullmatch(str(value).strip())
        if match is None or (match["binary"] and not match["scale"]):
            self.fail(f"{value} is no amount; write 14GB, 80GiB or 3.35TB/s", param, ctx)
        base = 1024 if match["binary"] else 1000
        amount = float(match["number"]) * float(base ** _POWERS[match["scale"]])
        if not 0 < amount < _LIMIT:
            self.fail(f"{value} is out of range", param, ctx)
        return amount


class Count(click.ParamType[int]):
    """A whole number from 1 on, small enough to reckon with."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        text = str(value).strip().replace("_", "")
        if not text.isdecimal() or not 0 < len(text) <= 12 or int(text) < 1:
            self.fail(f"{value} is no whole number from 1 on", param, ctx)
        return int(text)


_COUNT = Count()
_AMOUNT_TYPE = Amount()


def _count(flag: str, help_text: str) -> Callable[[Any], Any]:
    return option(flag, type=_COUNT, default=None, metavar="N", help=help_text)


def _amount(flag: str, help_text: str) -> Callable[[Any], Any]:
    return option(flag, type=_AMOUNT_TYPE, default=None, metavar="SIZE", help=help_text)


#: Shape flags and the canonical setting that each one states.
SHAPE_SETTINGS: tuple[tuple[str, str, str], ...] = (
    ("--layers", "layers", "Transformer layers."),
    ("--hidden", "hidden_size", "Hidden size."),
    ("--heads", "attention_heads", "Query heads."),
    ("--kv-heads", "kv_heads", "Key/value heads (GQA, MQA); without it as many as query heads."),
    ("--head-dim", "head_dim", "Elements per head; without it hidden size / query heads."),
    ("--intermediate", "intermediate_size", "Feed-forward width."),
    ("--vocab", "vocab_size", "Vocabulary."),
    ("--window", "sliding_window", "Sliding attention window in tokens."),
    ("--window-layers", "sliding_window_layers", "Layers with that window; without it all."),
    ("--kv-lora-rank", "kv_lora_rank", "Latent width of multi-head latent attention (MLA)."),
    ("--rope-dim", "qk_rope_head_dim", "Rotary width of MLA keys."),
    ("--experts", "num_experts", "Routed experts per layer."),
    ("--experts-per-token", "experts_per_token", "Experts that a token uses."),
    ("--expert-intermediate", "expert_intermediate_size", "Feed-forward width of one expert."),
)
_MODEL_OPTIONS = (
    option(
        "--model-config",
        "--config",
        "config_path",
        type=click.Path(path_type=Path, dir_okay=False, exists=True, readable=False),
        default=None,
        help="The model's config.json (Hugging Face). Shape options replace single values of it.",
    ),
    *(_count(flag, text) for flag, _, text in SHAPE_SETTINGS),
    option(
        "--family",
        default="llama",
        help="Architecture family (model_type) when there is no config.json; decides the feed-forward kind.",
    ),
    _amount("--weights", "Memory of all weights; without it computed from the shape."),
    _amount("--kv-per-token", "KV cache of one token; without it computed from the shape."),
    option("--dtype", default=None, help="Element type of weights and activations.  [default: bfloat16]"),
    option(
        "--kv-dtype", default=None, help="Element type of the KV cache (fp8, int4 ...).  [default: --dtype]"
    ),
)
_GPU_OPTIONS = (
    option("--gpu", default=None, help="GPU by name; its size and rates come from the table of known parts."),
    _amount("--bandwidth", "Peak memory bandwidth of one GPU, per second."),
    _amount("--memory", "Memory of one GPU."),
    _amount("--flops", "Peak dense FLOP/s of one GPU in the model's element type."),
    _amount("--link", "Host link (PCIe, NVLink-C2C) in one direction, per second."),
    _amount("--host-bandwidth", "Memory bandwidth of the host, per second."),
)
_LOAD_OPTIONS = (
    option(
        "--context", type=_COUNT, default=4096, metavar="TOKENS", help="Tokens of one sequence in the cache."
    ),
    option(
        "--prompt",
        type=_COUNT,
        default=None,
        metavar="TOKENS",
        help="Prompt to prefill.  [default: --context]",
    ),
    option("--batch", type=_COUNT, default=1, metavar="N", help="Sequences that decode together."),
    option("--block-size", type=_COUNT, default=16, metavar="TOKENS", help="Tokens per KV block."),
    option("--tp", type=_COUNT, default=1, metavar="N", help="Tensor-parallel ranks."),
    option("--pp", type=_COUNT, default=1, metavar="N", help="Pipeline-parallel ranks."),
    option(
        "--ep", type=_COUNT, default=None, metavar="N", help="Ranks that share the experts.  [default: --tp]"
    ),
    option(
        "--utilization",
        type=click.FloatRange(0, 1, min_open=True),
        default=0.9,
        metavar="RATIO",
        help="Share of the GPU memory that the engine may take.",
    ),
    _amount("--overhead", "Memory of one GPU for activations, CUDA graphs and driver; without it none."),
)


def ledger_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with all options of the calculator, in the order of its help."""
    decorators = (*_MODEL_OPTIONS, *_GPU_OPTIONS, *_LOAD_OPTIONS)
    return reduce(lambda decorated, decorate: decorate(decorated), reversed(decorators), command)
