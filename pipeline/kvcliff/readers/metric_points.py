"""Series with their points, as query answers and exports list them: one series after the other.

Scrapes in the raw tables are points of time that series share, and their numbers rise with time. A file that
lists series one by one tells all its times only at its end, so it is read twice: first for the times, then
for the values.
"""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kvcliff.readers.base import LoadReport, Sink, SkipCount, Source
from kvcliff.readers.json_stream import JsonCursor, JsonDamage
from kvcliff.readers.json_values import elements_of, members_of, nanoseconds
from kvcliff.readers.metric_series import CACHE_CONFIG_NAMES, cache_config_settings
from kvcliff.readers.metric_writer import FLUSH_SAMPLES, MetricWriter
from kvcliff.readers.native_histograms import classic_series, parse_point
from kvcliff.readers.prometheus_text import parse_sample
from kvcliff.readers.settings import Setting
from kvcliff.readers.stamps import epoch_to_ns
from kvcliff.units import NS_PER_S

_NS_PER_MS: Final = 1_000_000
_NAME: Final = "__name__"


@dataclass
class Problems(SkipCount):
    """What could not be used while a file was walked."""

    nameless_count: int = 0
    native_histogram_count: int = 0
    warning_count: int = 0
    damage: str | None = None
    known_times: dict[float, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SeriesPoints:
    """One series and some of its points.

    Attributes:
        name: metric name as exposed.
        labels: the other labels.
        times_ns: unix nanoseconds of each point.
        values: text of each point's value (``NaN`` for none).
    """

    name: str
    labels: Mapping[str, str]
    times_ns: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)


def walk_points(cursor: JsonCursor, problems: Problems) -> Iterator[SeriesPoints]:
    """Yield every series of a text: answers of the query API, export lines, lines of a dump, in any order."""
    while cursor.peek():
        if not cursor.starts_object():
            yield from _dump_line(cursor.next_line(), problems)
            continue
        try:
            yield from _document(cursor, problems)
            problems.damage = None
        except JsonDamage as problem:
            problems.skip("an answer or line ends or breaks before its closing brace")
            problems.damage = str(problem)
            cursor.rest_of_line()


def _document(cursor: JsonCursor, problems: Problems) -> Iterator[SeriesPoints]:
    """Yield the series of one JSON object: an answer of the API, or a line of an export."""
    members: dict[str, object] = {}
    for key in cursor.members():
        if key == "data":
            yield from _answer(cursor, problems)
        elif key in {"status", "metric", "values", "timestamps", "warnings"}:
            members[key] = cursor.value()
    problems.warning_count += len(elements_of(members.get("warnings")))
    if members.get("status") == "error":
        problems.skip("an answer of the query API states an error")
    if "timestamps" in members:
        yield from _export_line(members, problems)


def _answer(cursor: JsonCursor, problems: Problems) -> Iterator[SeriesPoints]:
    """Yield the series of the ``data`` of an answer; scalars and strings have no series."""
    for key in cursor.members():
        if key != "result":
            continue
        for _ in cursor.items():
            entry = members_of(cursor.value())
            if not entry:
                continue
            pairs = elements_of(entry.get("values")) or [entry.get("value")]
            yield from _series(entry, [pair for pair in pairs if pair is not None], problems)
            histograms = elements_of(entry.get("histograms")) or [entry.get("histogram")]
            yield from _histograms(entry, [pair for pair in histograms if pair is not None], problems)


def _series(entry: Mapping[str, object], pairs: list[object], problems: Problems) -> Iterator[SeriesPoints]:
    """Yield one series of an answer with its (time, value) pairs."""
    named = _named(entry.get("metric"), problems)
    if named is None:
        return
    known = problems.known_times
    for pair in pairs:
        time, value = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
        # The same times come back in every series.
        time_ns = known.get(time) if isinstance(time, (int, float)) else None
        if time_ns is None:
            time_ns = nanoseconds(time, NS_PER_S)
        if time_ns is None or not isinstance(value, str) or not isinstance(time, (int, float)):
            problems.skip("point of a series is no pair of a time and a value")
        else:
            known[time] = time_ns
            named.times_ns.append(time_ns)
            named.values.append(value.encode("ascii", "replace"))
    yield named


def _histograms(
    entry: Mapping[str, object], pairs: list[object], problems: Problems
) -> Iterator[SeriesPoints]:
    """Yield the classic series that the native histograms of one series of an answer amount to."""
    named = _named(entry.get("metric"), Problems()) if pairs else None
    if named is None:
        return
    points = []
    for pair in pairs:
        point = parse_point(pair)
        if point is None:
            problems.skip("point of a native histogram has no time, count, sum or whole buckets")
        else:
            points.append(point)
    problems.native_histogram_count += bool(points)
    for suffix, bound, values in classic_series(points):
        labels = dict(named.labels) if bound is None else {**named.labels, "le": bound}
        times_ns = [point.time_ns for point in points]
        yield SeriesPoints(
            named.name + suffix, labels, times_ns, [text.encode("ascii", "replace") for text in values]
        )


