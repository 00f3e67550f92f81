"""Builders for Nsight Compute inputs: reports in their container, CSV pages, raw rows of kernels."""

import csv
import io
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from builders_raw import Row
from kvcliff.readers.base import LoadReport, ReadContext, Reader, Source

CORPUS = Path(__file__).resolve().parents[2] / "shared/corpus/nsight_compute"
NO_CORPUS = "the recordings of ../shared/corpus/nsight_compute are not there"
PCT = ".avg.pct_of_peak_sustained_elapsed"

DETAILS = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *(
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
        "Section Name",
        "Metric Name",
        "Metric Unit",
        "Metric Value",
    ),
    *("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"),
)
RAW = DETAILS[:11]


class TableSink:
    """Keeps what a reader writes."""

    def __init__(self) -> None:
        self.frames: dict[str, list[pl.DataFrame]] = {}

    def append(self, table: str, frame: pl.DataFrame) -> int:
        self.frames.setdefault(table, []).append(frame)
        return frame.height

    def rows(self, table: str) -> list[dict[str, object]]:
        found = [row for frame in self.frames.get(table, []) for row in frame.iter_rows(named=True)]
        if table != "raw_counter_values":
            return found
        names = {row["metric_no"]: row for row in self.rows("raw_counter_metrics")}
        return [{**names[row["metric_no"]], **row} for row in found]

    def metrics(self, kernel_no: int = 0) -> dict[str, float | None]:
        """Return the values of one kernel by metric, device attributes among them."""
        found = {
            str(row["metric"]): row["value"]
            for row in self.rows("raw_counter_values")
            if row["kernel_no"] == kernel_no
        }
        devices = {f"device__attribute_{row['attribute']}": row["value"] for row in self.devices()}
        return {**devices, **found}  # type: ignore[dict-item]

    def devices(self) -> list[dict[str, object]]:
        return self.rows("raw_counter_devices")

    def session(self) -> dict[str, object]:
        (row,) = self.rows("raw_counter_sessions")
        return row


def read(reader: Reader, path: Path) -> tuple[TableSink, LoadReport]:
    """Return what a reader makes of a file."""
    sink = TableSink()
    report = reader.load(Source(path, path.name), sink, ReadContext())
    return sink, report


def page(header: Sequence[str], rows: Iterable[Sequence[str]], *, is_short: bool = False) -> str:
    """Return a CSV page, all cells quoted; short rows end in a bare comma as the tool prints them."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        line = io.StringIO()
        csv.writer(line, quoting=csv.QUOTE_ALL, lineterminator="").writerow(row)
        text.write(line.getvalue() + (",\n" if is_short else "\n"))
    return text.getvalue()


def identity(kernel_id: int, name: str = "decode_kernel(int)", grid: str = "(256, 1, 1)") -> tuple[str, ...]:
    """Return the identifying cells of a row."""
    return (str(kernel_id), "7", "python", "127.0.0.1", name, "1", "7", "(128, 1, 1)", grid, "0", "9.0")


def details_page(rows: Iterable[tuple[int, str, str, str, str]], name: str = "decode_kernel(int)") -> str:
    """Return a details page of (ID, section, metric, unit, value)."""
    return page(DETAILS, [(*identity(row[0], name), *row[1:]) for row in rows], is_short=True)


def raw_page(
    metrics: Sequence[str],
    units: Sequence[str],
    rows: Iterable[Sequence[str]],
    name: str = "decode_kernel(int)",
) -> str:
    """Return a raw page: header, units, one row per kernel."""
    body = [(*identity(number, name), *cells) for number, cells in enumerate(rows)]
    return page((*RAW, *metrics), [("",) * len(RAW) + tuple(units), *body])


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def message(*fields: tuple[int, int | bytes | str]) -> bytes:
    """Return a message of integers and texts or messages."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def _value(value: float | str) -> bytes:
    if isinstance(value, str):
        return message((1, value))
    return varint(3 << 3 | 1) + struct.pack("<d", value)


