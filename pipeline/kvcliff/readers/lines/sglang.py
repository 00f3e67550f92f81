"""The grammar of SGLang logs (0.1 to 0.5.23): prefill and decode batches, retractions, failures."""

import re
from dataclasses import replace
from typing import Final

from kvcliff.readers.envelope import Envelope, Process, moment_ns
from kvcliff.readers.lines.base import (
    Grammar,
    Handled,
    Head,
    LookupRow,
    RankedStats,
    Record,
    RepeatedEvent,
    Row,
    Rule,
    StatsRow,
    TierTransferRow,
    UnreadableLineError,
    amount_of,
    count_of,
    event_of,
    ratio_of_pct,
)
from kvcliff.readers.lines.sglang_requests import REQUEST_RULES
from kvcliff.readers.lines.sglang_startup import STARTUP_RULES
from kvcliff.units import NS_PER_S

#: Occupancy = tokens of running requests; cached tokens that can be evicted count as free.
KV_SEMANTICS: Final = "live_tokens"
_EVENTS: Final = "raw_log_events"

_RANK = re.compile(rb"(DP|PP|TP)(\d{1,6})")
#: Times of day stand alone before 0.3; on one GPU no rank is written since 0.5. A level or a process after
#: the bracket belongs to another producer that is wrapped in the same form.
_HEAD = re.compile(
    rb"\[(?:(?P<date>\d{4}-\d\d-\d\d) )?(?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{3,9}))?"
    rb"(?P<ranks>(?: (?:DP|PP|ATTN_CP|ATTN_DP|MOE_DP|TP|EP)\d{1,6}){0,8})\]\s{1,8}"
    rb"(?:\[gpu_id=(?P<gpu>\d{1,6})\]\s{1,8})?"
    rb"(?!\s|\(|(?:INFO|WARN|WARNING|ERROR|DEBUG|CRITICAL|LMCache)\b)"
)
_TP = re.compile(r"\bTP(\d+)")
_PP = re.compile(r"\bPP(\d+)")
_BATCH = re.compile(
    r"(?P<kind>Prefill|Decode) batch(?:\s?\[(?P<iteration>\d{1,18})\])?"
    r"(?:\s?\(mixed #running-req: \d{1,18}\))?[.,]\s(?P<rest>.*)",
    re.DOTALL,
)
_RETRACT = re.compile(
    r"(?P<what>KV cache pool is full\. Retract requests\.|Decode out of memory happened\."
    r"|Testing retraction\.)\s#retracted_reqs: (?P<count>\d+)(?:, #aborted_retracted_reqs: \d+)?"
    r"(?:, #new_tokens_gained: (?P<gained>\d+))?(?:, #mamba_num_gained: \d+)?"
    r"(?:, #new_token_ratio: (?P<ratios>[\d.]+ -> [\d.]+))?\s*$"
)
#: All ranks of an engine write the line within a moment, each on its own clock.
_RANKS_NS: Final = NS_PER_S
_FAILURES: Final = (
    ("Decode out of memory. Try to lower your batch size.", "decode_memory"),
    ("Prefill out of memory. Try to lower your batch size.", "prefill_memory"),
    ("Extend out of memory. Try to lower your batch size.", "prefill_memory"),
    ("Out of memory even after retracting all other requests", "memory_last_request"),
    ("Failed to retract any request. No space left for only one request.", "retract_impossible"),
    ("KV cache pool leak detected", "pool_leak"),
    ("Beam search group aborted: KV cache pool is full", "beam_search_memory"),
)
_PREFETCH = re.compile(
    r"HiCache prefetch (?P<status>success|dropped) req=(?P<id>\S{1,256}) completed=(?P<completed>\d+) "
    r"matched=(?P<matched>\d+) loaded=(?P<loaded>\d+) occupied=(?P<occupied>\d+)"
)
_FAILED_PAGES = re.compile(r"Write page to storage: (?P<pages>\d+) pages failed")
#: Which part of the usage each pool states; "full" is the main pool of hybrid models.
_MAIN_USAGE: Final = ("token usage", "full token usage")
_SIDE_USAGE: Final = ("swa token usage", "mamba usage")


