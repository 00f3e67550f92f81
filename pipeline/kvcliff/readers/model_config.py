"""Reader of a model's ``config.json`` (Hugging Face): the shape that decides KV bytes per token."""

import json
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.model_shape import model_shape
from kvcliff.readers.settings import Setting, settings_frame

_SIZE_LIMIT_BYTES: Final = 4 << 20
_SHAPE_KEYS: Final = ("num_hidden_layers", "n_layer", "num_layers")
_WIDTH_KEYS: Final = ("hidden_size", "n_embd", "d_model")


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like a model configuration."""
    head = source.head
    if head.lstrip()[:1] != b"{" or b'"model_type"' not in head:
        return NO_MATCH
    has_shape = any(f'"{key}"'.encode() in head for key in _SHAPE_KEYS)
    has_width = any(f'"{key}"'.encode() in head for key in _WIDTH_KEYS)
    if has_shape and has_width and len(head) < _SIZE_LIMIT_BYTES:
        return Sniff(90, "model configuration (config.json)")
    return NO_MATCH


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read the configuration into ``raw_settings``."""
    with source.open() as stream:
        text = stream.read(_SIZE_LIMIT_BYTES).decode("utf-8", "replace")
        damage = stream.damage
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return LoadReport(0, damage=damage or "the JSON object ends or breaks early; nothing of it was used")
    if not isinstance(config, dict):
        return LoadReport(0, damage="the file is JSON, but no object")
    shape = model_shape(config)
    settings = [Setting(1, "", name, shape[name]) for name in sorted(shape)]
    row_count = sink.append("raw_settings", settings_frame(settings)) if settings else 0
    return LoadReport(row_count, damage=damage)


READER = Reader(
    name="model_config",
    title="model configuration (Hugging Face config.json)",
    tables=("raw_settings",),
    sniff=_sniff,
    load=_load,
    role="model",
    tried_on_real_files=True,
)
