"""NVTX ranges of an Nsight Systems export whose text may be kept."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from kvcliff.readers.nsight_systems_export import Export
from kvcliff.readers.nsight_systems_files import TableFile, as_texts
from kvcliff.readers.range_names import NAME_RULES, is_allowed

TABLE = "NVTX_EVENTS"
#: Push/pop and start/end ranges, recorded (59, 60) and imported (70, 71).
_STYLES = {59: "push_pop", 60: "start_end", 70: "push_pop", 71: "start_end"}
_DOMAIN_CREATE = 75
_MARK = 34
_FIXED_COLUMNS = (
    "eventType",
    "start",
    "end",
    "globalTid",
    "endGlobalTid",
    "domainId",
    "int64Value",
    "uint64Value",
    "int32Value",
    "uint32Value",
)
_KNOWN_DOMAINS = frozenset({"kvcliff", "kvcliff.pipeline", "NVTX", "NCCL"})


@dataclass(frozen=True)
class NvtxRanges:
    """The ranges of one export.

    Attributes:
        frame: rows for ``raw_nvtx_ranges`` (recognised texts only).
        range_count: all ranges in the export.
        mark_count: marks in the export.
        open_count: kept ranges that never ended.
        cross_thread_count: ranges that another thread ended.
    """

    frame: pl.DataFrame
    range_count: int
    mark_count: int
    open_count: int
    cross_thread_count: int


FRAME_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "range_no": pl.Int64,
    "process_id": pl.UInt64,
    "thread_id": pl.Int64,
    "end_thread_id": pl.Int64,
    "domain": pl.String,
    "name": pl.String,
    "style": pl.String,
    "is_open": pl.Boolean,
    "payload": pl.Int64,
    "start_src_ns": pl.Int64,
    "end_src_ns": pl.Int64,
}


@dataclass
class _Events:
    """What the table of events says.

    Attributes:
        counts: events by kind.
        crossing_count: ranges that another thread ended.
        latest_ns: latest end.
        named: row number from 1, the fixed columns, and the text, of ranges whose text is allowed.
        domains: thread, domain and text of the events that name a domain.
    """

    counts: dict[int, int] = field(default_factory=dict)
    crossing_count: int = 0
    latest_ns: int | None = None
    named: list[tuple[Any, ...]] = field(default_factory=list)
    domains: list[tuple[Any, ...]] = field(default_factory=list)


_NO_RANGES = NvtxRanges(pl.DataFrame(schema=FRAME_SCHEMA), 0, 0, 0, 0)


def read_ranges(
    export: Export, shift_ns: int, last_event_ns: int, extra: Sequence[re.Pattern[str]] = ()
) -> NvtxRanges:
    """Return the ranges whose text is on the allow-list, and counts over all of them.

    Args:
        export: the opened export.
        shift_ns: subtracted from every time of the file.
        last_event_ns: latest end among GPU work and API calls, on the shifted clock.
        extra: further full-match patterns from ``run.toml``.
    """
    if not export.has(TABLE, "start", "eventType"):
        return _NO_RANGES
    file = export.in_place(TABLE)
    events = _ask_events(export, extra) if file is None else _look_through(file, export, extra)
    latest = events.latest_ns
    last_ns = max(last_event_ns, latest - shift_ns if latest is not None else last_event_ns)
    domains = _domain_names(events.domains)
    named = [_whole_numbers(row) for row in events.named]
    rows = [_row(row, shift_ns, last_ns, domains) for row in named if row[2] is not None]
    frame = pl.DataFrame(rows, schema=FRAME_SCHEMA, orient="row").sort("range_no")
    return NvtxRanges(
        frame=frame,
        range_count=sum(events.counts.get(kind, 0) for kind in _STYLES),
        mark_count=events.counts.get(_MARK, 0),
        open_count=int(frame["is_open"].sum()),
        cross_thread_count=events.crossing_count,
    )


def _ask_events(export: Export, extra: Sequence[re.Pattern[str]]) -> _Events:
    """Return what SQL tells of the table."""
    columns = export.tables[TABLE]
    counts = dict(export.rows(f'select eventType, count(*) from "{TABLE}" group by eventType'))  # noqa: S608
    crossing = 0
    if "endGlobalTid" in columns:
        crossing = export.number(f'select count(*) from "{TABLE}" where endGlobalTid is not null') or 0  # noqa: S608
    return _Events(
        counts, crossing, export.latest(TABLE, "end"), _named_rows(export, extra), _domain_rows(export)
    )


def _look_through(file: TableFile, export: Export, extra: Sequence[re.Pattern[str]]) -> _Events:
    """Return the same from the frames of a table that SQL does not reach."""
    events = _Events()
    texts = _allowed_strings(export, extra) if export.has("StringIds", "id", "value") else {}
    has_text, has_domains = export.has(TABLE, "text"), export.has(TABLE, "domainId", "globalTid", "text")
    by_id: list[tuple[Any, ...]] = []
    first = 1
    for frame in file.frames(file.columns):
        for kind, count in frame.group_by("eventType").len().iter_rows():
            events.counts[kind] = events.counts.get(kind, 0) + count
        if "endGlobalTid" in frame.columns:
            events.crossing_count += frame.height - frame["endGlobalTid"].null_count()
        latest = frame["end"].max() if "end" in frame.columns else None
        if isinstance(latest, int) and latest > (events.latest_ns or latest - 1):
            events.latest_ns = latest
        rows = frame.with_row_index("row_no", first)
        first += frame.height
        ranges = rows.filter(pl.col("eventType").is_in(list(_STYLES)))
        if has_text:
            found = _decoded(ranges.filter(pl.col("text").is_not_null())).select(*_fixed(ranges), "text")
            events.named += [row for row in found.iter_rows() if is_allowed(str(row[-1]), extra)]
        if texts and "textId" in frame.columns:
            chosen = ranges.filter(pl.col("textId").cast(pl.Int64).is_in(list(texts)))
            by_id += [
                (*row[:-1], texts[row[-1]]) for row in chosen.select(*_fixed(ranges), "textId").iter_rows()
            ]
        if has_domains:
            kept = (pl.col("eventType") == _DOMAIN_CREATE) & pl.col("text").is_not_null()
            named = _decoded(rows.filter(kept & pl.col("globalTid").is_not_null()))
            events.domains += named.select("globalTid", "domainId", "text").rows()
    events.named += by_id
    return events


def _fixed(frame: pl.DataFrame) -> list[pl.Expr]:
    """Return the row number and the fixed columns, NULL where the export's version has none."""
    return [
        pl.col(name) if name in frame.columns else pl.lit(None, pl.Int64).alias(name)
        for name in ("row_no", *_FIXED_COLUMNS)
    ]


