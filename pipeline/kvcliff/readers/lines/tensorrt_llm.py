"""The grammar of TensorRT-LLM logs: iteration lines in four spellings, and the size of the KV cache."""

import re
from dataclasses import replace
from typing import Final

from kvcliff.readers.envelope import Envelope, Process, calendar_ns
from kvcliff.readers.lines.base import (
    NUMBER,
    Grammar,
    Head,
    IterationRow,
    Record,
    Row,
    Rule,
    UnreadableLineError,
    amount_of,
    count_of,
)
from kvcliff.readers.lines.facts import Fact, bytes_fact, count_fact, setting_rows
from kvcliff.units import GIB

#: Occupancy = blocks that are not free; whether reusable blocks count as free depends on the cache manager.
KV_SEMANTICS: Final = "used_blocks"
#: Behind the stamp stand rank, level and module in brackets, in changing order; mpirun adds its own rank.
_HEAD = re.compile(
    rb"(?:\d{1,6}: )?\[(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4})-(?P<clock>\d\d:\d\d:\d\d)\] "
    rb"\[TRT-LLM\](?P<tags>(?: ?\[[^\]\n]{1,32}\]){0,4}) "
)
_RANK_TAG = re.compile(rb"\[RANK (\d{1,6})\]")
_LEVEL_TAG = re.compile(rb"\[([IWEDFV])\]")
_LEVELS: Final = ((b"W", "WARNING"), (b"E", "ERROR"), (b"F", "CRITICAL"))
_FIELDS: Final = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("iteration", r"\biter = (\d{1,18})\b"),
        ("rank", r"(?<![_\w])rank = (\d{1,6})\b"),
        ("scheduled", r"\bnum_scheduled_requests\s?[:=] (\d{1,18})\b"),
        ("kv", r"\bkv_cache_util = ([\d.]{1,20})(?=,|\s|$)"),
        ("host_ms", rf"\bhost_step_time = ({NUMBER})ms"),
        ("device_ms", rf"\bprev_device_step_time = ({NUMBER})ms"),
        ("elapsed_s", rf"\belapsed_time = ({NUMBER})s"),
        ("context_requests", r"'num_ctx_requests': (\d{1,18})\b"),
        ("context_tokens", r"'num_ctx_tokens': (\d{1,18})\b"),
        ("generation_tokens", r"'num_generation_tokens': (\d{1,18})\b"),
    )
)
_NEEDED: Final = ("iteration", "scheduled", "context_requests", "context_tokens", "generation_tokens")
_KV_MEMORY = re.compile(
    rf"available KV cache memory when calculating max tokens: (?P<available>{NUMBER}) GiB, "
    rf"fraction is set (?P<fraction>{NUMBER}), kv size is (?P<token>\d+)"
    rf"(?:\.? device total memory (?P<total>{NUMBER}) GiB)?"
)


def unwrap(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with stamp, rank and level of the head."""
    rank, level = _RANK_TAG.search(match["tags"]), _LEVEL_TAG.search(match["tags"])
    number = str(int(rank[1])) if rank else "0"
    stamp = b"%s-%s-%s %s" % (match["year"], match["month"], match["day"], match["clock"])
    return replace(
        envelope,
        outer_local_ns=calendar_ns(stamp),
        outer_resolution_ns=envelope.inner_step_ns(),
        process=Process(f"rank {number}", number, f"rank{number}" if number != "0" else ""),
        level=dict(_LEVELS).get(level[1], "INFO") if level else "INFO",
    )


def parse_iteration(record: Record) -> tuple[Row, ...]:
    """Return the row of an iteration; each field is looked for on its own, since their order changed."""
    found = {
        name: match[1] for name, pattern in _FIELDS if (match := pattern.search(record.message)) is not None
    }
    if not all(name in found for name in _NEEDED):
        raise UnreadableLineError("an iteration line lacks a field")
    scheduled, context = int(found["scheduled"]), int(found["context_requests"])
    if context > scheduled:
        raise UnreadableLineError("an iteration line has more context requests than requests")
    elapsed_ms, elapsed_s = amount_of(found.get("host_ms")), amount_of(found.get("elapsed_s"))
    if elapsed_ms is None and elapsed_s is not None:
        elapsed_ms = elapsed_s * 1e3
    used, iteration = amount_of(found.get("kv")), int(found["iteration"])
    return (
        IterationRow(
            record.line_no,
            record.src_ns,
            record.engine(found.get("rank")),
            iteration,
            context,
            count_of(found["context_tokens"]),
            scheduled - context,
            count_of(found["generation_tokens"]),
            elapsed_ms,
            used if used is not None and used <= 1 else None,
            is_dummy=False,
            kv_semantics=KV_SEMANTICS,
            previous_device_ms=amount_of(found.get("device_ms")),
            is_warmup=iteration <= 1,
        ),
    )


def parse_kv_memory(record: Record) -> tuple[Row, ...]:
    """Return the memory of the KV cache and of one token in it."""
    match = _KV_MEMORY.search(record.message)
    if match is None:
        return ()
    fraction = amount_of(match["fraction"])
    return setting_rows(
        record,
        [
            bytes_fact("kv_cache_bytes", match["available"], GIB),
            count_fact("kv_bytes_per_token", match["token"], "bytes"),
            bytes_fact("total_gpu_memory_bytes", match["total"], GIB),
            Fact("kv_memory_fraction", f"{fraction:.12g}", "ratio")
            if fraction is not None and fraction <= 1
            else None,
        ],
    )


TENSORRT_LLM: Final = Grammar(
    name="tensorrt_llm",
    title="TensorRT-LLM",
    heads=(Head(b"[0123456789", _HEAD, unwrap),),
    rules=(
        Rule("iteration", "raw_log_iterations", parse_iteration, starts=(b"iter = ",)),
        Rule("kv_memory", "raw_settings", parse_kv_memory, starts=(b"Peak memory during", b"available KV")),
    ),
    engine="tensorrt_llm",
    interest=(
        (b"num_scheduled_requests", "an iteration line has no complete head"),
        (b'"Iteration Counter":', "statistics that the old C++ runtime logs as JSON are not read"),
    ),
)
