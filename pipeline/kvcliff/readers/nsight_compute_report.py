"""Reader of Nsight Compute reports (``.ncu-rep``): the container itself, without the vendor's tools."""

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from kvcliff.errors import InputError
from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.nsight_compute_results import Profile, ReportContent, read_block
from kvcliff.readers.nsight_compute_rows import (
    DEVICE_PREFIX,
    KERNEL_SCHEMA,
    TABLES,
    CounterRows,
)
from kvcliff.readers.nsight_compute_session import CounterSession, with_command_line, with_versions
from kvcliff.readers.nsight_compute_units import unit_of_metric
from kvcliff.readers.nsight_compute_wide import is_metric
from kvcliff.readers.nsight_compute_wire import (
    MAGIC,
    VERSION,
    BlockReader,
    CutError,
    MetricValue,
    WireError,
    first_of,
    number_of,
)

_EXPORT_HINT: Final = (
    "export it with the newest tool: LC_ALL=C ncu --import FILE --csv --page raw > FILE.raw.csv"
)
_CAPABILITY: Final = f"{DEVICE_PREFIX}compute_capability_"
_DEVICE_ID: Final = "launch__device_id"
_FLUSH_VALUES: Final = 200_000
_VALUE_SCHEMA: Final = {
    "kernel_no": pl.Int64(),
    "metric_no": pl.Int32(),
    "value": pl.Float64(),
    "quality": pl.String(),
}


