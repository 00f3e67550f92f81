"""The grammar of LMDeploy logs: one periodic statistics line, much like vLLM's."""

import re
from dataclasses import replace
from typing import Final

from kvcliff.readers.envelope import Envelope, Process, moment_ns
from kvcliff.readers.lines.base import (
    NUMBER,
    Grammar,
    Head,
    Record,
    Row,
    Rule,
    StatsRow,
    UnreadableLineError,
    amount_of,
    count_of,
    ratio_of_pct,
)

#: Occupancy = blocks that are not free.
KV_SEMANTICS: Final = "used_blocks"
_HEAD = re.compile(
    rb"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[,.](?P<fraction>\d{1,9}))? - lmdeploy - "
    rb"(?P<level>[A-Z]{4,8}) - (?:\S{1,128} - )?"
)
_STATS = re.compile(
    rf"(?:DP: (?P<group>\d{{1,6}}), )?Avg prompt throughput: (?P<prompt>{NUMBER}) tokens/s, "
    rf"Avg generation throughput: (?P<generation>{NUMBER}) tokens/s, "
    rf"Running: (?P<running>\d+) reqs, Waiting: (?P<waiting>\d+) reqs, "
    rf"[A-Z]{{2,8}} KV cache usage: (?P<kv>{NUMBER})%"
)


def unwrap(match: re.Match[bytes], envelope: Envelope) -> Envelope:
    """Return the envelope with stamp and level of the head."""
    return replace(
        envelope,
        outer_local_ns=moment_ns(match["stamp"], match["fraction"]),
        outer_resolution_ns=envelope.inner_step_ns(match["fraction"]),
        process=envelope.process or Process("lmdeploy", "0", ""),
        level=match["level"].decode(),
    )


def parse_stats(record: Record) -> tuple[Row, ...]:
    """Return the row of a periodic statistics line."""
    match = _STATS.match(record.message)
    if match is None:
        raise UnreadableLineError("a statistics line has another form than known")
    return (
        StatsRow(
            line_no=record.line_no,
            src_ns=record.src_ns,
            engine=record.engine(match["group"]),
            engine_count=1,
            kv_semantics=KV_SEMANTICS,
            prompt_tokens_per_s=amount_of(match["prompt"]),
            gen_tokens_per_s=amount_of(match["generation"]),
            running_count=count_of(match["running"]),
            waiting_count=count_of(match["waiting"]),
            kv_used_ratio=ratio_of_pct(match["kv"]),
        ),
    )


LMDEPLOY: Final = Grammar(
    name="lmdeploy",
    title="LMDeploy",
    heads=(Head(b"123456789", _HEAD, unwrap),),
    rules=(Rule("stats", "raw_log_stats", parse_stats, starts=(b"DP: ", b"Avg prompt throughput")),),
    engine="lmdeploy",
)