def _export_line(members: Mapping[str, object], problems: Problems) -> Iterator[SeriesPoints]:
    """Yield the series of one export line; times are milliseconds, null is no value."""
    named = _named(members.get("metric"), problems)
    if named is None:
        return
    times, values = elements_of(members.get("timestamps")), elements_of(members.get("values"))
    if len(times) != len(values):
        problems.skip("values and time stamps of a series differ in number")
    for time, value in zip(times, values, strict=False):
        time_ns = nanoseconds(time, _NS_PER_MS)
        if time_ns is None or isinstance(value, (bool, list, dict)):
            problems.skip("point of a series is no pair of a time and a value")
        else:
            named.times_ns.append(time_ns)
            named.values.append(b"NaN" if value is None else str(value).encode("ascii", "replace"))
    yield named


def _dump_line(line: str, problems: Problems) -> Iterator[SeriesPoints]:
    """Yield the single point of a line of ``promtool tsdb dump``: label set, value, milliseconds."""
    if not line.strip():
        return
    sample = parse_sample(line.strip().encode())
    time_ns = epoch_to_ns(sample.stamp.decode()) if sample is not None and sample.stamp else None
    if sample is None or time_ns is None:
        problems.skip("line is no answer, no export line and no stamped sample")
        return
    yield SeriesPoints(sample.name, sample.labels, [time_ns], [sample.value])


def _named(metric: object, problems: Problems) -> SeriesPoints | None:
    """Return an empty series by its labels; ``None`` when it has no name (the result of a function)."""
    labels = {key: value for key, value in members_of(metric).items() if isinstance(value, str)}
    name = labels.pop(_NAME, "")
    if not name:
        problems.nameless_count += 1
        return None
    return SeriesPoints(name, labels)


class _Loader:
    """State of the second pass: which points each series has already."""

    def __init__(self, writer: MetricWriter, scrape_of_time: Mapping[int, int]) -> None:
        self._writer = writer
        self._scrape_of_time = scrape_of_time
        self._taken: dict[int, array[int]] = {}  # per series: the scrapes that it has a point in
        self.duplicate_count = 0
        self.settings: list[Setting] = []

    def take(self, points: SeriesPoints) -> None:
        """Take the points of one series; a point that it has already is dropped."""
        if points.name in CACHE_CONFIG_NAMES:
            self.settings.extend(cache_config_settings(points.labels, len(self.settings) + 1))
            return
        series_id = self._writer.series.series_id(points.name, points.labels)
        if series_id is None:
            return
        scrape_nos = [self._scrape_of_time[time_ns] for time_ns in points.times_ns]
        values = points.values
        known = self._taken.get(series_id)
        if known is not None or len(set(scrape_nos)) < len(scrape_nos):
            scrape_nos, values = self._new_ones(frozenset(known or ()), scrape_nos, values)
        self._taken.setdefault(series_id, array("L")).extend(scrape_nos)
        self._writer.extend(series_id, scrape_nos, values)
        if len(self._writer.ids) >= FLUSH_SAMPLES:
            self._writer.flush()

    def _new_ones(
        self, known: frozenset[int], scrape_nos: list[int], values: list[bytes]
    ) -> tuple[list[int], list[bytes]]:
        """Return the points that the series does not have yet, the first of each time."""
        fresh: dict[int, bytes] = {}
        for scrape_no, value in zip(scrape_nos, values, strict=True):
            if scrape_no in known or scrape_no in fresh:
                self.duplicate_count += 1
            else:
                fresh[scrape_no] = value
        return list(fresh), list(fresh.values())


def _is_read(points: SeriesPoints, writer: MetricWriter) -> bool:
    """Return whether a series is one that is kept."""
    return writer.series.series_id(points.name, points.labels) is not None


def load_points(source: Source, sink: Sink) -> LoadReport:
    """Read a file of series and points into the metric tables.

    Raises:
        InputError: the file cannot be opened.
    """
    writer = MetricWriter(sink)
    times: set[int] = set()
    with source.open() as stream:
        for points in walk_points(JsonCursor(stream), Problems()):
            if _is_read(points, writer):
                times.update(points.times_ns)
    scrape_of_time = {time_ns: writer.add_scrape(time_ns, None) for time_ns in sorted(times)}
    loader = _Loader(writer, scrape_of_time)
    problems = Problems()
    with source.open() as stream:
        for points in walk_points(JsonCursor(stream), problems):
            loader.take(points)
        damage = stream.damage or problems.damage
    writer.finish("unix", loader.settings)
    return LoadReport(
        writer.row_count,
        problems.skipped_count,
        problems.first_skip_reason,
        damage,
        _notes(writer, loader, problems),
    )


def _notes(writer: MetricWriter, loader: _Loader, problems: Problems) -> tuple[str, ...]:
    """Return what a reader of a report should know about the file."""
    counted = (
        (problems.nameless_count, "series have no metric name (results of functions) and were passed over"),
        (problems.native_histogram_count, "series are native histograms and were spelt out as bucket counts"),
        (problems.warning_count, "warnings came with the answers: the server may have left something out"),
        (loader.duplicate_count, "points repeat a time of their series and were dropped"),
        (writer.blank_count, 'values say "no value" (NaN, infinity or a placeholder) and were dropped'),
        (writer.unplaced_count, "device values have no time and were dropped"),
    )
    return tuple(f"{count} {what}" for count, what in counted if count)
