"""Which text columns of a run may leave it in a bundle, and in what form; all that is not named here stays.

Numbers, booleans and times leave as they are: they hold no text. A text column leaves only when it stands
here.
"""

from typing import Literal

#: ``word``: closed vocabularies of ours. ``ours``: texts that ship with kvcliff. ``sentence``: sentences of
#: ours, in which file names become roles. ``level``, ``replica``, ``scope``, ``path``: names from folders and
#: files, numbered. ``kernel``: names of kernels of a known family, the others numbered. ``setting``: values
#: that name no place, person or model. ``labels``: whether the run is synthetic, nothing else.
Treatment = Literal[
    "word",
    "ours",
    "sentence",
    "level",
    "replica",
    "scope",
    "path",
    "kernel",
    "setting",
    "product",
    "hash",
    "labels",
]

_WORDS = (
    "advice",
    "basis",
    "bubble_cause",
    "cache_state",
    "capability",
    "cause",
    "class",
    "compute_capability",
    "counter",
    "direction",
    "dated_by",
    "e_proof",
    "evidence",
    "family",
    "hit_basis",
    "indicator",
    "kind",
    "l2_reuse",
    "l_status",
    "label_kind",
    "line",
    "load_kind",
    "mechanism",
    "method",
    "metric",
    "mode",
    "peak_basis",
    "phase",
    "proof",
    "quality",
    "reader",
    "role",
    "scope",
    "semantics",
    "source_memory",
    "state",
    "status",
    "step_class",
    "target_memory",
    "tier",
    "topic",
    "unit",
    "verdict",
    "warning",
    "warnings",
)
#: Treatment by column name, whatever the table.
BY_COLUMN: dict[str, Treatment] = {
    **dict.fromkeys(_WORDS, "word"),
    "level": "level",
    "sweep": "level",
    "replica": "replica",
    "replica_id": "replica",
    "path": "path",
    "short_name": "kernel",
    "name": "kernel",
    "gpu_name": "product",
    "sha256": "hash",
    "meaning": "sentence",
    "origin": "sentence",
    "l_reason": "sentence",
    "note": "sentence",
    "assumption": "sentence",
    "reuse_origin": "sentence",
    "step_reason": "sentence",
    "first_source": "sentence",
    "second_source": "sentence",
    "kvcliff_version": "word",
}
#: Where a name means something else, or nothing may leave.
BY_TABLE: dict[tuple[str, str], Treatment | None] = {
    ("runs", "name"): None,
    ("settings", "name"): "word",
    ("settings", "scope"): "scope",
    ("settings", "value"): "setting",
    ("client_totals", "name"): "word",
    ("server_latencies", "name"): "word",
    ("server_latencies", "label"): "word",
    ("concurrency_knee", "reason"): "sentence",
    ("captures", "reason"): "sentence",
    ("advice", "reason"): "sentence",
    ("predictions", "reason"): "sentence",
    ("thresholds", "name"): "ours",
    ("thresholds", "meaning"): "ours",
    ("thresholds", "source"): "ours",
    ("counter_warnings", "meaning"): "ours",
    ("runs", "labels"): "labels",
}
#: Numbers that would make two bundles of the same run differ.
LEFT_OUT = frozenset({("runs", "ingested_at_ns")})
#: Settings whose text is a choice among published words or the name of a product.
OPEN_SETTINGS = frozenset(
    (
        "attention_backend",
        "block_size",
        "cuda_graph_mode",
        "device_type",
        "dtype",
        "engine",
        "engine_generation",
        "engine_version",
        "gpu_name",
        "kv_cache_dtype",
        "kv_offloading_backend",
        "model_type",
        "preemption_mode",
        "quantization",
        "scheduling_policy",
    )
)


def treatment_of(table: str, column: str) -> Treatment | None:
    """Return how a text column leaves the run, or ``None`` when it does not."""
    return BY_TABLE[table, column] if (table, column) in BY_TABLE else BY_COLUMN.get(column)
