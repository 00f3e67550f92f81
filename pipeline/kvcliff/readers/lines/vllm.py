"""The grammar of vLLM logs (0.3 to 0.33): periodic statistics, iterations and what they are made of."""

import re
from typing import Final

from kvcliff.readers.lines.base import (
    NUMBER,
    Grammar,
    Head,
    IterationRow,
    PrefixHit,
    Record,
    Row,
    Rule,
    StatsRow,
    UnreadableLineError,
    amount_of,
    count_of,
    ratio_of_pct,
)
from kvcliff.readers.lines.vllm_events import EVENT_RULES
from kvcliff.readers.lines.vllm_startup import STARTUP_RULES
from kvcliff.readers.lines.vllm_tiers import TIER_RULES

#: Occupancy = blocks that running requests refer to; cached blocks nobody refers to count as free.
KV_SEMANTICS: Final = "referenced_blocks"

_HEAD = Head(
    first_bytes=b"IWEDC",
    pattern=re.compile(
        rb"(INFO|WARNING|ERROR|DEBUG|CRITICAL)\s+(\d\d-\d\d \d\d:\d\d:\d\d)"
        rb" \[?[\w./-]+\.py:\d+\] ?"
    ),
)
_THROUGHPUT = re.compile(
    rf"(?:(?P<engines>\d{{1,6}}) Engines Aggregated: |Engine (?P<engine>-?\d{{1,9}}): )?"
    rf"Avg prompt throughput: (?P<prompt>{NUMBER}) tokens/s, "
    rf"Avg generation throughput: (?P<generation>{NUMBER}) tokens/s, (?P<rest>.*)",
    re.DOTALL,
)
_REQUESTS = re.compile(r"(\d+) reqs")
_KV_SUFFIX: Final = " KV cache usage"
_V0_HIT = re.compile(rf"Prefix cache hit rate: GPU: ({NUMBER})%, CPU: ({NUMBER})%")
_ITERATION = re.compile(
    rf"(?:Engine (?P<engine>\d{{1,9}}): )?Iteration\((?P<number>\d+)\): "
    rf"(?P<cr>\d+) context requests, (?P<ct>\d+) context tokens, (?P<gr>\d+) generation requests, "
    rf"(?P<gt>\d+) generation tokens, iteration elapsed time: (?P<ms>{NUMBER}) ms"
    rf"(?P<dummy> \(dummy\))?(?:, [A-Z]+{_KV_SUFFIX}: (?P<kv>{NUMBER})%)?(?:, [^,:]+: [^,]*)*"
)
_CRASH_STATS = re.compile(
    r"Dumping scheduler stats: SchedulerStats\(num_running_reqs=(?P<running>\d+), "
    rf"num_waiting_reqs=(?P<waiting>\d+),.*?\bkv_cache_usage=(?P<kv>{NUMBER})"
)


def _fields(rest: str) -> dict[str, str]:
    """Return the comma list of a stats line as key and value; parts that are no pair are left out."""
    fields: dict[str, str] = {}
    for part in rest.rstrip().removesuffix(".").split(", "):
        key, colon, value = part.partition(": ")
        if not colon:
            continue
        key = "Waiting" if key == "Pending" else key
        if key in fields:
            raise UnreadableLineError("a field appears twice in a statistics line")
        fields[key] = value
    return fields


def _requests(fields: dict[str, str], key: str) -> int | None:
    match = _REQUESTS.fullmatch(fields.get(key, ""))
    return count_of(match[1]) if match else None


def _pct(fields: dict[str, str], key: str) -> float | None:
    value = fields.get(key, "")
    return ratio_of_pct(value[:-1]) if value.endswith("%") else None


def _kv_ratios(fields: dict[str, str]) -> tuple[float | None, float | None]:
    """Return device and host occupancy; the CPU's is swap space beside ``Swapped`` (V0), else the device."""
    devices = [key for key in fields if key.endswith(_KV_SUFFIX) and fields[key].endswith("%")]
    host = "CPU" + _KV_SUFFIX if "Swapped" in fields else ""
    device = next((key for key in devices if key != host), None)
    if device is None:
        raise UnreadableLineError("a statistics line lacks the KV cache usage")
    return _pct(fields, device), _pct(fields, host)


