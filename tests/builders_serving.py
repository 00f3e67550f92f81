"""Builders for serving-side SQL tests: scrapes, log lines, requests and token streams in plain seconds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from builders_raw import Row, Rows, build, has_documented_columns, is_unique, source, table

S = 1_000_000_000
MS = 1_000_000
GAUGES = {
    "kv": "vllm:kv_cache_usage_perc",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
}
COUNTERS = {
    "preemptions": "vllm:num_preemptions_total",
    "finished": "vllm:request_success_total",
    "generated": "vllm:generation_tokens_total",
}
METRICS = source(1, "metrics.prom", "metrics")
LOG = source(2, "server.log", "log")
CLIENT = source(3, "requests.jsonl", "client")
#: GPU-side models that serving models read; empty where a test is not about them.
NO_TRANSFERS: Mapping[str, Rows] = {"transfers": []}


def ns(second: float) -> int:
    """Return a time in seconds as nanoseconds, without binary dust."""
    return round(second * 1000) * MS


@dataclass(frozen=True)
class Scrape:
    """One scrape: the time in seconds and what the gauges and counters read; ``None`` is not exposed."""

    second: float
    kv: float | None = None
    running: float | None = None
    waiting: float | None = None
    preemptions: float | None = None
    finished: float | None = None
    generated: float | None = None


def scrape_rows(scrapes: Sequence[Scrape], *, source_id: int = 1, engine: str = "0") -> dict[str, list[Row]]:
    """Return raw rows of scrapes; series numbers start at a hundred times the engine's number."""
    names = {**GAUGES, **COUNTERS}
    first_id = 100 * (int(engine) if engine.isdigit() else 9)
    ids = {field: first_id + number for number, field in enumerate(names)}
    return {
        "raw_metric_series": [
            {
                "source_id": source_id,
                "series_id": ids[field],
                "name": name,
                "kind": "counter" if field in COUNTERS else "gauge",
                "engine": engine,
            }
            for field, name in names.items()
        ],
        "raw_metric_scrapes": [
            scrape_time(number, scrape.second, source_id) for number, scrape in enumerate(scrapes)
        ],
        "raw_metric_samples": [
            {
                "source_id": source_id,
                "scrape_no": number,
                "series_id": ids[field],
                "value": float(value),
            }
            for number, scrape in enumerate(scrapes)
            for field in names
            if (value := getattr(scrape, field)) is not None
        ],
    }


def scrape_time(number: int, second: float, source_id: int = 1) -> Row:
    """Return a row of ``raw_metric_scrapes``."""
    return {
        "source_id": source_id,
        "scrape_no": number,
        "src_ns": ns(second),
        "end_src_ns": ns(second),
        "is_timed": True,
    }


def histogram_rows(
    counts: Mapping[float, Mapping[float, float]],
    *,
    name: str = "vllm:inter_token_latency_seconds_bucket",
    source_id: int = 1,
    first_series_id: int = 50,
) -> dict[str, list[Row]]:
    """Return raw rows of a histogram: second of the scrape -> upper bound -> cumulative count."""
    bounds = sorted({bound for scrape in counts.values() for bound in scrape})
    return {
        "raw_metric_series": [
            {
                "source_id": source_id,
                "series_id": first_series_id + number,
                "name": name,
                "kind": "histogram",
                "engine": "0",
                "le": bound,
            }
            for number, bound in enumerate(bounds)
        ],
        "raw_metric_scrapes": [
            scrape_time(number, second, source_id) for number, second in enumerate(counts)
        ],
        "raw_metric_samples": [
            {
                "source_id": source_id,
                "scrape_no": number,
                "series_id": first_series_id + bounds.index(bound),
                "value": float(value),
            }
            for number, scrape in enumerate(counts.values())
            for bound, value in scrape.items()
        ],
    }


def log_row(line_no: int, second: float, *, source_id: int = 2, **values: object) -> Row:
    """Return a row of any log table."""
    return {"source_id": source_id, "line_no": line_no, "src_ns": ns(second), "engine": "0", **values}


def request_row(request_no: int, first: float, last: float, *, source_id: int = 3, **values: object) -> Row:
    """Return a row of ``raw_client_requests`` that is sent 0.1 s before its first token."""
    return {
        "source_id": source_id,
        "request_no": request_no,
        "request_id": f"r{request_no}",
        "submit_src_ns": ns(first) - 100 * MS,
        "first_token_src_ns": ns(first),
        "done_src_ns": ns(last),
        "ttft_ns": 100 * MS,
        "prompt_tokens": 64,
        "output_tokens": 100,
        **values,
    }