def unwrap(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with the stamp and the ranks of the bracket."""
    ranks = {kind: int(number) for kind, number in _RANK.findall(match["ranks"])}
    rank, group = ranks.get(b"TP", int(match["gpu"] or 0)), ranks.get(b"DP", 0)
    parts = [f"{name}{number}" for name, number in (("dp", group), ("tp", rank)) if number]
    date, clock, fraction = match["date"], match["clock"], match["fraction"]
    stamp_ns = moment_ns((date or b"2000-01-01") + b" " + clock, fraction)
    return replace(
        envelope,
        outer_local_ns=stamp_ns if date else envelope.outer_local_ns,
        day_ns=None if date or stamp_ns is None else stamp_ns % (86_400 * NS_PER_S),
        outer_resolution_ns=envelope.inner_step_ns(fraction),
        process=Process(f"TP{rank} PP{ranks.get(b'PP', 0)}", str(group), "_".join(parts)),
        level="",
    )


def _fields(rest: str) -> dict[str, str]:
    """Return the comma list of a batch line as key and value; parts that are no pair are left out."""
    fields: dict[str, str] = {}
    for part in rest.split(","):
        key, colon, value = part.strip().partition(": ")
        if not colon:
            continue
        if key in fields:
            raise UnreadableLineError("a field appears twice in a batch line")
        fields[key] = value.strip()
    return fields


def _ratio(fields: dict[str, str], *keys: str) -> float | None:
    """Return the highest of these 0-1 ratios, or ``None`` when none of them is there."""
    values = [value for key in keys if (value := amount_of(fields.get(key))) is not None and value <= 1]
    return max(values, default=None)


def _rank(record: Record) -> int:
    stage, rank = _PP.search(record.process), _TP.search(record.process)
    return (int(stage[1]) if stage else 0) * 1_000_000 + (int(rank[1]) if rank else 0)


def parse_batch(record: Record) -> tuple[Row, ...]:
    """Return the sample of a prefill or decode line, and what a prefill found in the prefix cache."""
    match = _BATCH.match(record.message)
    if match is None:
        raise UnreadableLineError("a batch line has another form than known")
    fields, is_prefill = _fields(match["rest"]), match["kind"] == "Prefill"
    needed = ("#new-token", "#queue-req") if is_prefill else ("#running-req",)
    if any(count_of(fields.get(key)) is None for key in needed):
        raise UnreadableLineError("a batch line lacks a count")
    if not is_prefill and not any(key in fields for key in (*_MAIN_USAGE, *_SIDE_USAGE)):
        raise UnreadableLineError("a decode line lacks the token usage")
    graph = next((fields[key] for key in fields if key.endswith(" graph")), None)
    row = StatsRow(
        line_no=record.line_no,
        src_ns=record.src_ns,
        engine=record.engine(),
        engine_count=1,
        kv_semantics=KV_SEMANTICS,
        prompt_tokens_per_s=amount_of(fields.get("input throughput (token/s)")),
        gen_tokens_per_s=amount_of(fields.get("gen throughput (token/s)")),
        running_count=count_of(fields.get("#running-req")),
        waiting_count=count_of(fields.get("#queue-req")),
        kv_used_ratio=_ratio(fields, *_MAIN_USAGE, *_SIDE_USAGE),
        host_kv_used_ratio=_ratio(fields, "cpu token usage"),
        prefix_hit_ratio=ratio_of_pct(fields.get("cache hit rate", "").removesuffix("%")),
        kv_used_tokens=count_of(fields.get("#token", fields.get("#full token"))),
        side_kv_used_ratio=_ratio(fields, *_SIDE_USAGE),
        accept_length=amount_of(fields.get("accept len")),
        is_cuda_graph={"True": True, "False": False}.get(graph) if graph else None,
        is_action_logged=True,
    )
    return (RankedStats(_rank(record), row, _lookup(record, fields) if is_prefill else None),)


def _lookup(record: Record, fields: dict[str, str]) -> LookupRow | None:
    new, cached = count_of(fields.get("#new-token")), count_of(fields.get("#cached-token"))
    if new is None or cached is None or new + cached >= 1 << 62:
        return None
    return LookupRow(record.line_no, record.src_ns, record.engine(), "hbm", None, new + cached, cached)


def parse_retraction(record: Record) -> tuple[Row, ...]:
    """Return requests put back into the queue; every tensor-parallel rank writes the line, one is kept."""
    match = _RETRACT.match(record.message)
    if match is None:
        raise UnreadableLineError("a retraction line has another form than known")
    if match["what"].startswith("Testing"):
        return (Handled("a test switch, not memory pressure"),)
    event = event_of(record, "retract", "retract")._replace(
        tokens=count_of(match["gained"]), event_count=count_of(match["count"])
    )
    reason = "/".join(match[name] or "" for name in ("count", "gained", "ratios"))
    return (RepeatedEvent(event, f"{event.engine}/{reason}", window_ns=_RANKS_NS),)


def parse_failure(record: Record) -> tuple[Row, ...]:
    """Return an out-of-memory failure of the KV pool."""
    for literal, reason in _FAILURES:
        if literal in record.message:
            return (RepeatedEvent(event_of(record, "fatal"), f"{record.engine_no}/{reason}"),)
    return ()


def parse_prefetch(record: Record) -> tuple[Row, ...]:
    """Return a prefetch from the storage tier into host memory."""
    match = _PREFETCH.match(record.message)
    if match is None:
        return ()
    loaded, matched = count_of(match["loaded"]), count_of(match["matched"])
    return (
        TierTransferRow(
            record.line_no,
            record.src_ns,
            record.engine(),
            record.scope,
            "hicache",
            "prefetch",
            match["id"],
            loaded,
            asked_tokens=matched,
        ),
    )


def parse_tier_trouble(record: Record) -> tuple[Row, ...]:
    """Return KV that the host or storage tier could not take or give back."""
    if record.message.startswith("write_back: KV subtree dropped without backup"):
        return (RepeatedEvent(event_of(record, "offload_store_failed"), record.message[:160], window_ns=0),)
    pages = _FAILED_PAGES.match(record.message)
    if pages is not None:
        return (event_of(record, "tier_error")._replace(event_count=count_of(pages["pages"])),)
    if " failed to retrieve page" in record.message[:400]:
        return (event_of(record, "tier_error"),)
    return ()


SGLANG: Final = Grammar(
    name="sglang",
    title="SGLang",
    heads=(Head(b"[", _HEAD, unwrap),),
    rules=(
        Rule("batch", "raw_log_stats", parse_batch, starts=(b"Prefill batch", b"Decode batch")),
        Rule(
            "retract",
            _EVENTS,
            parse_retraction,
            starts=(
                b"KV cache pool is full. Retract",
                b"Decode out of memory happened",
                b"Testing retraction",
            ),
        ),
        Rule("failure", _EVENTS, parse_failure, contains=tuple(text.encode() for text, _ in _FAILURES)),
        Rule("hicache_prefetch", "raw_tier_transfers", parse_prefetch, starts=(b"HiCache prefetch ",)),
        Rule(
            "hicache_trouble",
            _EVENTS,
            parse_tier_trouble,
            starts=(b"write_back: KV subtree", b"Write page to storage: ", b"Prefetch operation "),
        ),
        *REQUEST_RULES,
        *STARTUP_RULES,
    ),
    interest=(
        (b"#running-req: ", "a batch line has no complete head"),
        (b"#retracted_reqs: ", "a retraction line has no complete head"),
    ),
    engine="sglang",
    content_starts=(b"Receive: obj=", b"Finish: obj=", b'{"timestamp"'),
)