def _sniff(source: Source) -> Sniff:
    """Return whether the file begins as a report does."""
    if source.head.startswith(MAGIC):
        return Sniff(98, "Nsight Compute report")
    return Sniff(60, "named like a Nsight Compute report") if source.name.endswith(".ncu-rep") else NO_MATCH


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read all blocks and write the results that are complete."""
    content = ReportContent()
    with source.open() as stream:
        reader = BlockReader(stream)
        _check_header(source, reader)
        writer = _Writer(content.names, CounterRows(sink))
        damage = _read_blocks(reader, content, writer)
        damage = stream.damage or damage
    if damage is not None and not content.profile_count:
        raise InputError(
            f"{source.relative} is cut or broken before its first result", hint="copy it again or record anew"
        )
    writer.write(content.take())
    writer.rows.finish(_session(content, damage))
    return LoadReport(writer.rows.row_count, damage=_damage_text(content, damage), notes=_notes(content))


def _check_header(source: Source, reader: BlockReader) -> None:
    """Refuse what is no report, and versions of the container that are not known.

    Raises:
        InputError: it is one of these.
    """
    try:
        if reader.exactly(len(MAGIC)) != MAGIC:
            raise InputError(
                f"{source.relative} is no Nsight Compute report: it begins with other bytes",
                hint="give the file that ncu -o wrote, or a CSV export of it",
            )
        header, _ = reader.message(1 << 20)
        version = number_of(first_of(header, 1))
    except (CutError, WireError) as exc:
        raise InputError(
            f"{source.relative} is cut or broken in its header", hint="copy it again or record anew"
        ) from exc
    if version != VERSION:
        raise InputError(
            f"{source.relative} has version {version} of the report container, known is {VERSION}",
            hint=_EXPORT_HINT,
        )


def _read_blocks(reader: BlockReader, content: ReportContent, writer: "_Writer") -> str | None:
    """Read blocks until the end and write most results; return why reading ended early, or ``None``."""
    try:
        while True:
            header = reader.block_header()
            if header is None:
                return None
            read_block(header, reader, content)
            if content.value_count >= _FLUSH_VALUES:
                writer.write(content.take())
    except CutError:
        return "the file is cut"
    except WireError:
        return "the file is broken"


def _damage_text(content: ReportContent, damage: str | None) -> str | None:
    """Return the damage with how many results are there; how many the lost blocks held is not known."""
    if damage is None:
        return None
    count, stated = content.profile_count, content.stated_count
    return f"{damage}: {count} of at least {max(count, stated)} profiled kernels can be read"


def _session(content: ReportContent, damage: str | None) -> CounterSession:
    """Return what the report says about its collection."""
    session = CounterSession(
        page="report",
        read_kernel_count=content.profile_count,
        stated_kernel_count=content.stated_count,
        is_cut=damage is not None,
    )
    session = with_versions(session, content.versions)
    return with_command_line(session, content.command_line) if content.command_line else session


def _notes(content: ReportContent) -> tuple[str, ...]:
    """Return what the reader of a report should know."""
    notes = []
    if not content.profile_count:
        notes.append("the report holds no profiled kernel")
    if content.command_line is None:
        notes.append("the report does not say how it was collected (cache, clock and replay settings)")
    return tuple(notes)


class _Writer:
    """Writes kernels, their values and the attributes of their devices, some results at a time."""

    def __init__(self, names: Sequence[str], rows: CounterRows) -> None:
        self._names = names
        self._numbers: dict[int, int] = {}
        self._attributes: dict[int, str] = {}
        self.rows = rows

    def write(self, profiles: Sequence[Profile]) -> None:
        """Write results; those before them are written."""
        kernels: list[dict[str, object]] = []
        owners: list[int] = []
        metrics: list[int] = []
        values: list[float | None] = []
        qualities: list[str | None] = []
        for kernel_no, profile in enumerate(profiles, start=self.rows.kernel_count):
            found: dict[str, MetricValue] = {}
            seen: set[int] = set()
            for metric in profile.metrics:
                name_id, number, text = metric
                metric_no = self._numbers.get(name_id)
                if metric_no is None:
                    metric_no = self._number_of(name_id)
                if name_id in self._attributes:
                    found.setdefault(self._attributes[name_id], metric)
                if metric_no < 0 or metric_no in seen:
                    continue
                seen.add(metric_no)
                metrics.append(metric_no)
                values.append(number)
                qualities.append(None if number is not None else _missing(text))
            owners.extend([kernel_no] * (len(metrics) - len(owners)))
            device_id = _whole(found[_DEVICE_ID].number) if _DEVICE_ID in found else None
            kernels.append(_kernel_row(kernel_no, profile, device_id, found))
            for name, metric in found.items():
                if name != _DEVICE_ID:
                    self.rows.add_device(device_id or 0, name, metric.number, metric.text)
        if kernels:
            self.rows.add_kernels(pl.DataFrame(kernels, schema=KERNEL_SCHEMA))
        if metrics:
            frame = pl.DataFrame((owners, metrics, values, qualities), schema=_VALUE_SCHEMA)
            is_number = pl.col("value").is_finite()
            self.rows.add_values(
                frame.with_columns(
                    pl.when(is_number).then("value").alias("value"),
                    pl.when(~is_number).then(pl.lit("nan")).otherwise("quality").alias("quality"),
                )
            )

    def _number_of(self, name_id: int) -> int:
        """Return the number of a metric, -1 for attributes of the device; a name behind a cut has none."""
        name = self._names[name_id] if name_id < len(self._names) else ""
        is_value = is_metric(name) and not name.startswith(DEVICE_PREFIX)
        number = self.rows.metric_no(name, unit_of_metric(name)) if is_value else -1
        if name:
            self._numbers[name_id] = number
        if is_metric(name) and name.startswith((DEVICE_PREFIX, _DEVICE_ID)):
            self._attributes[name_id] = name
        return number


def _missing(text: str | None) -> str:
    """Return why a metric has no number."""
    return "text" if text is not None else "no_data"


def _whole(number: float | None) -> int | None:
    """Return a small whole number, or ``None``."""
    return int(number) if number is not None and 0 <= number < 2**31 else None


def _kernel_row(
    kernel_no: int, profile: Profile, device_id: int | None, found: Mapping[str, MetricValue]
) -> dict[str, object]:
    """Return a row of ``raw_counter_kernels``."""
    grid = profile.grid or (None, None, None)
    block = profile.block or (None, None, None)
    parts = (found.get(f"{_CAPABILITY}{part}") for part in ("major", "minor"))
    major, minor = (None if part is None else _whole(part.number) for part in parts)
    return {
        "kernel_no": kernel_no,
        "profile_id": kernel_no,
        "device_id": device_id,
        "context_id": profile.context_id,
        "stream_id": profile.stream_id,
        "name": profile.name,
        "nvtx_path": profile.nvtx_path,
        "compute_capability": f"{major}.{minor}" if major is not None and minor is not None else None,
        "scope": profile.scope,
        **dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True)),
        **dict(zip(("block_x", "block_y", "block_z"), block, strict=True)),
        "launch_count": 1,
        "is_clock_locked": profile.is_clock_locked,
    }


READER = Reader(
    name="nsight_compute_report",
    title="Nsight Compute report (.ncu-rep)",
    tables=TABLES,
    sniff=_sniff,
    load=_load,
    role="counters",
    tried_on_real_files=True,
)
