"""Distinct metric series of a source: their identity, kind and device, and what their labels state."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from kvcliff.readers.json_values import whole_text
from kvcliff.readers.metric_families import (
    DeviceCounter,
    canonical_name,
    dcgm_counter,
    known_kind,
)
from kvcliff.readers.settings import Setting, without_folders

CACHE_CONFIG_NAMES: Final = ("vllm:cache_config_info", "vllm:cache_config")
#: Labels that tell series of one name apart and hold words of the engine, never of a user.
_KEPT_LABELS: Final = (
    "engine_type",
    "finished_reason",
    "general_type",
    "inflight_batcher_specific_metric",
    "kv_cache_block_type",
    "mode",
    "moe_ep_rank",
    "operation",
    "outcome",
    "overlap",
    "position",
    "pp_rank",
    "reason",
    "request_type",
    "sleep_state",
    "source",
    "stage",
    "tier",
    "tp_rank",
    "transfer_type",
)
#: Values that every series of an ordinary server carries; they tell nothing apart.
_DEFAULT_LABELS: Final = {"engine_type": "unified", "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}
_TEXT_LIMIT: Final = 200
_KINDS: Final = ("counter", "gauge", "histogram")
_PARTS: Final = ("_bucket", "_count", "_sum", "_total")


@dataclass(frozen=True)
class Series:
    """One row of ``raw_metric_series``; for a device counter, the device and counter instead."""

    name: str
    kind: str
    engine: str
    model: str | None
    instance: str | None
    le: float | None
    label: str | None
    device_id: int | None = None
    counter: DeviceCounter | None = None


class SeriesTable:
    """All series of a source, numbered as they appear."""

    def __init__(self) -> None:
        self._rows: list[Series] = []
        self._ids: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._kinds: dict[str, str] = {}
        self._devices: dict[tuple[str, str, str], int] = {}
        self._written = 0

    def __len__(self) -> int:
        return len(self._rows)

    def set_kind(self, family: str, kind: str) -> None:
        """Remember what a TYPE line says about a family; the first word stays."""
        if kind in _KINDS and _is_known_family(canonical_name(family)):
            self._kinds.setdefault(canonical_name(family), kind)

    def series_id(self, exposed: str, labels: Mapping[str, str]) -> int | None:
        """Return the number of a series, a new one for a new series, ``None`` for one that is not read."""
        name = canonical_name(exposed)
        key = (name, tuple(sorted(labels.items())))
        if key in self._ids:
            return self._ids[key]
        counter = dcgm_counter(name)
        if counter is None and known_kind(name) is None:
            return None
        self._ids[key] = len(self._rows)
        self._rows.append(self._row(name, labels, counter))
        return self._ids[key]

    def _row(self, name: str, labels: Mapping[str, str], counter: DeviceCounter | None) -> Series:
        """Return the series as it is stored."""
        kept = [
            f"{key}={labels[key]}"
            for key in _KEPT_LABELS
            if key in labels and labels[key] != _DEFAULT_LABELS.get(key)
        ]
        model = labels.get("model_name") or labels.get("model")
        return Series(
            name=name,
            kind=self._kind(name),
            engine=(labels.get("engine") or labels.get("dp_rank") or "0")[:_TEXT_LIMIT],
            model=without_folders(model)[:_TEXT_LIMIT] if model else None,
            instance=(labels.get("instance") or labels.get("pod") or "")[:_TEXT_LIMIT] or None,
            le=_bound(labels.get("le")),
            label=",".join(kept)[:_TEXT_LIMIT] or None,
            device_id=None if counter is None else self._device_id(labels),
            counter=counter,
        )

    def _kind(self, name: str) -> str:
        """Return the kind that a TYPE line states for the series or its family, else the known one."""
        bases = [name, *(name.removesuffix(part) for part in _PARTS if name.endswith(part))]
        stated = next((self._kinds[base] for base in bases if base in self._kinds), None)
        return stated or known_kind(name) or "unknown"

    def _device_id(self, labels: Mapping[str, str]) -> int:
        """Return the GPU index; GPUs of further hosts and MIG instances get the next free numbers."""
        host = labels.get("Hostname") or labels.get("hostname") or labels.get("instance") or ""
        key = (host, labels.get("gpu", ""), labels.get("GPU_I_ID", ""))
        if key not in self._devices:
            taken = set(self._devices.values())
            stated = int(key[1]) if key[1].isdecimal() and len(key[1]) < 5 else 0
            free = next(number for number in range(len(taken) + 1) if number not in taken)
            self._devices[key] = free if stated in taken else stated
        return self._devices[key]

    def take_new_frame(self) -> pl.DataFrame:
        """Return the engine series added since the last call, as rows of ``raw_metric_series``."""
        new = [
            (number, row)
            for number, row in enumerate(self._rows)
            if number >= self._written and row.counter is None
        ]
        self._written = len(self._rows)
        columns = {
            "series_id": pl.Series([number for number, _ in new], dtype=pl.Int32),
            "le": pl.Series([row.le for _, row in new], dtype=pl.Float64),
        }
        for name in ("name", "kind", "engine", "model", "instance", "label"):
            texts: list[str | None] = [getattr(row, name) for _, row in new]
            columns[name] = pl.Series([text and whole_text(text) for text in texts], dtype=pl.String)
        return pl.DataFrame(columns)

    def device_frame(self) -> pl.DataFrame:
        """Return device, counter and factor of each device series (and whether that is in doubt)."""
        rows = [
            (number, row, row.counter) for number, row in enumerate(self._rows) if row.counter is not None
        ]
        return pl.DataFrame(
            {
                "series_id": pl.Series([number for number, _, _ in rows], dtype=pl.Int32),
                "device_id": pl.Series([row.device_id for _, row, _ in rows], dtype=pl.Int32),
                "counter": pl.Series([counter.counter for _, _, counter in rows], dtype=pl.String),
                "factor": pl.Series([counter.factor for _, _, counter in rows], dtype=pl.Float64),
                "is_ratio_or_pct": pl.Series(
                    [counter.is_ratio_or_pct for _, _, counter in rows], dtype=pl.Boolean
                ),
            }
        )


def _is_known_family(family: str) -> bool:
    """Return whether the allow-list holds this family, with or without ``_total`` or ``_bucket``."""
    return any(known_kind(family + part) is not None for part in ("", "_total", "_bucket"))


def _bound(text: str | None) -> float | None:
    """Return the upper bound of a histogram bucket."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return None


