"""``kvcliff ledger``: the capacity and bandwidth calculator, without any trace."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvcliff.cli.ledger_options import SHAPE_SETTINGS, ledger_options
from kvcliff.cli.options import example, format_option
from kvcliff.cli.output import Envelope, format_table, say, say_lines, say_raw, warn
from kvcliff.errors import CannotAnswerError, InputError, UsageProblem

if TYPE_CHECKING:
    from kvcliff.cli.ledger_output import LedgerSection
    from kvcliff.store.calculator import Ledger, Load

_CONFIG_LIMIT_BYTES = 4 << 20
_SHAPE_HINT = "give --config config.json, or --layers, --kv-heads and --head-dim (or --hidden and --heads)"


@click.command(
    epilog=example(
        "kvcliff ledger --config sample_traces/steady/config.json --gpu 'L4 24GB' --batch 16",
        "kvcliff ledger --layers 32 --hidden 4096 --heads 32 --weights 14GB --bandwidth 2TB/s",
    )
)
@ledger_options
@format_option("text", "json", "md")
def ledger(output_format: str, **given: Any) -> None:
    """Compute KV cache, decode and prefill floors and capacity of a model.

    Needs no trace: a model (config.json or shape options), a GPU and a load are enough. The figures are
    floors and ceilings by the same formulas as the ledgers of a report; what the options do not
    determine is named, not guessed.
    """
    from kvcliff.cli.ledger_output import ledger_sections, unknown_reasons
    from kvcliff.store.calculator import Load, calculate

    settings = _settings(given)
    load = Load(
        context_tokens=given["context"],
        prompt_tokens=given["prompt"] or given["context"],
        batch=given["batch"],
        block_tokens=given["block_size"],
        limit_ratio=given["utilization"],
        other_bytes=round(given["overhead"] or 0),
    )
    _warn_of_length(settings, load)
    found = calculate(settings, load)
    if found.kv_bytes_per_token is None:
        raise CannotAnswerError(f"KV bytes per token cannot be told: {found.kv_reason}", hint=_SHAPE_HINT)
    unknown = unknown_reasons(found)
    if output_format == "json":
        say_raw(Envelope("ledger", _data(settings, load, found, unknown), _status(unknown)).to_json())
        return
    sections = ledger_sections(found, load)
    if output_format == "md":
        say_raw(_markdown(sections, unknown))
    else:
        _say_text(sections, unknown)


def _warn_of_length(settings: dict[str, str], load: "Load") -> None:
    longest = int(settings.get("max_position_embeddings", 0))
    asked = max(load.context_tokens, load.prompt_tokens)
    if 0 < longest < asked:
        warn(f"the model knows {longest:,} positions, {asked:,} tokens are asked for")


def _status(unknown: tuple[str, ...]) -> Any:
    return "partial" if unknown else "ok"


def _settings(given: dict[str, Any]) -> dict[str, str]:
    """Return the canonical settings that file and options state; options win."""
    from kvcliff.store.calculator import find_gpu

    settings = _config_settings(given["config_path"]) if given["config_path"] is not None else {}
    stated = {name: given[_parameter(flag)] for flag, name, _ in SHAPE_SETTINGS}
    settings.update({name: str(value) for name, value in stated.items() if value is not None})
    if given["weights"] is None and given["kv_per_token"] is None and "layers" not in settings:
        raise UsageProblem("no model is given", hint=_SHAPE_HINT)
    heads, width = int(settings.get("attention_heads", 0)), int(settings.get("hidden_size", 0))
    if heads:
        settings.setdefault("kv_heads", str(heads))
        if width % heads == 0 and width:
            settings.setdefault("head_dim", str(width // heads))
    settings.setdefault("model_type", given["family"])
    settings.setdefault("dtype", "bfloat16")
    settings["gpu_name"] = find_gpu(given["gpu"]) if given["gpu"] is not None else ""
    optional = {
        "dtype": given["dtype"],
        "kv_cache_dtype": given["kv_dtype"],
        "weight_bytes": given["weights"],
        "kv_bytes_per_token": given["kv_per_token"],
        "hbm_bytes_per_s": given["bandwidth"],
        "gpu_memory_bytes": given["memory"],
        "peak_flops_per_s": given["flops"],
        "pcie_bytes_per_s": given["link"],
        "host_memory_bytes_per_s": given["host_bandwidth"],
        "tensor_parallel_size": given["tp"],
        "pipeline_parallel_size": given["pp"],
        "expert_parallel_size": given["ep"],
    }
    settings.update({name: _plain(value) for name, value in optional.items() if value is not None})
    return {name: value for name, value in settings.items() if value}


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _plain(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _config_settings(path: Path) -> dict[str, str]:
    """Return the settings of a model's configuration.

    Raises:
        InputError: the file cannot be read, is no JSON object or holds no model shape.
    """
    from kvcliff.readers.model_shape import model_shape

    hint = "give the model's config.json, or shape options such as --layers and --kv-heads"
    try:
        with path.open("rb") as stream:
            config = json.loads(stream.read(_CONFIG_LIMIT_BYTES))
    except OSError as exc:
        raise InputError(
            f"cannot read {path}: {exc.strerror or type(exc).__name__}", hint="check its permissions"
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise InputError(f"{path} is no whole JSON file", hint=hint) from exc
    shape = model_shape(config) if isinstance(config, dict) else {}
    if "layers" not in shape:
        raise InputError(f"{path} holds no model shape (layers are not stated)", hint=hint)
    return shape


def _data(
    settings: dict[str, str], load: "Load", found: "Ledger", unknown: tuple[str, ...]
) -> dict[str, Any]:
    from kvcliff.cli.ledger_output import whole_numbers

    return {
        "settings": settings,
        "load": asdict(load),
        "ledger": whole_numbers(asdict(found)),
        "cannot_tell": list(unknown),
    }


def _say_text(sections: "tuple[LedgerSection, ...]", unknown: tuple[str, ...]) -> None:
    for number, section in enumerate(sections):
        if number:
            say("")
        say(section.title, bold=True)
        say_lines(format_table(("line", "value", "what it is"), section.rows))
    for reason in unknown:
        say("")
        say(f"Cannot tell {reason}.")


def _markdown(sections: "tuple[LedgerSection, ...]", unknown: tuple[str, ...]) -> str:
    from kvcliff.report.escape import markdown_text

    blocks = []
    for section in sections:
        rows = (("line", "value", "what it is"), ("---", "---:", "---"), *section.rows)
        lines = [
            "| " + " | ".join(cell if number == 1 else markdown_text(cell) for cell in row) + " |"
            for number, row in enumerate(rows)
        ]
        blocks.append(f"## {section.title}\n\n" + "\n".join(lines))
    blocks.extend(f"Cannot tell {markdown_text(reason)}." for reason in unknown)
    return "\n\n".join(blocks) + "\n"
