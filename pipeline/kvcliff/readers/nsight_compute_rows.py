"""Rows of the kernel counter tables on their way to the sink."""

import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from kvcliff.readers.base import Sink
from kvcliff.readers.nsight_compute_session import CounterSession
from kvcliff.readers.range_names import is_allowed

TABLES: Final = (
    "raw_counter_sessions",
    "raw_counter_kernels",
    "raw_counter_metrics",
    "raw_counter_values",
    "raw_counter_devices",
)
DEVICE_PREFIX: Final = "device__attribute_"
NAME_LIMIT: Final = 4000
_NVTX_LIMIT: Final = 200
_TEXT_LIMIT: Final = 80

#: Ranges that scripts put around a phase for the profiler: decode_batch, prefill_c16, scheduler_step ...
_STAGE: Final = re.compile(
    r"(?:decode|prefill|mixed|warmup|sampling|scheduler|step|engine|model)"
    r"(?:[_.-](?:decode|prefill|mixed|batch|step|phase|forward|(?:c|bs|b|n)?\d{1,6}))*"
)
KERNEL_SCHEMA: Final = {
    "kernel_no": pl.Int64(),
    "profile_id": pl.Int64(),
    "device_id": pl.Int32(),
    "context_id": pl.Int32(),
    "stream_id": pl.Int32(),
    "name": pl.String(),
    "nvtx_path": pl.String(),
    "compute_capability": pl.String(),
    "scope": pl.String(),
    "grid_x": pl.Int32(),
    "grid_y": pl.Int32(),
    "grid_z": pl.Int32(),
    "block_x": pl.Int32(),
    "block_y": pl.Int32(),
    "block_z": pl.Int32(),
    "launch_count": pl.Int64(),
    "is_clock_locked": pl.Boolean(),
}
VALUE_SCHEMA: Final = {
    "kernel_no": pl.Int64(),
    "metric": pl.String(),
    "unit": pl.String(),
    "value": pl.Float64(),
    "quality": pl.String(),
}
_METRIC_SCHEMA: Final = {"metric": pl.String(), "unit": pl.String(), "metric_no": pl.Int32()}
_DEVICE_SCHEMA: Final = {
    "device_id": pl.Int32(),
    "attribute": pl.String(),
    "text": pl.String(),
    "value": pl.Float64(),
}
_INNERMOST: Final = re.compile(r"<[^<>]*>")
_UNNAMED: Final = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\(anonymous class\)::")


def short_kernel_name(name: str) -> str:
    """Return a kernel's name without return type, namespaces, template arguments and parameters."""
    bare = _UNNAMED.sub("", name[:NAME_LIMIT])
    shorter = _INNERMOST.sub("", bare)
    while shorter != bare:
        bare, shorter = shorter, _INNERMOST.sub("", shorter)
    words = bare.split("(", 1)[0].split()
    # The tool can put NVTX ranges in front of the name, with slashes.
    last = words[-1].rpartition("::")[2].rpartition("/")[2] if words else ""
    return (last or name)[:_NVTX_LIMIT]


def nvtx_path(names: Sequence[str]) -> str | None:
    """Return the NVTX ranges that name a step or stage as one path, outermost first, or ``None``.

    Other texts may hold prompts or paths and stay in the file.
    """
    kept = [name for name in names if len(name) <= _TEXT_LIMIT and _is_stage(name)]
    return "/".join(kept)[:_NVTX_LIMIT] or None


def _is_stage(name: str) -> bool:
    """Return whether a range's text may be kept."""
    return _STAGE.fullmatch(name) is not None or is_allowed(name)


class CounterRows:
    """Writes kernels, values and device attributes of one file, and its session at the end."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._devices: set[tuple[int, str]] = set()
        self._metrics: dict[tuple[str, str], int] = {}
        self.kernel_count = 0
        self.row_count = 0

    def add_kernels(self, frame: pl.DataFrame) -> None:
        """Write kernels; ``short_name`` is made from ``name``."""
        short = {name: short_kernel_name(name) for name in frame["name"].unique().to_list() if name}
        named = frame.with_columns(
            pl.col("name").replace_strict(short, default="", return_dtype=pl.String).alias("short_name"),
            pl.col("name").str.slice(0, NAME_LIMIT),
        )
        self.kernel_count += named.height
        self.row_count += self._sink.append("raw_counter_kernels", named)

    def metric_no(self, metric: str, unit: str) -> int:
        """Return the number of a metric in its base unit; it is written at the end."""
        return self._metrics.setdefault((metric, unit), len(self._metrics))

    def add_named_values(self, frame: pl.DataFrame) -> None:
        """Write values whose metric and unit stand as texts."""
        pairs = frame.select("metric", "unit").unique(maintain_order=True).rows()
        numbers = [(metric, unit, self.metric_no(metric, unit)) for metric, unit in pairs]
        named = pl.DataFrame(numbers, schema=_METRIC_SCHEMA, orient="row")
        together = frame.join(named, on=("metric", "unit"), how="left", maintain_order="left")
        self.add_values(together.select("kernel_no", "metric_no", "value", "quality"))

    def add_values(self, frame: pl.DataFrame) -> None:
        """Write values whose metric stands as its number."""
        self.row_count += self._sink.append("raw_counter_values", frame)

    def add_device(self, device_id: int, metric: str, value: float | None, text: str | None) -> None:
        """Write an attribute of a device when it is met for the first time."""
        attribute = metric.removeprefix(DEVICE_PREFIX)
        key = (device_id, attribute)
        if key in self._devices or (value is None and attribute != "display_name"):
            return
        self._devices.add(key)
        name = text[:_TEXT_LIMIT] if text is not None and attribute == "display_name" else None
        frame = pl.DataFrame([(device_id, attribute, name, value)], schema=_DEVICE_SCHEMA, orient="row")
        self.row_count += self._sink.append("raw_counter_devices", frame)

    def finish(self, session: CounterSession) -> None:
        """Write the metrics and the session."""
        if self._metrics:
            rows = [(metric, unit, number) for (metric, unit), number in self._metrics.items()]
            named = pl.DataFrame(rows, schema=_METRIC_SCHEMA, orient="row")
            self.row_count += self._sink.append("raw_counter_metrics", named)
        self.row_count += self._sink.append("raw_counter_sessions", session.frame())