def _decoded(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with its texts as texts: nsys 2022 writes them as bytes."""
    is_binary = frame.schema["text"] == pl.Binary
    return frame.with_columns(as_texts(frame["text"])) if is_binary else frame


def _named_rows(export: Export, extra: Sequence[re.Pattern[str]]) -> list[tuple[Any, ...]]:
    columns = export.tables[TABLE]
    fixed = ", ".join(f'"{name}"' if name in columns else "null" for name in _FIXED_COLUMNS)
    fixed = f"rowid, {fixed}"
    kinds = ", ".join(str(kind) for kind in _STYLES)
    found: list[tuple[Any, ...]] = []
    if "text" in columns:
        chosen, values = _text_condition("text", extra)
        sql = f'select {fixed}, text from "{TABLE}" where eventType in ({kinds}) and {chosen}'  # noqa: S608
        found += [row for row in export.rows(sql, values) if is_allowed(str(row[-1]), extra)]
    if "textId" in columns and export.has("StringIds", "id", "value"):
        texts = _allowed_strings(export, extra)
        sql = (
            f'select {fixed}, textId from "{TABLE}" where eventType in ({kinds}) '  # noqa: S608
            "and textId in (select value from json_each(?))"
        )
        ids = "[" + ",".join(str(key) for key in sorted(texts)) + "]"
        found += [(*row[:-1], texts[row[-1]]) for row in export.rows(sql, (ids,))]
    return found


def _text_condition(column: str, extra: Sequence[re.Pattern[str]]) -> tuple[str, list[str]]:
    """Return a cheap SQL filter and its values; user patterns need every text."""
    if extra:
        return f"{column} is not null", []
    globs = [glob for rule in NAME_RULES for glob in rule.globs]
    # The test for NULL spares rows without a text, which are most, the patterns.
    return f"({column} is not null and (" + " or ".join([f"{column} glob ?"] * len(globs)) + "))", globs


def _allowed_strings(export: Export, extra: Sequence[re.Pattern[str]]) -> dict[int, str]:
    chosen, values = _text_condition("value", extra)
    rows = export.rows(f"select id, value from StringIds where {chosen}", values)  # noqa: S608
    return {key: text for key, text in rows if is_allowed(str(text), extra)}


def _domain_rows(export: Export) -> list[tuple[Any, ...]]:
    if not export.has(TABLE, "domainId", "globalTid", "text"):
        return []
    condition = "eventType = ? and text is not null and typeof(globalTid) = 'integer'"
    sql = f'select globalTid, domainId, text from "{TABLE}" where {condition} order by rowid'  # noqa: S608
    return export.rows(sql, (_DOMAIN_CREATE,))


def _domain_names(rows: Sequence[tuple[Any, ...]]) -> Mapping[tuple[int | None, int], str]:
    """Return domain names by (process, domain id); (None, id) serves forked children."""
    names: dict[tuple[int | None, int], str] = {}
    for global_tid, domain_id, text in rows:
        name = text if text in _KNOWN_DOMAINS else f"domain#{domain_id}"
        names[process_key(global_tid), domain_id] = name
        names.setdefault((None, domain_id), name)
    return names


def process_key(global_id: int | None) -> int | None:
    """Return the process key (hardware, VM and pid) of a global thread or process id."""
    return None if global_id is None else (global_id >> 24) & 0xFF_FFFF_FFFF


def _whole_numbers(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the row with NULL for whatever is no integer, its text apart."""
    return (*[value if isinstance(value, int) else None for value in row[:-1]], row[-1])


def _row(
    row: tuple[Any, ...], shift_ns: int, last_ns: int, domains: Mapping[tuple[int | None, int], str]
) -> tuple[object, ...]:
    number, kind, start, end, tid, end_tid, domain_id, *payloads, text = row
    process = process_key(tid)
    domain = ""
    if domain_id:
        domain = domains.get((process, domain_id)) or domains.get((None, domain_id)) or f"domain#{domain_id}"
    end_ns = last_ns if end is None else end - shift_ns
    payload = next((value for value in payloads if value is not None), None)
    return (
        number - 1,
        process,
        None if tid is None else tid & 0xFF_FFFF,
        None if end_tid is None else end_tid & 0xFF_FFFF,
        domain,
        text,
        _STYLES[kind],
        end is None or end_ns >= last_ns,
        payload,
        start - shift_ns,
        max(end_ns, start - shift_ns),
    )
