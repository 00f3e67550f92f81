"""Rows of the raw tables from the events of a PyTorch profiler trace."""

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

import msgspec
import polars as pl

from kvcliff.readers.kineto_stream import RawEvent
from kvcliff.readers.range_names import is_allowed

FLUSH_ROWS = 1 << 16
_CALLS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?:cuda|cu|hip)LaunchHostFunc"), ""),
    (re.compile(r"(?:cuda|cu|hip)GraphLaunch"), "graph"),
    (re.compile(r"(?:cuda|cu|hip)(?:ExtModule|Module|Ext)?Launch"), "kernel"),
    (re.compile(r"(?:cuda|cu|hip)Memcpy"), "copy"),
    (re.compile(r"(?:cuda|cu|hip)Memset"), "set"),
    (re.compile(r"(?:cuda|cu|hip)(?:Stream|Event|Device|Ctx)Synchronize"), "sync"),
)
_COPY = re.compile(r"Memcpy (\w+) \((\w+) -> (\w+)\)")
_SET = re.compile(r"Memset \((\w+)\)")
_COPY_KINDS = {"HtoD": "htod", "DtoH": "dtoh", "DtoD": "dtod", "HtoH": "htoh", "PtoP": "ptop"}
_MEMORIES = {"Pageable": "pageable", "Pinned": "pinned", "Device": "device", "Managed": "managed"}
_MERGED_PROCESS = re.compile(r"\[([^\]]{1,64})\] ?(\d{1,10})")
_GPU_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_CALL_CATEGORIES = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime"})
_HOST_CATEGORIES = _CALL_CATEGORIES | {"user_annotation", "cpu_op", "python_function"}

_PLACE: dict[str, pl.DataType | type[pl.DataType]] = {
    "device_id": pl.Int32,
    "process_id": pl.UInt64,
    "stream_id": pl.Int32,
    "correlation_id": pl.Int64,
}
_TIMES: dict[str, pl.DataType | type[pl.DataType]] = {"start_src_ns": pl.Int64, "end_src_ns": pl.Int64}
SCHEMAS: dict[str, dict[str, pl.DataType | type[pl.DataType]]] = {
    "raw_kernels": {
        "kernel_no": pl.Int64,
        **_PLACE,
        "kernel_id": pl.Int32,
        "graph_node_id": pl.UInt64,
        "grid_x": pl.Int32,
        **_TIMES,
    },
    "raw_copies": {
        "copy_no": pl.Int64,
        **_PLACE,
        "kind": pl.String,
        "source_memory": pl.String,
        "target_memory": pl.String,
        "bytes": pl.Int64,
        **_TIMES,
    },
    "raw_launches": {
        "process_id": pl.UInt64,
        "thread_id": pl.Int64,
        "correlation_id": pl.Int64,
        "call": pl.String,
        **_TIMES,
    },
    "raw_nvtx_ranges": {
        "range_no": pl.Int64,
        "process_id": pl.UInt64,
        "thread_id": pl.Int64,
        "domain": pl.String,
        "name": pl.String,
        "style": pl.String,
        "is_open": pl.Boolean,
        **_TIMES,
    },
}


#: Numbers that a column can hold; details with others count as none.
_Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]
_Int63 = Annotated[int, msgspec.Meta(ge=-(1 << 62), lt=1 << 62)]


class _Details(msgspec.Struct, rename={"graph_node": "graph node id"}):
    """What is taken from an event's details; the rest is passed over."""

    device: _Int32 | None = None
    stream: _Int32 | None = None
    correlation: _Int63 | None = None
    bytes: _Int63 | None = None
    grid: list[_Int32] | None = None
    graph_node: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] | None = None


_DETAILS = msgspec.json.Decoder(_Details)
_NO_DETAILS = _Details()