#: vLLM's labels of ``cache_config_info`` and the settings they state.
_CACHE_CONFIG_SETTINGS: Final = (
    ("block_size", "block_size"),
    ("num_gpu_blocks", "num_gpu_blocks"),
    ("num_cpu_blocks", "num_cpu_blocks"),
    ("gpu_memory_utilization", "gpu_memory_utilization"),
    ("enable_prefix_caching", "enable_prefix_caching"),
    ("sliding_window", "sliding_window"),
    ("cache_dtype", "kv_cache_dtype"),
    ("kv_cache_size_tokens", "kv_cache_tokens"),
    ("kv_cache_memory_bytes", "kv_cache_bytes"),
    ("swap_space_bytes", "swap_space_bytes"),
    ("kv_offloading_backend", "kv_offloading_backend"),
)
_ABSENT: Final = ("", "None", "null")
_WORD_LIMIT: Final = 40


def cache_config_settings(labels: Mapping[str, str], line_no: int) -> list[Setting]:
    """Return the settings that a ``cache_config_info`` series states in its labels."""
    engine = labels.get("engine", "0")
    scope = "" if engine == "0" else engine
    return [
        Setting(line_no, scope, name, _setting_text(labels[label]))
        for label, name in _CACHE_CONFIG_SETTINGS
        if labels.get(label, "") not in _ABSENT and len(labels[label]) <= _WORD_LIMIT
    ]


def _setting_text(value: str) -> str:
    """Return a label value as a setting; Python's booleans become lower case."""
    return value.lower() if value in {"True", "False"} else value