def token_rows(request_no: int, seconds: Iterable[float], *, source_id: int = 3) -> list[Row]:
    """Return rows of ``raw_client_tokens``, one token each."""
    return [
        {
            "source_id": source_id,
            "request_no": request_no,
            "chunk_no": number,
            "src_ns": ns(second),
            "tokens": 1,
        }
        for number, second in enumerate(seconds)
    ]


def every(step: float, start: float, end: float) -> list[float]:
    """Return the times from ``start`` up to and with ``end``, ``step`` seconds apart."""
    count = round((end - start) / step)
    return [round(start + number * step, 3) for number in range(count + 1)]


def merge(*parts: Mapping[str, Rows]) -> dict[str, list[Row]]:
    """Return the rows of several builders together; a scrape that two of them name is one."""
    merged: dict[str, list[Row]] = {}
    known: set[tuple[object, object]] = set()
    for part in parts:
        for name, rows in part.items():
            kept = merged.setdefault(name, [])
            for row in rows:
                scrape = (row.get("source_id"), row.get("scrape_no"))
                if name == "raw_metric_scrapes" and scrape in known:
                    continue
                if name == "raw_metric_scrapes":
                    known.add(scrape)
                kept.append(row)
    return merged


def model(
    name: str, rows: Mapping[str, Rows], stubs: Mapping[str, Rows] | None = None
) -> duckdb.DuckDBPyConnection:
    """Return a connection with a model built, its header and key checked."""
    con = build(name, {"sources": [METRICS, LOG, CLIENT], **rows}, stubs)
    assert has_documented_columns(con, name)
    assert is_unique(con, name)
    return con


def rows_of(
    name: str,
    columns: str,
    *,
    stubs: Mapping[str, Rows] | None = None,
    order: str = "all",
    **raw: Rows,
) -> list[tuple[object, ...]]:
    """Return columns of a model built on the given raw rows and stubs."""
    con = model(name, raw, stubs)
    return table(con, f"select {columns} from {name} order by {order}")


#: Second of each preemption of ``pressure_story``, and the second in which its victim speaks again.
STALLS = ((44.5, 49.7), (51.5, 55.7), (57.5, 62.7))
STREAM_STEP_S = 0.2


def story_scrapes(
    *, has_counter: bool = True, stalls: Sequence[tuple[float, float]] = STALLS
) -> list[Scrape]:
    """Return a scrape a second: calm, a cache that fills up, one preemption for each stall, calm again."""
    scrapes = []
    for second in range(101):
        away = sum(start <= second < end for start, end in stalls)
        resumed = sum(end <= second for _, end in stalls)
        if 40 <= second < 64:
            # The others grow into what the victim gave back.
            since = min((second - start for start, end in stalls if start <= second < end), default=0.0)
            kv, running = (1.0 - 0.05 * away + 0.008 * since, 10.0 - away)
        else:
            kv, running = (0.5, 8.0) if second < 30 or second >= 64 else (0.6, 10.0)
        scrapes.append(
            Scrape(
                second,
                kv=kv,
                running=running,
                waiting=float(away),
                preemptions=float(resumed) if has_counter else None,
                generated=50.0 * second,
            )
        )
    return scrapes


def story_streams(stalls: Sequence[tuple[float, float]] = STALLS) -> dict[str, list[Row]]:
    """Return six token streams from 25 to 70 s; each stall silences one of them."""
    requests, tokens = [], []
    for number in range(6):
        silent = stalls[number] if number < len(stalls) else (0.0, 0.0)
        seconds = [s for s in every(STREAM_STEP_S, 25, 70) if not silent[0] < s < silent[1]]
        requests.append(request_row(number, seconds[0], seconds[-1]))
        tokens.extend(token_rows(number, seconds))
    return {"raw_client_requests": requests, "raw_client_tokens": tokens}


def limit_row(max_num_seqs: int = 16) -> Row:
    """Return the setting that states how many requests may run."""
    return {"source_id": 2, "line_no": 1, "scope": "", "name": "max_num_seqs", "value": str(max_num_seqs)}


def pressure_story(*, has_counter: bool = True, has_streams: bool = True) -> dict[str, list[Row]]:
    """Return a run with one swap point of three preemptions, the first at 44.5 s."""
    return merge(
        scrape_rows(story_scrapes(has_counter=has_counter)),
        {"raw_settings": [limit_row()]},
        story_streams() if has_streams else {},
    )