@dataclass
class EventRows:
    """Collects rows event by event.

    Attributes:
        counts: rows made per table.
        skipped_count: events of interest whose values make no sense.
        annotation_count: annotations of all texts.
        call_count: CUDA calls of all kinds.
        graph_launch_count: launches of graphs.
        graph_kernel_count: kernels that name their graph node.
        last_gpu_ns: latest end of GPU work on the file's clock; 0 without any.
        span_ns: first start and last end among the events of interest.
    """

    extra: tuple[re.Pattern[str], ...] = ()
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SCHEMAS, 0))
    skipped_count: int = 0
    annotation_count: int = 0
    call_count: int = 0
    graph_launch_count: int = 0
    graph_kernel_count: int = 0
    last_gpu_ns: int = 0
    span_ns: tuple[int, int] | None = None
    _pending: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: {name: [] for name in SCHEMAS})
    _names: dict[str, int] = field(default_factory=dict)
    _groups: dict[str, int] = field(default_factory=lambda: {"": 0})
    _hosts: dict[str, int] = field(default_factory=dict)
    _seen_calls: dict[int, "_Numbers"] = field(default_factory=dict)
    _launches_ns: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def process_count(self) -> int:
        """Return how many processes the file was merged from (1 for a plain trace)."""
        return max(1, len(self._groups) - 1)

    @property
    def late_launch_ratio(self) -> float:
        """Return the share of launches that began after the last GPU work: their work is missing."""
        late = sum(start > self.last_gpu_ns for start in self._launches_ns)
        return late / len(self._launches_ns) if self._launches_ns else 0.0

    def add(self, events: list[RawEvent]) -> None:
        """Take in a block of events."""
        for event in events:
            if event.ph != "X":
                continue
            category = event.cat.lower()
            if category in _HOST_CATEGORIES:
                self._host(event, category)
            elif category in _GPU_CATEGORIES:
                self._gpu(event, category)

    def frames(self, *, is_last: bool = False) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield full tables; at the end all of them."""
        for table, rows in self._pending.items():
            if rows and (is_last or len(rows) >= FLUSH_ROWS):
                yield table, pl.DataFrame(rows, schema=SCHEMAS[table], orient="row")
                self._pending[table] = []

    def names_frame(self) -> pl.DataFrame:
        """Return the rows of ``raw_kernel_names``."""
        return pl.DataFrame(
            [(number, name, _short_name(name)) for name, number in self._names.items()],
            schema={"kernel_id": pl.Int32, "name": pl.String, "short_name": pl.String},
            orient="row",
        )

    def _host(self, event: RawEvent, category: str) -> None:
        group, pid = _process(event.pid)
        if pid is None:
            return
        number = self._groups.setdefault(group, len(self._groups))
        process = number << 32 | pid
        self._hosts.setdefault(group, process)
        if category == "user_annotation":
            self._annotation(event, process)
        elif category in _CALL_CATEGORIES:
            self._call(event, process)

    def _annotation(self, event: RawEvent, process: int) -> None:
        self.annotation_count += 1
        if not is_allowed(event.name, self.extra):
            return
        times = self._times(event)
        if times is not None:
            self._put(
                "raw_nvtx_ranges", process, _whole(event.tid), "", event.name, "push_pop", False, *times
            )

    def _call(self, event: RawEvent, process: int) -> None:
        self.call_count += 1
        call = _call_kind(event.name)
        correlation = _details(event).correlation if call else None
        if correlation is None:
            return
        times = self._times(event)
        if times is not None and self._seen_calls.setdefault(process, _Numbers()).add(correlation):
            self.graph_launch_count += call == "graph"
            if call in ("graph", "kernel"):
                self._launches_ns.append(times[0])
            self._put("raw_launches", process, _whole(event.tid), correlation, call, *times)

    def _gpu(self, event: RawEvent, category: str) -> None:
        times = self._times(event)
        if times is None:
            return
        group, device = _process(event.pid)
        details = _details(event)
        place = (
            device if details.device is None else details.device,
            self._hosts.get(group),
            _whole(event.tid) if details.stream is None else details.stream,
            details.correlation,
        )
        self.last_gpu_ns = max(self.last_gpu_ns, times[1])
        if category == "kernel":
            number = self._names.setdefault(event.name, len(self._names))
            grid_x = details.grid[0] if details.grid else None
            self.graph_kernel_count += bool(details.graph_node)
            self._put("raw_kernels", *place, number, details.graph_node or None, grid_x, *times)
        else:
            self._put("raw_copies", *place, *_copy(event.name), details.bytes, *times)

    def _put(self, table: str, *values: object) -> None:
        numbered = table != "raw_launches"
        self._pending[table].append((self.counts[table], *values) if numbered else values)
        self.counts[table] += 1

    def _times(self, event: RawEvent) -> tuple[int, int] | None:
        start, length = _nanoseconds(event.ts), _nanoseconds(event.dur)
        if start is None or length is None or length < 0:
            self.skipped_count += 1
            return None
        end = start + length
        first, last = self.span_ns or (start, end)
        self.span_ns = min(first, start), max(last, end)
        return start, end


@dataclass
class _Numbers:
    """A set of whole numbers that are mostly close together, one bit each."""

    blocks: dict[int, bytearray] = field(default_factory=dict)

    def add(self, number: int) -> bool:
        """Add a number and return whether it is new."""
        block = self.blocks.get(number >> 16)
        if block is None:
            block = self.blocks.setdefault(number >> 16, bytearray(1 << 13))
        at, bit = (number & 0xFFFF) >> 3, 1 << (number & 7)
        is_new = not block[at] & bit
        block[at] |= bit
        return is_new


@lru_cache(maxsize=4096)
def _call_kind(name: str) -> str:
    """Return what a CUDA call puts on the GPU, sync when it waits for it, '' for neither."""
    return next((kind for pattern, kind in _CALLS if pattern.match(name)), "")


def _nanoseconds(microseconds: msgspec.Raw) -> int | None:
    """Return a decimal number of microseconds in ns, exactly: a float would lose the last digits."""
    whole, _, fraction = bytes(microseconds).strip(b' "\t\r\n').partition(b".")
    # Numbers with an exponent and other oddities end as no number at all.
    digits = fraction[:3].ljust(3, b"0")
    try:
        value = int(whole + digits) if digits.isdigit() else None
    except ValueError:
        return None
    return value if value is not None and abs(value) < 1 << 62 else None


def _details(event: RawEvent) -> _Details:
    try:
        return _DETAILS.decode(event.args)
    except (msgspec.DecodeError, RecursionError):
        return _NO_DETAILS


def _process(pid: int | str | None) -> tuple[str, int | None]:
    """Return the label of a merged trace's process ('' in a plain trace) and its number."""
    if isinstance(pid, int):
        return "", pid if 0 <= pid < 1 << 32 else None
    match = _MERGED_PROCESS.fullmatch(pid or "")
    if match:
        return match.group(1), int(match.group(2))
    return "", int(pid) if pid and pid.isascii() and pid.isdigit() and len(pid) < 10 else None


def _whole(value: int | str | None) -> int | None:
    return value if isinstance(value, int) and abs(value) < 1 << 31 else None


def _copy(name: str) -> tuple[str, str | None, str | None]:
    match = _COPY.match(name)
    if match:
        kind, source, target = match.groups()
        return (
            _COPY_KINDS.get(kind, "other"),
            _MEMORIES.get(source, "other"),
            _MEMORIES.get(target, "other"),
        )
    match = _SET.match(name)
    if match:
        return "memset", None, _MEMORIES.get(match.group(1), "other")
    return ("memset" if name.startswith("Memset") else "other"), None, None


def _short_name(name: str) -> str:
    head = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", head, maxsplit=1)[0].rsplit("::", maxsplit=1)[-1] or head
