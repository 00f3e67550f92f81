"""Reader of Locust's CSV files: totals (``*_stats.csv``) and their history (``*_stats_history.csv``)."""

from collections.abc import Iterable, Sequence
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientWriter
from kvcliff.readers.csv_text import header_of, is_text, split_row, text_lines

_NEEDED: Final = {"type", "name", "requests/s", "failures/s"}
_ALL_REQUESTS: Final = "aggregated"
#: Titles in lower case and the canonical names of their values.
_TITLES: Final = {
    "timestamp": "at_unix_s",
    "user count": "users",
    "request count": "requests",
    "total request count": "requests",
    "failure count": "failed",
    "total failure count": "failed",
    "median response time": "median_e2el_ms",
    "total median response time": "median_e2el_ms",
    "average response time": "mean_e2el_ms",
    "total average response time": "mean_e2el_ms",
    "min response time": "min_e2el_ms",
    "total min response time": "min_e2el_ms",
    "max response time": "max_e2el_ms",
    "total max response time": "max_e2el_ms",
    "requests/s": "request_throughput_per_s",
    "failures/s": "failures_per_s",
    "50%": "median_e2el_ms",
    "75%": "p75_e2el_ms",
    "90%": "p90_e2el_ms",
    "95%": "p95_e2el_ms",
    "99%": "p99_e2el_ms",
    "99.9%": "p99.9_e2el_ms",
}
_ABSENT: Final = {"", "N/A"}


def _lower(titles: Iterable[str]) -> list[str]:
    """Return titles in lower case."""
    return [title.lower() for title in titles]


def _sniff(source: Source) -> Sniff:
    """Return how much the first line looks like one of Locust's tables."""
    titles = set(_lower(header_of(source.head))) if is_text(source.head) and b"," in source.head else set()
    if not titles >= _NEEDED:
        return NO_MATCH
    if "timestamp" in titles and "user count" in titles:
        return Sniff(88, "Locust history of request statistics")
    return Sniff(88, "Locust request statistics") if "request count" in titles else NO_MATCH


def _take_row(writer: ClientWriter, titles: Sequence[str], cells: Sequence[str], load_no: int) -> None:
    """Take the row of all requests; the first column that fills a name stays."""
    for title, cell in zip(titles, cells, strict=True):
        name = _TITLES.get(title)
        if name is None or cell in _ABSENT:
            continue
        value = _number(cell)
        if value is None:
            writer.skip("cell of a statistic is no number")
        else:
            writer.total(load_no, name, value)


def _number(cell: str) -> float | None:
    """Return a cell as a finite number, else ``None``."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < 1e15 else None


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Take the rows over all requests; rows of single names tell nothing about the engine."""
    del context
    writer = ClientWriter(sink)
    titles: list[str] | None = None
    damage: str | None = None
    load_no = 0
    with source.open() as stream:
        for line, is_ended in text_lines(stream):
            cells = split_row(line)
            if titles is None:
                titles = _lower(cells)
                if not set(titles) >= _NEEDED:
                    damage = "the file holds no header of Locust's statistics"
                    break
            elif len(cells) != len(titles):
                if is_ended and line.strip():
                    writer.skip("row has more or fewer cells than the header")
                elif line.strip():
                    damage = "the file ends inside a row"
            elif cells[titles.index("name")].lower() == _ALL_REQUESTS:
                _take_row(writer, titles, cells, load_no)
                load_no += 1
        damage = stream.damage or damage
    return writer.finish("unix", damage)


READER = Reader(
    name="locust",
    title="Locust statistics and their history (CSV)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=False,
)
