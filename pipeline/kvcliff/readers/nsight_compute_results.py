"""Profiled kernels, ranges and graphs of a Nsight Compute report, and what its blocks say of the session."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvcliff.readers.nsight_compute_rows import nvtx_path
from kvcliff.readers.nsight_compute_wire import (
    BlockReader,
    FieldValue,
    MetricValue,
    fields,
    first_of,
    metric_value,
    number_of,
    text_of,
)

_INT32_MAX: Final = 2**31 - 1
_PROFILE_METRICS: Final = 13
_RANGE_METRICS: Final = 4


@dataclass(frozen=True)
class Profile:
    """One profiled kernel, range or graph."""

    scope: str
    name: str = ""
    context_id: int | None = None
    stream_id: int | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    nvtx_path: str | None = None
    is_clock_locked: bool | None = None
    metrics: tuple[MetricValue, ...] = ()


@dataclass
class ReportContent:
    """What the blocks of a report hold, as far as they were read.

    Attributes:
        names: names of metrics, in the order that their ids count.
        profiles: kernels, ranges and graphs in file order, as far as nobody took them.
        profile_count: all of them.
        value_count: values of the profiles that nobody took.
        versions: versions of the tool and the driver by provider.
        command_line: the profiler's command line; never leaves the reader.
        stated_count: results that the block headers announce, as far as they were read.
    """

    names: list[str] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    profile_count: int = 0
    value_count: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    command_line: str | None = None
    stated_count: int = 0

    def add(self, profile: Profile) -> None:
        """Add a result."""
        self.profiles.append(profile)
        self.profile_count += 1
        self.value_count += len(profile.metrics)

    def take(self) -> tuple[Profile, ...]:
        """Return the results since the last call."""
        taken = tuple(self.profiles)
        self.profiles.clear()
        self.value_count = 0
        return taken


def read_block(header: bytes, reader: BlockReader, content: ReportContent) -> None:
    """Read one block into ``content``; results that are complete stay when the rest is cut.

    Raises:
        CutError: the file ends inside the block.
        WireError: the block does not follow the format.
    """
    counts: dict[int, int] = {}
    for number, value in fields(header):
        if isinstance(value, int):
            counts[number] = value
        elif number == 3:
            _read_session(value, content)
        elif number == 4:
            content.names.extend(text_of(text) for field_no, text in fields(value) if field_no == 1)
    left = counts.get(5, 0)
    content.stated_count += sum(counts.get(number, 0) for number in (2, 7, 9))
    kinds: tuple[tuple[int, Callable[[bytes], Profile] | None], ...] = (
        (counts.get(1, 0), None),
        (counts.get(2, 0), _kernel),
        (counts.get(7, 0), _range),
        (counts.get(8, 0), None),
        (counts.get(9, 0), _graph),
    )
    for count, parse in kinds:
        for _ in range(count):
            message, size = reader.message()
            left -= size
            if parse is not None:
                content.add(parse(message))
    if left > 0:
        reader.exactly(left)


def _read_session(message: bytes, content: ReportContent) -> None:
    """Take versions and the command line of one block's session details, no hosts and no addresses."""
    for number, value in fields(message):
        if number == 8 and isinstance(value, bytes):
            provider, version = text_of(first_of(value, 1)), text_of(first_of(value, 2))
            content.versions.setdefault(provider, version)
        elif number == 11 and isinstance(value, bytes) and content.command_line is None:
            content.command_line = text_of(value)


def _kernel(message: bytes) -> Profile:
    """Return a profiled kernel."""
    found: dict[int, FieldValue] = {}
    metrics = []
    for number, value in fields(message):
        if number == _PROFILE_METRICS and isinstance(value, bytes):
            metrics.append(metric_value(value))
        else:
            found.setdefault(number, value)
    return Profile(
        scope="kernel",
        name=text_of(found.get(7)) or text_of(found.get(6)) or text_of(found.get(5)),
        context_id=_small(found.get(22)),
        stream_id=_small(found.get(23)),
        grid=_size(found.get(10)),
        block=_size(found.get(11)),
        nvtx_path=_nvtx(found.get(21)),
        is_clock_locked=_is_locked(found.get(25)),
        metrics=tuple(metrics),
    )


def _range(message: bytes) -> Profile:
    """Return a range of kernels that was profiled as one."""
    return _many(message, "range", clock_field=12, stream_field=None)


def _graph(message: bytes) -> Profile:
    """Return a CUDA graph that was profiled as one."""
    return _many(message, "graph", clock_field=13, stream_field=12)


def _many(message: bytes, scope: str, *, clock_field: int, stream_field: int | None) -> Profile:
    """Return a result that covers several kernels."""
    found: dict[int, FieldValue] = {}
    metrics = []
    for number, value in fields(message):
        if number == _RANGE_METRICS and isinstance(value, bytes):
            metrics.append(metric_value(value))
        else:
            found.setdefault(number, value)
    return Profile(
        scope=scope,
        context_id=_small(found.get(11)),
        stream_id=_small(found.get(stream_field)) if stream_field is not None else None,
        nvtx_path=_nvtx(found.get(10)),
        is_clock_locked=_is_locked(found.get(clock_field)),
        metrics=tuple(metrics),
    )


def _small(value: FieldValue | None) -> int | None:
    """Return an integer that fits a column of 32 bits, or ``None``."""
    number = number_of(value)
    return number if number is not None and -_INT32_MAX <= number <= _INT32_MAX else None


def _size(value: FieldValue | None) -> tuple[int, int, int] | None:
    """Return three sizes; a size of 0 is not written into the file."""
    if not isinstance(value, bytes):
        return None
    parts = {number: _small(part) or 0 for number, part in fields(value)}
    return parts.get(1, 0), parts.get(2, 0), parts.get(3, 0)


def _is_locked(value: FieldValue | None) -> bool | None:
    """Return whether the clock was locked, from a clock status."""
    if not isinstance(value, bytes):
        return None
    return bool(number_of(first_of(value, 2)))


def _nvtx(value: FieldValue | None) -> str | None:
    """Return the names of the ranges around a result: stacks first, outermost first."""
    if not isinstance(value, bytes):
        return None
    stacked: list[str] = []
    spanned: list[str] = []
    for number, part in fields(value):
        if not isinstance(part, bytes):
            continue
        if number == 2:
            for domain in _parts(part, 2):
                stacked.extend(text_of(first_of(entry, 1)) for entry in _parts(domain, 3))
        elif number == 3:
            spanned.extend(text_of(first_of(entry, 2)) for entry in _parts(part, 3))
    return nvtx_path([name for name in (*stacked, *spanned) if name])


def _parts(message: bytes, wanted: int) -> Sequence[bytes]:
    """Return all messages of one field."""
    return [value for number, value in fields(message) if number == wanted and isinstance(value, bytes)]
