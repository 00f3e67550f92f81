"""Reader of Nsight Compute reports (``.ncu-rep``): the container itself, without the vendor's tools."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl

from kvcliff.errors import InputError
from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.nsight_compute_results import Profile, ReportContent, read_block
from kvcliff.readers.nsight_compute_rows import (
    DEVICE_PREFIX,
    KERNEL_SCHEMA,
    TABLES,
    VALUE_SCHEMA,
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
        damage = _read_blocks(reader, content)
        damage = stream.damage or damage
    if damage is not None and not content.profiles:
        raise InputError(
            f"{source.relative} is cut or broken before its first result", hint="copy it again or record anew"
        )
    rows = CounterRows(sink)
    _write(content, rows)
    rows.finish(_session(content, damage))
    return LoadReport(rows.row_count, damage=_damage_text(content, damage), notes=_notes(content))


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


def _read_blocks(reader: BlockReader, content: ReportContent) -> str | None:
    """Read blocks until the end; return why reading ended early, or ``None``."""
    try:
        while True:
            header = reader.block_header()
            if header is None:
                return None
            read_block(header, reader, content)
    except CutError:
        return "the file is cut"
    except WireError:
        return "the file is broken"


def _damage_text(content: ReportContent, damage: str | None) -> str | None:
    """Return the damage with how many results are there; how many the lost blocks held is not known."""
    if damage is None:
        return None
    count, stated = len(content.profiles), content.stated_count
    return f"{damage}: {count} of at least {max(count, stated)} profiled kernels can be read"


def _session(content: ReportContent, damage: str | None) -> CounterSession:
    """Return what the report says about its collection."""
    session = CounterSession(
        page="report",
        read_kernel_count=len(content.profiles),
        stated_kernel_count=content.stated_count,
    )
    session = with_versions(session, content.versions)
    return with_command_line(session, content.command_line) if content.command_line else session


def _notes(content: ReportContent) -> tuple[str, ...]:
    """Return what the reader of a report should know."""
    notes = []
    if not content.profiles:
        notes.append("the report holds no profiled kernel")
    if content.command_line is None:
        notes.append("the report does not say how it was collected (cache, clock and replay settings)")
    return tuple(notes)


def _write(content: ReportContent, rows: CounterRows) -> None:
    """Write kernels, their values and the attributes of their devices."""
    kernels: list[dict[str, object]] = []
    values: list[tuple[int, str, str, float | None, str | None]] = []
    for kernel_no, profile in enumerate(content.profiles):
        named = list(_named(profile, content.names))
        found = {name: number for name, number, _ in named}
        device_id = _whole(found.get(_DEVICE_ID))
        kernels.append(_kernel_row(kernel_no, profile, device_id, found))
        for name, number, text in named:
            if name.startswith(DEVICE_PREFIX):
                rows.add_device(device_id or 0, name, number, text)
            else:
                values.append((kernel_no, name, unit_of_metric(name), *_judged(number, text)))
        if len(values) >= _FLUSH_VALUES:
            rows.add_named_values(pl.DataFrame(values, schema=VALUE_SCHEMA, orient="row"))
            values.clear()
    if kernels:
        rows.add_kernels(pl.DataFrame(kernels, schema=KERNEL_SCHEMA))
    if values:
        rows.add_named_values(pl.DataFrame(values, schema=VALUE_SCHEMA, orient="row"))


def _named(profile: Profile, names: Sequence[str]) -> Iterable[tuple[str, float | None, str | None]]:
    """Yield each metric once, with its name; ids without a name lie behind a cut and are left out."""
    seen: set[str] = set()
    for metric in profile.metrics:
        name = names[metric.name_id] if metric.name_id < len(names) else ""
        if name not in seen and is_metric(name):
            seen.add(name)
            yield name, metric.number, metric.text


def _judged(number: float | None, text: str | None) -> tuple[float | None, str | None]:
    """Return the value, and why there is none."""
    if number is None:
        return None, "text" if text is not None else "no_data"
    return (number, None) if math.isfinite(number) else (None, "nan")


def _whole(number: float | None) -> int | None:
    """Return a small whole number, or ``None``."""
    return int(number) if number is not None and 0 <= number < 2**31 else None


def _kernel_row(
    kernel_no: int, profile: Profile, device_id: int | None, found: dict[str, float | None]
) -> dict[str, object]:
    """Return a row of ``raw_counter_kernels``."""
    grid = profile.grid or (None, None, None)
    block = profile.block or (None, None, None)
    major, minor = _whole(found.get(f"{_CAPABILITY}major")), _whole(found.get(f"{_CAPABILITY}minor"))
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
