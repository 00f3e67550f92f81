"""Reader of AIPerf's CSV summary (``profile_export_aiperf.csv``): blocks of statistics under own headers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, SkipCount, Sniff, Source
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientWriter
from kvcliff.readers.client_totals import LATENCY_STATISTICS, latency_total
from kvcliff.readers.csv_text import is_text, split_row, text_lines

_DISTRIBUTIONS: Final = "Metric,avg,"
_VALUES: Final = "Metric,Value"
_TOTALS: Final[Mapping[str, str]] = {
    "Request Count": "completed",
    "Error Request Count": "failed",
    "Benchmark Duration (sec)": "duration_s",
    "Request Throughput (requests/sec)": "request_throughput_per_s",
    "Output Token Throughput (tokens/sec)": "output_tokens_per_s",
    "Total Token Throughput (tokens/sec)": "total_tokens_per_s",
    "Total Input Sequence Length (tokens)": "total_input_tokens",
    "Total Output Sequence Length (tokens)": "total_output_tokens",
    "Total Usage Prompt Tokens (tokens)": "usage_input_tokens",
    "Total Usage Completion Tokens (tokens)": "usage_output_tokens",
}
_LATENCIES: Final[Mapping[str, str]] = {
    "Time to First Token (ms)": "ttft",
    "Inter Chunk Latency (ms)": "itl",
    "Inter Token Latency (ms)": "tpot",
    "Request Latency (ms)": "e2el",
}
_ROUNDED: Final = "the file holds statistics alone, rounded to two decimals"


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like such a summary."""
    head = source.head
    is_summary = is_text(head) and head.removeprefix(b"\xef\xbb\xbf").startswith(_DISTRIBUTIONS.encode())
    if is_summary and any(title.encode() in head for title in _LATENCIES):
        return Sniff(90, "AIPerf summary (statistics alone)")
    return NO_MATCH


def _row(header: Sequence[str], cells: Sequence[str], problems: SkipCount) -> Iterator[tuple[str, float]]:
    """Yield the totals that one row states under canonical names."""
    short = _LATENCIES.get(cells[0])
    for title, cell in zip(header[1:], cells[1:], strict=False):
        if title == "Value":
            name = _TOTALS.get(cells[0])
        else:
            is_known = short is not None and title in LATENCY_STATISTICS
            name = latency_total(title, short) if short is not None and is_known else None
        if name is None or not cell:
            continue
        try:
            yield name, float(cell)
        except ValueError:
            problems.skip("cell of a statistic is no number")


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read the blocks of statistics about requests; those about GPUs repeat what the telemetry file holds."""
    del context
    writer = ClientWriter(sink)
    header: list[str] = []
    damage: str | None = None
    with source.open() as stream:
        for line, is_ended in text_lines(stream):
            cells = split_row(line)
            text = line.decode("utf-8", "replace")
            if not text.strip():
                header = []
            elif text.startswith((_DISTRIBUTIONS, _VALUES)):
                header = cells
            elif header and not is_ended and len(cells) < len(header):
                damage = "the file ends inside a row"
            elif header:
                for name, value in _row(header, cells, writer):
                    writer.total(0, name, value)
        damage = stream.damage or damage
    return writer.finish("none", damage, [_ROUNDED])


READER = Reader(
    name="aiperf_csv",
    title="AIPerf summary (CSV)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=True,
)