def parse_stats(record: Record) -> tuple[Row, ...]:
    """Return the row of a periodic statistics line; unknown fields are allowed, missing ones are null."""
    if "Avg prompt throughput" not in record.message:
        return ()
    match = _THROUGHPUT.match(record.message)
    if match is None:
        raise UnreadableLineError("a statistics line has another form than known")
    fields = _fields(match["rest"])
    if "Running" not in fields or "Waiting" not in fields:
        raise UnreadableLineError("a statistics line lacks the running or waiting requests")
    device, host = _kv_ratios(fields)
    return (
        StatsRow(
            line_no=record.line_no,
            src_ns=record.src_ns,
            engine=record.engine(match["engine"]),
            engine_count=int(match["engines"] or 1),
            kv_semantics=KV_SEMANTICS,
            prompt_tokens_per_s=amount_of(match["prompt"]),
            gen_tokens_per_s=amount_of(match["generation"]),
            running_count=_requests(fields, "Running"),
            waiting_count=_requests(fields, "Waiting"),
            swapped_count=_requests(fields, "Swapped"),
            deferred_count=_requests(fields, "Deferred"),
            preemption_count=count_of(fields.get("Preemptions")),
            kv_used_ratio=device,
            host_kv_used_ratio=host,
            prefix_hit_ratio=_pct(fields, "Prefix cache hit rate"),
            external_hit_ratio=_pct(fields, "External prefix cache hit rate"),
        ),
    )


def parse_v0_hit(record: Record) -> tuple[Row, ...]:
    """Return V0's hit rate, printed on the line after the statistics."""
    match = _V0_HIT.match(record.message)
    if match is None:
        raise UnreadableLineError("a prefix cache line has another form than known")
    return (PrefixHit(record.engine(), ratio_of_pct(match[1])),)


def parse_iteration(record: Record) -> tuple[Row, ...]:
    """Return the row of an iteration line of either form."""
    if "Iteration(" not in record.message:
        return ()
    match = _ITERATION.fullmatch(record.message.rstrip())
    if match is None:
        raise UnreadableLineError("an iteration line has another form than known")
    engine, number, cr, ct, gr, gt, ms, dummy, kv = match.groups()
    return (
        IterationRow(
            record.line_no,
            record.src_ns,
            record.engine(engine),
            count_of(number),
            count_of(cr),
            count_of(ct),
            count_of(gr),
            count_of(gt),
            amount_of(ms),
            ratio_of_pct(kv),
            dummy is not None,
        ),
    )


def parse_crash_stats(record: Record) -> tuple[Row, ...]:
    """Return the scheduler state that a dying engine dumps, as one more sample."""
    match = _CRASH_STATS.match(record.message)
    if match is None:
        return ()
    used = amount_of(match["kv"])
    return (
        StatsRow(
            line_no=record.line_no,
            src_ns=record.src_ns,
            engine=record.engine(),
            engine_count=1,
            kv_semantics=KV_SEMANTICS,
            running_count=count_of(match["running"]),
            waiting_count=count_of(match["waiting"]),
            kv_used_ratio=used if used is not None and used <= 1 else None,
        ),
    )


_DIGITS: Final = tuple(b"%d" % digit for digit in range(10))

VLLM: Final = Grammar(
    name="vllm",
    title="vLLM",
    tried_on_real_files=True,
    heads=(_HEAD,),
    rules=(
        Rule("iteration", "raw_log_iterations", parse_iteration, starts=(b"Engine ", b"Iteration(")),
        Rule("stats", "raw_log_stats", parse_stats, starts=(b"Avg prompt throughput", b"Engine ", *_DIGITS)),
        Rule("v0_prefix_hit", "raw_log_stats", parse_v0_hit, starts=(b"Prefix cache hit rate: GPU",)),
        Rule("crash_stats", "raw_log_stats", parse_crash_stats, starts=(b"Dumping scheduler stats",)),
        *EVENT_RULES,
        *TIER_RULES,
        *STARTUP_RULES,
    ),
    interest=(
        (b"Avg prompt throughput", "a statistics line has no complete head"),
        (b"Iteration(", "an iteration line has no complete head"),
    ),
    content_starts=(
        b"Received request",
        b"Request ",
        b"Generated ",
        b"Added request",
        b"Aborted request",
        b"Finished request",
    ),
)
