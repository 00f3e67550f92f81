"""Reader of Prometheus and OpenMetrics text: one scrape, or a file that a scrape loop appended to.

Lines are not parsed but looked up: the part before the value is the key of a dictionary that says which
series it is, or that the line is of no interest. Only a key that is met for the first time is taken apart.
"""

from collections.abc import Mapping
from typing import Final

from kvcliff.readers.base import (
    HEAD_BYTES,
    NO_MATCH,
    LoadReport,
    ReadContext,
    Reader,
    Sink,
    SkipCount,
    Sniff,
    Source,
)
from kvcliff.readers.metric_families import canonical_name, dcgm_counter, known_kind
from kvcliff.readers.metric_points import load_points
from kvcliff.readers.metric_series import CACHE_CONFIG_NAMES, cache_config_settings
from kvcliff.readers.metric_writer import FLUSH_SAMPLES, TABLES, MetricWriter, SeriesClock
from kvcliff.readers.prometheus_text import parse_marker, parse_sample
from kvcliff.readers.settings import Setting
from kvcliff.readers.stamps import epoch_to_ns

_CHUNK_BYTES: Final = 1 << 20
_LINE_LIMIT_BYTES: Final = 1 << 20
_KNOWN_LIMIT: Final = 300_000
_SERIES_LIMIT: Final = 100_000
_SNIFF_LINES: Final = 200
_IGNORED: Final = -1


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like metrics text."""
    lines = source.head.split(b"\n")
    if len(source.head) == HEAD_BYTES:
        lines.pop()
    used = [line for line in lines[:_SNIFF_LINES] if line.strip()]
    fitting_count = 0
    has_grammar = is_known = False
    for line in used:
        is_comment = line.startswith(b"# ")
        sample = None if is_comment else parse_sample(line)
        fitting_count += is_comment or sample is not None or parse_marker(line, None) is not None
        has_grammar |= line.startswith((b"# TYPE ", b"# HELP ")) or (sample is not None and b"{" in line)
        is_known |= sample is not None and _is_wanted(sample.name)
    if not used or fitting_count < 0.8 * len(used) or not (has_grammar or is_known):
        return NO_MATCH
    if is_known:
        return Sniff(95, "Prometheus text with metrics of a known engine or of DCGM")
    return Sniff(50, "Prometheus text whose first lines hold no metric that is used")


def _is_dump(head: bytes) -> bool:
    """Return whether the text is a dump of ``promtool``: series by series, each line with name and stamp.

    The stamps of one series rise there, those of the file do not, so it is read like a query's answer.
    """
    first = head.lstrip().split(b"\n", 1)[0]
    sample = parse_sample(first.strip()) if first.startswith(b"{") else None
    return sample is not None and sample.stamp is not None


def _is_wanted(exposed: str) -> bool:
    """Return whether samples of this name are read."""
    name = canonical_name(exposed)
    return known_kind(name) is not None or dcgm_counter(name) is not None or name in CACHE_CONFIG_NAMES


class _Loader(SkipCount):
    """State of one load: the line heads known so far and the scrape in progress."""

    def __init__(self, writer: MetricWriter, zone_offset_s: int | None) -> None:
        self._writer = writer
        self._zone_offset_s = zone_offset_s
        self._known: dict[bytes, int] = {}
        self._last_scrape: list[int] = []  # per series: the last scrape that holds it
        self._scrape_of_stamp: dict[bytes, int | None] = {}
        self._scrape_no = -1
        self._is_marked = self._is_failed = False
        self._count_at_end_mark = -1
        self._line_no = 0
        self._lines: list[bytes] = []
        self.settings: list[Setting] = []
        self.has_local_times = False
        self.failed_count = self.duplicate_count = 0

    def feed(self, lines: list[bytes]) -> None:
        """Take whole lines. The loop sees every line of the file: keep it short."""
        self._lines = lines
        known, last_scrape, scrape_no = self._known.get, self._last_scrape, self._scrape_no
        ids, values = self._writer.ids, self._writer.values
        for line in lines:
            head, _, value = line.rpartition(b" ")
            series_id = known(head)
            if series_id is None:
                self._look_closer(line, head, value)
                scrape_no = self._scrape_no
            elif series_id >= 0:
                if last_scrape[series_id] == scrape_no or scrape_no < 0:
                    self._sample(series_id, value, None)
                    scrape_no = self._scrape_no
                else:
                    last_scrape[series_id] = scrape_no
                    ids.append(series_id)
                    values.append(value)
        self._line_no += len(lines)
        if len(ids) >= FLUSH_SAMPLES:
            self._close()
            self._writer.flush()

    def finish(self) -> None:
        """End the scrape in progress."""
        self._close()
        if self._writer.sample_count == self._count_at_end_mark:
            self._writer.drop_last_scrape()

    def _begin(self, start_ns: int | None, end_ns: int | None) -> None:
        """Begin the next scrape."""
        self._close()
        self._scrape_no = self._writer.add_scrape(start_ns, end_ns)
        self._count_at_end_mark = -1

    def _close(self) -> None:
        """Give the samples since the last call to the scrape in progress; a failed one gets none."""
        if self._is_failed:
            self._writer.discard()
        self._writer.assign(self._scrape_no)

    def _look_closer(self, line: bytes, head: bytes, value: bytes) -> None:
        """Handle a line whose head is not known: comment, marker, stamped sample or new series."""
        if line.startswith(b"#"):
            self._comment(line, head)
            return
        inner_head, _, inner_value = head.rpartition(b" ")
        series_id = self._known.get(inner_head) if inner_head else None
        if series_id is not None:
            self._sample(series_id, inner_value, value)
            return
        sample = parse_sample(line)
        if sample is None:
            self._odd_line(line)
            return
        series_id = self._series_id(sample.name, sample.labels, line)
        if sample.head.endswith(b" "):
            self._remember(sample.head[:-1], series_id)
        self._sample(series_id, sample.value, sample.stamp)

    def _remember(self, head: bytes, series_id: int) -> None:
        """Know a line head from now on."""
        if len(self._known) < _KNOWN_LIMIT:
            self._known[head] = series_id

    def _comment(self, line: bytes, head: bytes) -> None:
        """Handle a comment: the kind of a family, the end of an exposition, a scrape marker, or nothing."""
        words = line.split(None, 4)
        if len(words) >= 4 and words[1] in {b"TYPE", b"HELP", b"UNIT"}:
            if words[1] == b"TYPE":
                family, kind = (word.decode("utf-8", "replace") for word in words[2:4])
                self._writer.series.set_kind(family.strip('"'), kind.strip())
            self._remember(head, _IGNORED)
        elif line.strip() == b"# EOF":
            self._end_mark()
        else:
            self._marker(line)

    def _end_mark(self) -> None:
        """Begin a scrape after ``# EOF``, unless markers or stamps say where scrapes begin."""
        if not self._is_marked and self._scrape_no >= 0 and self._count_at_end_mark < 0:
            self._begin(None, None)
            self._count_at_end_mark = self._writer.sample_count

    def _marker(self, line: bytes) -> bool:
        """Begin a scrape when the line is a marker; return whether it was one."""
        marker = parse_marker(line, self._zone_offset_s)
        if marker is None:
            return False
        self._begin(marker.start_ns, marker.end_ns)
        self._is_marked = True
        self._is_failed = not marker.is_ok
        self.failed_count += self._is_failed
        self.has_local_times |= not marker.is_utc
        return True

    def _odd_line(self, line: bytes) -> None:
        """Handle a line that is no sample: a marker, blank, or damage."""
        if line.strip() and not self._marker(line) and not self._is_failed:
            self.skip("line is neither a sample nor a comment")

    def _sample(self, series_id: int, value: bytes, stamp: bytes | None) -> None:
        """Keep one sample; a series met again begins a scrape, unless markers say where scrapes begin."""
        if series_id == _IGNORED:
            return
        if stamp is not None and not self._is_marked:
            self._stamped_sample(series_id, value, stamp)
            return
        if self._scrape_no < 0 or (self._last_scrape[series_id] == self._scrape_no and not self._is_marked):
            self._begin(None, None)
        if self._last_scrape[series_id] == self._scrape_no:
            self.duplicate_count += 1
        else:
            self._keep(series_id, value, self._scrape_no)

    def _keep(self, series_id: int, value: bytes, scrape_no: int) -> None:
        """Collect one sample."""
        self._last_scrape[series_id] = scrape_no
        self._writer.ids.append(series_id)
        self._writer.values.append(value)

    def _stamped_sample(self, series_id: int, value: bytes, stamp: bytes) -> None:
        """Keep a sample under the scrape of its own stamp; the stamps of one series must rise."""
        if stamp not in self._scrape_of_stamp:
            stamp_ns = epoch_to_ns(stamp.decode("ascii", "replace"))
            known = stamp_ns is not None
            self._scrape_of_stamp[stamp] = self._writer.add_scrape(stamp_ns, None) if known else None
        scrape_no = self._scrape_of_stamp[stamp]
        if scrape_no is None:
            self.skip("stamp of a sample is no time")
        elif scrape_no <= self._last_scrape[series_id]:
            self.duplicate_count += 1
        else:
            self._close()
            self._keep(series_id, value, scrape_no)
            self._writer.assign(scrape_no)

    def _series_id(self, name: str, labels: Mapping[str, str], line: bytes) -> int:
        """Return the number of a series met for the first time, or the mark of a line of no interest."""
        if canonical_name(name) in CACHE_CONFIG_NAMES:
            line_no = self._line_no + self._lines.index(line) + 1
            self.settings.extend(cache_config_settings(labels, line_no))
            return _IGNORED
        if len(self._last_scrape) >= _SERIES_LIMIT:
            self.skip("more distinct series than are kept")
            return _IGNORED
        series_id = self._writer.series.series_id(name, labels)
        if series_id is None:
            return _IGNORED
        self._last_scrape.extend([-1] * (len(self._writer.series) - len(self._last_scrape)))
        return series_id


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Stream the text into the metric tables."""
    if _is_dump(source.head):
        return load_points(source, sink)
    writer = MetricWriter(sink)
    loader = _Loader(writer, context.time_zone_offset_s)
    rest = b""
    with source.open() as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()[:_LINE_LIMIT_BYTES]
            loader.feed(lines)
        damage = stream.damage or ("the file ends inside a line" if rest.strip() else None)
    loader.finish()
    untimed_count = writer.untimed_count()
    writer.finish(_clock(writer, loader), loader.settings)
    return LoadReport(
        row_count=writer.row_count,
        skipped_count=loader.skipped_count,
        first_skip_reason=loader.first_skip_reason,
        damage=damage,
        notes=_notes(writer, loader, untimed_count),
    )


def _clock(writer: MetricWriter, loader: _Loader) -> SeriesClock:
    """Return the clock that the scrapes' times are on."""
    if writer.untimed_count() == writer.scrape_count:
        return "none"
    return "local" if loader.has_local_times else "unix"


def _notes(writer: MetricWriter, loader: _Loader, untimed_count: int) -> tuple[str, ...]:
    """Return what a reader of a report should know about the file."""
    counted = (
        (untimed_count, "scrapes state no time: only their order is known"),
        (loader.failed_count, "scrapes failed (HTTP status other than 200) and bring no values"),
        (loader.duplicate_count, "values repeat a series within one scrape or stamp and were dropped"),
        (writer.blank_count, 'values say "no value" (NaN, infinity or a placeholder) and were dropped'),
        (writer.unplaced_count, "device values have no time and were dropped"),
    )
    local = ("scrape times are local, their zone is unknown",) if loader.has_local_times else ()
    return (*(f"{count} {what}" for count, what in counted if count), *local)


READER = Reader(
    name="prometheus",
    title="Prometheus and OpenMetrics text (vLLM, SGLang, TensorRT-LLM, DCGM exporter)",
    tables=TABLES,
    sniff=_sniff,
    load=_load,
    role="metrics",
    tried_on_real_files=True,
)
