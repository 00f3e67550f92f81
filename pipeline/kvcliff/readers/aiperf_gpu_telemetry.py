"""Reader of AIPerf's ``gpu_telemetry_export.jsonl``: one record per GPU and sample."""

import json
from collections.abc import Mapping
from typing import Final

import polars as pl

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, SkipCount, Sniff, Source
from kvcliff.readers.csv_text import text_lines
from kvcliff.readers.json_values import count, label, members_of, nanoseconds, number
from kvcliff.readers.metric_families import is_dcgm_blank
from kvcliff.readers.settings import Setting, settings_frame

_MARKS: Final = (b'"timestamp_ns"', b'"gpu_index"', b'"telemetry_data"')
_FLUSH_SAMPLES: Final = 200_000
_DEVICE_LIMIT: Final = 4096
#: AIPerf's names without their prefixes, the canonical counters, and what to multiply with: it writes W, %,
#: degrees, GB and MJ.
_COUNTERS: Final[Mapping[str, tuple[str, float]]] = {
    "power_usage": ("power_w", 1.0),
    "energy_consumption": ("energy_total_j", 1e6),
    "utilization": ("gpu_busy_pct", 1.0),
    "memory_used": ("memory_used_bytes", 1e9),
    "temperature": ("temperature_c", 1.0),
    "mem_utilization": ("mem_busy_pct", 1.0),
    "memory_utilization": ("mem_busy_pct", 1.0),
    "sm_utilization": ("sm_active_pct", 1.0),
    "xid_errors": ("xid_error_code", 1.0),
}
#: The driver's own counter of this name is the share of time with any kernel, not of busy multiprocessors.
_DRIVER_SOURCE: Final = "pynvml:"
_BUSY_SM: Final = "sm_active_pct"


def _sniff(source: Source) -> Sniff:
    """Return whether the head begins with such a record."""
    first = source.head[:4096]
    if first.lstrip()[:1] == b"{" and all(mark in first for mark in _MARKS):
        return Sniff(92, "GPU telemetry that AIPerf kept")
    return NO_MATCH


class _Loader(SkipCount):
    """State of one load: the devices met, and the samples not yet written."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._devices: dict[tuple[str, int], int] = {}
        self._rows: list[tuple[int, int, str, float]] = []
        self._last_ns: dict[int, int] = {}
        self._settings: dict[str, Setting] = {}
        self.row_count = self.repeated_count = 0

    def take(self, line: bytes) -> None:
        """Take one record."""
        try:
            record = members_of(json.loads(line))
        except (ValueError, RecursionError):
            self.skip("line is no JSON object")
            return
        at_ns, index = nanoseconds(record.get("timestamp_ns"), 1), count(record.get("gpu_index"))
        if at_ns is None or index is None or index >= _DEVICE_LIMIT:
            self.skip("record has no time or no GPU")
            return
        device_id = self._device_id(label(record.get("hostname")) or "", index)
        if self._last_ns.get(device_id) == at_ns:
            self.repeated_count += 1
            return
        self._last_ns[device_id] = at_ns
        name = label(record.get("gpu_model_name"))
        if name is not None:
            scope = f"device:{device_id}"
            self._settings.setdefault(scope, Setting(1, scope, "gpu_name", name))
        self._take_values(record, at_ns, device_id)
        if len(self._rows) >= _FLUSH_SAMPLES:
            self._flush()

    def _device_id(self, host: str, index: int) -> int:
        """Return the GPU index; GPUs of further hosts get the next free numbers."""
        if (host, index) not in self._devices:
            taken = set(self._devices.values())
            free = next(number for number in range(len(taken) + 1) if number not in taken)
            self._devices[host, index] = free if index in taken else index
        return self._devices[host, index]

    def _take_values(self, record: Mapping[str, object], at_ns: int, device_id: int) -> None:
        """Collect the counters of a record; null is no value."""
        origin = label(record.get("telemetry_source_url") or record.get("dcgm_url")) or ""
        for name, value in members_of(record.get("telemetry_data")).items():
            counter, factor = _COUNTERS.get(name.removeprefix("nvidia_").removeprefix("gpu_"), ("", 1.0))
            plain = number(value)
            if not counter or value is None or (counter == _BUSY_SM and origin.startswith(_DRIVER_SOURCE)):
                continue
            if plain is None:
                self.skip("value of a counter is no number")
            elif not is_dcgm_blank(plain):
                self._rows.append((at_ns, device_id, counter, plain * factor))

    def _flush(self) -> None:
        """Write the samples collected so far."""
        if not self._rows:
            return
        schema = {"src_ns": pl.Int64, "device_id": pl.Int32, "counter": pl.String, "value": pl.Float64}
        self.row_count += self._sink.append(
            "raw_device_samples", pl.DataFrame(self._rows, schema, orient="row")
        )
        self._rows.clear()

    def finish(self) -> None:
        """Write what is left."""
        self._flush()
        if self.row_count:
            settings = [*self._settings.values(), Setting(1, "", "device_clock", "unix")]
            self.row_count += self._sink.append("raw_settings", settings_frame(settings))


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read every record; its times are unix nanoseconds of the client's machine."""
    del context
    loader = _Loader(sink)
    damage: str | None = None
    with source.open() as stream:
        for line, is_ended in text_lines(stream):
            if not is_ended and stream.damage:
                break
            if line.strip():
                loader.take(line)
        damage = stream.damage
    loader.finish()
    repeated = f"{loader.repeated_count} records repeat the time of the one before and were dropped"
    return LoadReport(
        loader.row_count,
        loader.skipped_count,
        loader.first_skip_reason,
        damage,
        (repeated,) if loader.repeated_count else (),
    )


READER = Reader(
    name="aiperf_gpu_telemetry",
    title="AIPerf GPU telemetry (JSON lines)",
    tables=("raw_device_samples", "raw_settings"),
    sniff=_sniff,
    load=_load,
    role="device",
    tried_on_real_files=False,
)
