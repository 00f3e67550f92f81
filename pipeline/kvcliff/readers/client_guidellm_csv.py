"""Reader of GuideLLM's CSV (``benchmarks.csv``): a row of statistics per benchmark, three header rows."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_rows import CLIENT_TABLES, ClientWriter
from kvcliff.readers.client_totals import latency_total
from kvcliff.readers.csv_text import header_of, is_text, split_row, text_lines
from kvcliff.readers.json_values import elements_of, members_of, number

_HEADER_ROWS: Final = 3
_MARKS: Final = (b"Run Info", b"Request Counts", b"Time to First Token")
Title = tuple[str, str, str]  # group, metric, unit or statistic
_TOTALS: Final[Mapping[Title, str]] = {
    ("Timings", "Duration", "Sec"): "duration_s",
    ("Scheduler Metrics", "Requests Made Successful", ""): "completed",
    ("Scheduler Metrics", "Requests Made Errored", ""): "failed",
    ("Scheduler Metrics", "Requests Made Incomplete", ""): "incomplete",
    ("Request Counts", "Successful", ""): "completed",
    ("Request Counts", "Errored", ""): "failed",
    ("Request Counts", "Incomplete", ""): "incomplete",
    ("Server Throughput", "Successful Requests/Sec", "Mean"): "request_throughput_per_s",
    ("Token Throughput", "Successful Output Tokens/Sec", "Mean"): "output_tokens_per_s",
    ("Token Throughput", "Successful Total Tokens/Sec", "Mean"): "total_tokens_per_s",
}
#: Distributions over successful requests: canonical short name and factor to milliseconds. The time per
#: output token includes the time to first token, so it is not the TPOT of other clients.
_LATENCIES: Final[Mapping[tuple[str, str], tuple[str, float]]] = {
    ("Request Latency", "Successful Sec"): ("e2el", 1000.0),
    ("Time to First Token", "Successful ms"): ("ttft", 1.0),
    ("Time per Output Token", "Successful ms"): ("latency_per_token", 1.0),
    ("Inter Token Latency", "Successful ms"): ("itl", 1.0),
}
_STATISTICS: Final = {"Mean": "mean", "Median": "median", "Std Dev": "std"}
#: What the list in a cell of percentiles holds, in its order: the median has a cell of its own.
_PERCENTILES: Final = ("min", "p0.1", "p1", "p5", "p10", "p25", "p75", "p90", "p95", "p99", "max")
_STRATEGY: Final = re.compile(r"([a-z_]{1,40})@(\d+(?:\.\d+)?)")
_STREAM_KINDS: Final = ("concurrent", "throughput")


def _sniff(source: Source) -> Sniff:
    """Return how much the head looks like the header of such a table."""
    if not is_text(source.head) or not all(mark in source.head for mark in _MARKS):
        return NO_MATCH
    groups = header_of(source.head)
    if groups.count("Run Info") > 1 and groups.count("Time to First Token") > 1:
        return Sniff(90, "GuideLLM statistics per benchmark")
    return NO_MATCH


def _decoded(cell: str) -> object:
    """Return the value of a cell that holds JSON, ``None`` when it holds none."""
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return None


def _totals(titles: Sequence[Title], cells: Sequence[str]) -> Iterator[tuple[str, float | None]]:
    """Yield the totals of one benchmark under canonical names."""
    # Requests that were made come before those that the statistics are over: the first of a name stays.
    columns = sorted(zip(titles, cells, strict=True), key=lambda column: column[0][0] != "Scheduler Metrics")
    for (group, metric, statistic), cell in columns:
        name = _TOTALS.get((group, metric, statistic))
        short, factor = _LATENCIES.get((group, metric), ("", 1.0))
        if name is not None:
            yield name, number(_decoded(cell))
        elif short and statistic in _STATISTICS:
            yield latency_total(_STATISTICS[statistic], short), _scaled(_decoded(cell), factor)
        elif short and statistic == "Percentiles":
            values = elements_of(_decoded(cell))
            if len(values) == len(_PERCENTILES):
                for percentile, value in zip(_PERCENTILES, values, strict=True):
                    yield latency_total(percentile, short), _scaled(value, factor)
        elif (group, metric) == ("Benchmark", "Strategy"):
            yield from _level(cell)


def _scaled(value: object, factor: float) -> float | None:
    """Return a number times a factor."""
    plain = number(value)
    return None if plain is None else plain * factor


def _level(strategy: str) -> Iterator[tuple[str, float | None]]:
    """Yield the load level that a strategy names (``concurrent@4``, ``constant@2.50``)."""
    match = _STRATEGY.fullmatch(strategy)
    if match is not None:
        yield "max_concurrency" if match[1] in _STREAM_KINDS else "request_rate", float(match[2])


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read every benchmark of the table; of its settings only the model's name is taken."""
    del context
    writer = ClientWriter(sink)
    header: list[list[str]] = []
    titles: list[Title] = []
    damage: str | None = None
    load_no = 0
    with source.open() as stream:
        for line, is_ended in text_lines(stream):
            cells = split_row(line)
            if len(header) < _HEADER_ROWS:
                header.append(cells)
                titles = list(zip(*header, strict=False)) if len(header) == _HEADER_ROWS else []
            elif len(cells) == len(titles):
                for name, value in _totals(titles, cells):
                    writer.total(load_no, name, value)
                _take_model(writer, titles, cells)
                load_no += 1
            elif line.strip() and is_ended:
                writer.skip("row has more or fewer cells than the header")
            elif line.strip():
                damage = "the file ends inside a row"
        damage = stream.damage or damage
    if not titles:
        damage = damage or "the file ends inside its header"
    return writer.finish("none", damage)


def _take_model(writer: ClientWriter, titles: Sequence[Title], cells: Sequence[str]) -> None:
    """Take the name of the model from the description of the backend."""
    place = next((place for place, title in enumerate(titles) if title[:2] == ("Run Info", "Backend")), None)
    if place is not None:
        writer.setting("model_name", members_of(_decoded(cells[place])).get("model"))


READER = Reader(
    name="guidellm_csv",
    title="GuideLLM statistics (CSV)",
    tables=CLIENT_TABLES,
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=True,
)
