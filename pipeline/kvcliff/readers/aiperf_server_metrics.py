"""Reader of AIPerf's ``server_metrics_export.jsonl``: one scrape of the server's metrics page per line."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, SkipCount, Sniff, Source
from kvcliff.readers.json_values import elements_of, members_of, nanoseconds
from kvcliff.readers.metric_series import CACHE_CONFIG_NAMES, cache_config_settings
from kvcliff.readers.metric_writer import FLUSH_SAMPLES, TABLES, MetricWriter
from kvcliff.readers.settings import Setting

_MARKS: Final = (b'"endpoint_url"', b'"timestamp_ns"', b'"metrics"')
_LINE_LIMIT: Final = 16 << 20
#: A counter's family may be listed without the ending that its samples have.
_ENDINGS: Final = ("", "_total")


def _sniff(source: Source) -> Sniff:
    """Return whether the head begins with such a record."""
    first = source.head[:4096]
    if first.lstrip()[:1] == b"{" and all(mark in first for mark in _MARKS):
        return Sniff(92, "scrapes that AIPerf kept of the server's metrics")
    return NO_MATCH


def _lines(source: Source, damage: list[str]) -> Iterator[bytes]:
    """Yield the lines of the file; what damaged it is added to the list."""
    rest = b""
    with source.open() as stream:
        while block := stream.read(1 << 20):
            *lines, rest = (rest + block).split(b"\n")
            yield from lines
            rest = rest[-_LINE_LIMIT:]
        if rest.strip():
            yield rest
        if stream.damage:
            damage.append(stream.damage)


def _samples(family: str, entry: Mapping[str, object]) -> Iterator[tuple[str, dict[str, str], object]]:
    """Yield name, labels and value of each sample of one series of a record."""
    labels = {key: value for key, value in members_of(entry.get("labels")).items() if isinstance(value, str)}
    if "value" in entry:
        yield family, labels, entry["value"]
    for part in ("sum", "count"):
        if part in entry:
            yield f"{family}_{part}", labels, entry[part]
    for bound, count in members_of(entry.get("buckets")).items():
        yield f"{family}_bucket", {**labels, "le": bound}, count


class _Loader(SkipCount):
    """State of one load."""

    def __init__(self, sink: Sink) -> None:
        self.writer = MetricWriter(sink)
        self.settings: list[Setting] = []

    def take(self, line: bytes) -> None:
        """Take one record as one scrape."""
        try:
            record = members_of(json.loads(line))
        except (ValueError, RecursionError):
            self.skip("line is no JSON object")
            return
        start_ns = nanoseconds(record.get("timestamp_ns"), 1)
        if start_ns is None:
            self.skip("record has no time")
            return
        scrape_no = self.writer.add_scrape(start_ns, None)
        for family, entries in members_of(record.get("metrics")).items():
            for entry in elements_of(entries):
                self._take_entry(family, members_of(entry), record.get("endpoint_url"))
        self.writer.assign(scrape_no)
        if len(self.writer.ids) >= FLUSH_SAMPLES:
            self.writer.flush()

    def _take_entry(self, family: str, entry: Mapping[str, object], endpoint: object) -> None:
        """Take the samples of one series; several servers are told apart by their address."""
        for name, labels, value in _samples(family, entry):
            if name in CACHE_CONFIG_NAMES:
                self.settings.extend(cache_config_settings(labels, len(self.settings) + 1))
                continue
            if isinstance(endpoint, str):
                labels.setdefault("instance", endpoint.split("://", 1)[-1])
            series_id = next(
                (
                    known
                    for ending in _ENDINGS
                    if (known := self.writer.series.series_id(name + ending, labels)) is not None
                ),
                None,
            )
            if series_id is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                self.skip("value of a metric is no number")
                continue
            self.writer.ids.append(series_id)
            self.writer.values.append(repr(value).encode())


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read every record; its times are unix nanoseconds of the client's machine."""
    del context
    loader, damage = _Loader(sink), list[str]()
    for line in _lines(source, damage):
        if line.strip():
            loader.take(line)
    loader.writer.finish("unix", loader.settings)
    return LoadReport(
        loader.writer.row_count,
        loader.skipped_count,
        loader.first_skip_reason,
        damage[0] if damage else None,
    )


READER = Reader(
    name="aiperf_server_metrics",
    title="AIPerf server metrics (JSON lines)",
    tables=TABLES,
    sniff=_sniff,
    load=_load,
    role="metrics",
    tried_on_real_files=False,
)
