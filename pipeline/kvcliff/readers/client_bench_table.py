"""Reader of the table that ``vllm bench serve`` and SGLang's ``bench_serving`` print at their end."""

import re
from typing import Final

import polars as pl

from kvcliff.readers.base import NO_MATCH, LoadReport, ReadContext, Reader, Sink, Sniff, Source
from kvcliff.readers.client_totals import latency_total
from kvcliff.readers.json_values import number

_TABLE: Final = "raw_client_summary"
_TITLE = re.compile(rb"=+ Serving Benchmark Result =+")
_ROW = re.compile(r"(?P<label>[A-Z][^:]{2,60}):\s+(?P<value>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|inf|nan)\s*")
_LATENCY = re.compile(
    r"(?P<statistic>Mean|Median|Std|P\d{1,2}(?:\.\d+)?) (?P<short>TTFT|TPOT|ITL|E2EL|E2E Latency)"
)
_BLOCK_BYTES: Final = 1 << 20
_LINE_LIMIT: Final = 4096
#: Labels without their unit, in lower case, and the canonical names of their values.
_TOTALS: Final = {
    "successful requests": "completed",
    "failed requests": "failed",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "request rate configured": "request_rate",
    "traffic request rate": "request_rate",
    "benchmark duration": "duration_s",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "request throughput": "request_throughput_per_s",
    "request goodput": "request_goodput_per_s",
    "output token throughput": "output_tokens_per_s",
    "peak output token throughput": "max_output_tokens_per_s",
    "peak concurrent requests": "max_concurrent_requests",
    "total token throughput": "total_tokens_per_s",
}


def _sniff(source: Source) -> Sniff:
    """Return whether the head holds the title of the table."""
    if not source.is_dir and _TITLE.search(source.head):
        return Sniff(70, "the table that a serving benchmark prints")
    return NO_MATCH


def _total(line: str) -> tuple[str, float] | None:
    """Return canonical name and value of a row of the table, ``None`` for other lines."""
    match = _ROW.fullmatch(line)
    if match is None:
        return None
    label = re.sub(r"\s*\([^)]*\)$", "", match["label"]).strip()
    latency = _LATENCY.fullmatch(label)
    if latency is not None:
        short = "e2el" if latency["short"].startswith("E2E") else latency["short"].lower()
        name: str | None = latency_total(latency["statistic"].lower(), short)
    else:
        name = _TOTALS.get(label.lower())
    value = number(float(match["value"]))
    return None if name is None or value is None else (name, value)


def _load(source: Source, sink: Sink, context: ReadContext) -> LoadReport:
    """Read every table of the text; other lines are passed over."""
    del context
    rows: list[tuple[int, str, float]] = []
    known: set[tuple[int, str]] = set()
    load_no, is_open, repeated_count = -1, False, 0
    with source.open() as stream:
        rest = b""
        while block := stream.read(_BLOCK_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            rest = rest[-_LINE_LIMIT:]
            for line in lines:
                load_no, is_open, repeated = _take(line, rows, known, load_no, is_open=is_open)
                repeated_count += repeated
        load_no, is_open, repeated = _take(rest, rows, known, load_no, is_open=is_open)
        damage = stream.damage or ("the last table has no end" if is_open else None)
    frame = pl.DataFrame(
        rows, schema={"load_no": pl.Int32, "name": pl.String, "value": pl.Float64}, orient="row"
    )
    row_count = sink.append(_TABLE, frame) if rows else 0
    reason = "a row of the table comes twice" if repeated_count else None
    return LoadReport(row_count, repeated_count, reason, damage)


def _take(
    line: bytes,
    rows: list[tuple[int, str, float]],
    known: set[tuple[int, str]],
    load_no: int,
    *,
    is_open: bool,
) -> tuple[int, bool, int]:
    """Take one line; return the number of its table, whether that is open, and 1 for a repeated row."""
    if len(line) > _LINE_LIMIT:
        return load_no, is_open, 0
    # A progress bar may stand in front of the title, behind a carriage return.
    if _TITLE.search(line):
        return load_no + 1, True, 0
    if not is_open:
        return load_no, False, 0
    text = line.decode("utf-8", "replace").strip()
    if text and not text.strip("="):
        return load_no, False, 0
    total = _total(text)
    if total is None:
        return load_no, True, 0
    if (load_no, total[0]) in known:
        return load_no, True, 1
    known.add((load_no, total[0]))
    rows.append((load_no, *total))
    return load_no, True, 0


READER = Reader(
    name="bench_table",
    title="printed table of vllm bench serve or SGLang bench_serving (text)",
    tables=(_TABLE,),
    sniff=_sniff,
    load=_load,
    role="client",
    tried_on_real_files=True,
)
