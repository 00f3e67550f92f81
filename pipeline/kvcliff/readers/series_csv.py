"""Reader of time-series CSV files whose columns are engine metrics, one row per point of time."""

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.csv_text import header_of, is_text
from kvcliff.readers.metric_writer import TABLES
from kvcliff.readers.series_table import load_table, table_layout


def _sniff(source: Source) -> Sniff:
    """Return how much the first line looks like a time and engine metrics."""
    layout = table_layout(header_of(source.head)) if is_text(source.head) and b"," in source.head else None
    if layout is None:
        return NO_MATCH
    return Sniff(85, f"time series with {len(layout.columns)} engine metrics as columns")


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Stream the rows into the metric tables."""
    return load_table(source, sink, context)


READER = Reader(
    name="series_csv",
    title="time-series CSV of engine metrics",
    tables=TABLES,
    sniff=_sniff,
    load=_load,
    role="metrics",
    tried_on_real_files=True,
)