def _framed(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def kernel(
    metrics: Mapping[str, float | str | None],
    name: str = "decode_kernel(int)",
    *,
    ranges: Sequence[str] = (),
    is_locked: bool = False,
    scope: str = "kernel",
) -> tuple[str, Mapping[str, float | str | None], list[tuple[int, int | bytes | str]]]:
    """Return one result for :func:`report`."""
    stack = message(*((3, message((1, text))) for text in ranges))
    nvtx = message((2, message((1, 5), (2, message((1, 1)) + stack))))
    clock = message((1, int(is_locked)), (2, int(is_locked)))
    if scope == "kernel":
        grid, block = message((1, 256), (2, 1), (3, 1)), message((1, 128), (2, 1), (3, 1))
        return scope, metrics, [(7, name), (10, grid), (11, block), (21, nvtx), (22, 1), (23, 7), (25, clock)]
    return scope, metrics, [(10, nvtx), (11, 1), (12, clock)]


def report(
    results: Sequence[tuple[str, Mapping[str, float | str | None], list[tuple[int, int | bytes | str]]]],
    command_line: str | None = "/opt/ncu --set full -o x ./app --secret",
    *,
    version: int = 7,
    magic: bytes = b"NVR\x00",
) -> bytes:
    """Return a report: one block for each result, the session's details behind them."""
    out = magic + _framed(message((1, version)))
    ids: dict[str, int] = {}
    for scope, metrics, fields in results:
        new = [name for name in metrics if name not in ids]
        ids.update({name: len(ids) + number for number, name in enumerate(new)})
        field_no = 13 if scope == "kernel" else 4
        values = [
            (
                field_no,
                message((1, ids[name]), *(() if value is None else ((2, _value(value)),))),
            )
            for name, value in metrics.items()
        ]
        payload = _framed(message(*fields, *values))
        header = message(
            (2 if scope == "kernel" else 7, 1),
            (4, message(*((1, name) for name in new))),
            (5, len(payload)),
            (6, message((1, 9), (2, "secret-host"), (3, "/home/secret/app"))),
        )
        out += _framed(header) + payload
    versions = (8, message((1, "Nsight Compute Target"), (2, "2025.1.0.0 (build 1)")))
    target = (4, message((1, "Linux"), (5, "secret-host"), (7, "10.1.2.3")))
    line = () if command_line is None else ((11, command_line),)
    return out + _framed(message((3, message((1, 9), target, versions, *line))))


def session_row(source_id: int = 1, page: str = "report", **more: object) -> Row:
    """Return a row of ``raw_counter_sessions``."""
    known = {"cache_control": "all", "clock_control": "base", "replay_mode": "kernel", "has_options": True}
    return {"source_id": source_id, "page": page, "read_kernel_count": 1, **known, **more}


def kernel_row(
    kernel_no: int = 0, name: str = "decode_kernel(int)", source_id: int = 1, **more: object
) -> Row:
    """Return a row of ``raw_counter_kernels``."""
    size = {"grid_x": 1024, "grid_y": 1, "grid_z": 1, "launch_count": 1, "scope": "kernel"}
    short = name.split("(")[0]
    return {"source_id": source_id, "kernel_no": kernel_no, "name": name, "short_name": short, **size, **more}


def value_rows(metrics: Mapping[str, float | None], kernel_no: int = 0, source_id: int = 1) -> list[Row]:
    """Return values with the name of their metric, for :func:`counter_values`."""
    return [
        {
            "source_id": source_id,
            "kernel_no": kernel_no,
            "metric": metric,
            "unit": "",
            "value": value,
            "quality": "nan" if value is None else None,
        }
        for metric, value in metrics.items()
    ]


def counter_values(named: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of ``raw_counter_metrics`` and ``raw_counter_values`` of values with names."""
    numbers: dict[tuple[object, object], int] = {}
    values = []
    for row in named:
        number = numbers.setdefault((row["source_id"], row["metric"]), len(numbers))
        values.append(
            {"metric_no": number, **{key: row[key] for key in ("source_id", "kernel_no", "value", "quality")}}
        )
    metrics = [
        {"source_id": source_id, "metric_no": number, "metric": metric, "unit": ""}
        for (source_id, metric), number in numbers.items()
    ]
    return {"raw_counter_metrics": metrics, "raw_counter_values": values}
