"""Where times, devices and counters stand in the tables of nvidia-smi and dcgmi."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kvcliff.readers.csv_text import split_row
from kvcliff.readers.device_columns import DeviceColumn, monitor_column, plain_title, query_column
from kvcliff.readers.time_column import is_time_title

DeviceTableKind = Literal["query", "monitor"]
_ENTITY: Final = re.compile(r"\s*(GPU|GPU-I|GPU-CI)\s+(\d{1,4})\s+")
#: Columns that tell GPUs apart, best first; what they hold never enters a table.
_DEVICE_TITLES: Final = ("index", "gpu", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
_UNIT_WORDS: Final = frozenset({"idx", "id", "w", "c", "%", "mhz", "mb", "mb/s", "s", "bool", "count"})


@dataclass(frozen=True)
class DeviceTable:
    """Where things stand in the rows of a table."""

    kind: DeviceTableKind
    width: int
    time_places: tuple[int, ...]
    time_title: str
    device_place: int | None
    name_place: int | None
    driver_place: int | None
    columns: tuple[tuple[int, DeviceColumn], ...]


def cells_of(line: bytes, by_blanks: bool) -> list[str]:
    """Return the cells of a line; ``GPU 0`` of dcgmi is one cell."""
    if not by_blanks:
        return split_row(line)
    text = line.decode("utf-8", "replace")
    entity = _ENTITY.match(text)
    return [entity[2], *text[entity.end() :].split()] if entity else text.replace("#", " ", 1).split()


def _place(titles: Sequence[str], names: Sequence[str]) -> int | None:
    """Return the place of the first of the given titles."""
    return next((titles.index(name) for name in names if name in titles), None)


def table_of(header: Sequence[str]) -> DeviceTable | None:
    """Return the layout that a header line states, or ``None`` when it is no header of these tools."""
    titles = [plain_title(title) for title in header]
    query = [
        (place, found) for place, title in enumerate(header) if (found := query_column(title)) is not None
    ]
    monitor = [
        (place, found) for place, title in enumerate(titles) if (found := monitor_column(title)) is not None
    ]
    is_query = len(query) >= len(monitor)
    if not (query if is_query else monitor) or (not is_query and _place(titles, ("gpu", "entity")) is None):
        return None
    is_split = titles[:2] == ["date", "time"]
    time_place = next((place for place, title in enumerate(header) if is_time_title(title.lstrip("#"))), None)
    if is_query and time_place is None:
        return None
    time_places = (0, 1) if is_split else () if time_place is None else (time_place,)
    return DeviceTable(
        kind="query" if is_query else "monitor",
        width=len(header),
        time_places=time_places,
        time_title="time" if is_split or time_place is None else header[time_place],
        device_place=_place(titles, (*_DEVICE_TITLES, "entity")),
        name_place=_place(titles, ("name", "gpu_name")) if is_query else None,
        driver_place=_place(titles, ("driver_version",)) if is_query else None,
        columns=tuple(_first_of_each(query if is_query else monitor)),
    )


def _first_of_each(found: Sequence[tuple[int, DeviceColumn]]) -> Iterator[tuple[int, DeviceColumn]]:
    """Yield the columns whose counter no earlier column has."""
    counters: set[str] = set()
    for place, column in found:
        if column.counter not in counters:
            counters.add(column.counter)
            yield place, column


def is_blank_separated(head_line: bytes) -> bool:
    """Return whether a header line separates its titles by blanks alone."""
    return b"," not in head_line


def header_table(line: bytes) -> DeviceTable | None:
    """Return the table that a header line opens, or ``None``; blanks separate titles only after a ``#``."""
    by_blanks = is_blank_separated(line)
    return None if by_blanks and not line.lstrip().startswith(b"#") else table_of(cells_of(line, by_blanks))


def is_unit_line(cells: Sequence[str]) -> bool:
    """Return whether a line is the second header line, which holds units."""
    words = {cell.lower() for cell in cells}
    return len(words & _UNIT_WORDS) >= 1 and not any(cell[:1].isdigit() for cell in cells)
