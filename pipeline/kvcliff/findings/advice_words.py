"""What could be changed and what it would gain, as sentences over the rows of the mart advice."""

from collections.abc import Callable, Iterable

import duckdb

from kvcliff.findings.cited import CitedRow, CitedSentence
from kvcliff.findings.marts import mart_columns
from kvcliff.units import format_bytes, format_count, format_ms, format_number, format_pct

#: What each change is called.
CHANGES = {
    "as_run": "This run",
    "gqa_model": "A GQA model",
    "kv_fp8": "FP8 KV cache",
    "kv_int4": "INT4 KV cache",
    "cap_length": "A cap of the request length (max_model_len)",
    "cap_sequences": "A cap of running requests (max_num_seqs)",
    "prefix_sharing": "Prefix sharing",
    "kv_tier": "A tiered KV pool",
}
#: What each state is called, for changes that are worth a sentence of their own.
STATES = {"advised": "advised", "optional": "possible", "other_model": "another model, no setting"}
#: What it takes to have a tier, least first.
TIER_EFFORT = (
    "Effort: native offloading to host memory is a switch of the engine, LMCache a connector in every "
    "engine, a shared pool such as Mooncake a service of its own with a fast network"
)
_SQL = """
select *
from advice
where level is not distinct from ? and replica_id is not distinct from ?
order by "rank"
"""


_CEILING_SQL = """
select *
from predictions
where
    level is not distinct from ? and replica_id is not distinct from ?
    and basis = 'kv_ceiling'
    and factor > 1 and factor <= (select value from thresholds where name = 'predict_level_factor')
"""


def read_advice(
    con: duckdb.DuckDBPyConnection, level: str | None, replica_id: str | None
) -> tuple[CitedRow, ...]:
    """Return the rows of the mart for one engine, in the order to try the changes.

    Args:
        con: connection on which the run is exposed.
        level: level of a sweep, or ``None``.
        replica_id: engine replica.
    """
    if not mart_columns(con, "advice"):
        return ()
    result = con.execute(_SQL, [level, replica_id])
    names = [str(column[0]) for column in result.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    return tuple(CitedRow("advice", row_filter(level, replica_id, advice=row["advice"]), row) for row in rows)


def ceiling_sentences(
    con: duckdb.DuckDBPyConnection, level: str | None, replica_id: str | None
) -> tuple[CitedSentence, ...]:
    """Return at how many sequences KV reaches its ceiling, when that is not far from what ran.

    Args:
        con: connection on which the run is exposed.
        level: level of a sweep, or ``None``.
        replica_id: engine replica.
    """
    if not mart_columns(con, "predictions"):
        return ()
    result = con.execute(_CEILING_SQL, [level, replica_id])
    names = [str(column[0]) for column in result.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    return tuple(
        _ceiling_sentence(CitedRow("predictions", row_filter(level, replica_id, basis="kv_ceiling"), row))
        for row in rows
    )


def _ceiling_sentence(row: CitedRow) -> CitedSentence:
    text = (
        "With the lengths of this run KV reaches its ceiling at about "
        f"{row.say('sequences', format_count)} concurrent sequences, "
        f"{row.say('factor', format_number)} times those that ran"
    )
    if row.has("tokens_per_s", "step_ms"):
        text += (
            f"; there {row.say('tokens_per_s', format_number)} tokens/s and an ITL of "
            f"{row.say('step_ms', format_ms)} are predicted"
        )
    elif row.has("reason"):
        text += f"; ITL and throughput are not predicted: {row.word('reason')}"
    return CitedSentence(f"{text}.", tuple(row.quoted))


def row_filter(level: str | None, replica_id: str | None, **columns: str | int) -> str:
    """Return the SQL condition that shows the rows of one engine; ``columns`` narrow it further."""
    parts = [f"{name} = {_literal(value)}" for name, value in sorted(columns.items())]
    parts += [
        f"{name} is null" if value is None else f"{name} = {_literal(value)}"
        for name, value in (("level", level), ("replica_id", replica_id))
    ]
    return " and ".join(parts)


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def advice_sentences(rows: Iterable[CitedRow]) -> tuple[CitedSentence, ...]:
    """Return one sentence per change that this run supports, in the order to try them.

    Args:
        rows: rows of the mart for one engine.
    """
    by_name = {row.word("advice"): row for row in rows}
    if "as_run" not in by_name:
        return ()
    now = by_name.pop("as_run")
    return tuple(
        _sentence(now, row, _WORDS[name])
        for name, row in by_name.items()
        if row.word("state") in STATES and name in _WORDS
    )


def refusal_sentences(rows: Iterable[CitedRow]) -> tuple[CitedSentence, ...]:
    """Return why the other changes would not pay, are so already or cannot be judged; one per reason."""
    by_name = {row.word("advice"): row for row in rows}
    now = by_name.pop("as_run", None)
    if now is None:
        return ()
    grouped: dict[tuple[str, str], list[str]] = {}
    for name, row in by_name.items():
        if row.word("state") not in STATES:
            grouped.setdefault((row.word("state"), row.word("reason")), []).append(name)
    sentences = []
    for (state, reason), names in grouped.items():
        now.quoted.clear()
        what = ", ".join(_lower(CHANGES.get(name, name)) for name in names)
        detail = _peak_detail(now) if "KV was far" in reason or "KV did not reach" in reason else ""
        detail = detail or _hit_detail(by_name[names[0]])
        cited = (*now.quoted, *by_name[names[0]].quoted)
        sentences.append(
            CitedSentence(f"{_REFUSALS.get(state, state)} {what}, because {reason}{detail}.", cited)
        )
    return tuple(sentences)


_REFUSALS = {
    "no_gain": "Nothing to gain from",
    "already": "Already so:",
    "unsuitable": "Not suitable:",
    "cannot_tell": "Cannot tell about",
}


def _lower(name: str) -> str:
    """Return a name as it stands inside a sentence; names in capitals stay."""
    return name if name[1].isupper() else name[0].lower() + name[1:]


def _peak_detail(now: CitedRow) -> str:
    now_peak = now.has("peak_ratio")
    return f" (it peaked at {now.say('peak_ratio', format_pct)})" if now_peak else ""


def _hit_detail(row: CitedRow) -> str:
    row.quoted.clear()
    if row.has("tier_hit_ratio"):
        return f" ({row.say('tier_hit_ratio', format_pct)} of the looked-up prompt tokens came from it)"
    if not row.has("reuse_ratio"):
        return ""
    if row.word("advice") == "kv_tier":
        return f" ({'; '.join(_tier_estimates(row))})"
    share = row.say("reuse_ratio", format_pct)
    return f" ({share} of the looked-up prompt tokens; {row.word('reuse_origin')})"


def _sentence(
    now: CitedRow, row: CitedRow, words: Callable[[CitedRow, CitedRow], tuple[str, ...]]
) -> CitedSentence:
    now.quoted.clear()
    row.quoted.clear()
    head = f"{CHANGES[row.word('advice')]} ({STATES[row.word('state')]}; {row.word('reason')})"
    parts = [part for part in words(now, row) if part]
    text = f"{head}: {'; '.join(parts)}." if parts else f"{head}."
    return CitedSentence(text, (*now.quoted, *row.quoted))


def _smaller_kv(now: CitedRow, row: CitedRow) -> tuple[str, ...]:
    return (_per_token(now, row), _ceiling(now, row), _peak(now, row), *_speed(now, row))


def _per_token(now: CitedRow, row: CitedRow) -> str:
    if not (row.has("kv_bytes_per_token") and now.has("kv_bytes_per_token")):
        return ""
    return (
        f"{row.say('kv_bytes_per_token', format_bytes)} of KV per token instead of "
        f"{now.say('kv_bytes_per_token', format_bytes)}"
    )


def _ceiling(now: CitedRow, row: CitedRow) -> str:
    if not (row.has("ceiling_tokens") and now.has("ceiling_tokens")):
        return ""
    text = (
        f"the pool would hold {row.say('ceiling_tokens', format_count)} tokens instead of "
        f"{now.say('ceiling_tokens', format_count)}"
    )
    if row.has("ceiling_requests") and now.has("ceiling_requests"):
        text += (
            f", {row.say('ceiling_requests', format_count)} requests of this run's mean length instead of "
            f"{now.say('ceiling_requests', format_count)}"
        )
    return text


def _peak(now: CitedRow, row: CitedRow) -> str:
    if not row.has("peak_ratio"):
        return ""
    fits = "have fitted" if row.values.get("is_peak_fitting") else "not have fitted"
    more = "" if now.values.get("is_peak_fitting") else "; what waited then comes on top"
    return f"the peak that was seen would {fits} ({row.say('peak_ratio', format_pct)} of that pool{more})"


def _speed(now: CitedRow, row: CitedRow) -> tuple[str, ...]:
    parts = []
    if row.has("floor_ms") and now.has("floor_ms"):
        parts.append(
            f"decode floor {row.say('floor_ms', format_ms)} instead of {now.say('floor_ms', format_ms)}"
        )
    if row.has("step_ms", "tokens_per_s", "assumption") and now.has("step_ms", "tokens_per_s"):
        parts.append(
            f"predicted ITL {row.say('step_ms', format_ms)} instead of {now.say('step_ms', format_ms)} and "
            f"{row.say('tokens_per_s', format_number)} tokens/s instead of "
            f"{now.say('tokens_per_s', format_number)}, assuming that {row.word('assumption')}"
        )
    elif row.has("step_reason"):
        parts.append(f"ITL and throughput are not predicted: {row.word('step_reason')}")
    return tuple(parts)


def _length_cap(now: CitedRow, row: CitedRow) -> tuple[str, ...]:
    parts = []
    if row.has("cap", "affected_ratio"):
        parts.append(
            f"at {row.say('cap', format_count)} tokens it refuses {row.say('affected_ratio', format_pct)} "
            "of this run's requests"
        )
    if row.has("ceiling_requests") and now.has("ceiling_requests"):
        parts.append(
            f"{row.say('ceiling_requests', format_count)} of the others would fit instead of "
            f"{now.say('ceiling_requests', format_count)}"
        )
    return tuple(parts)


def _sequence_cap(now: CitedRow, row: CitedRow) -> tuple[str, ...]:
    if not row.has("cap"):
        return ()
    parts = [f"at about {row.say('cap', format_count)} it refuses nobody"]
    if row.has("affected_ratio"):
        parts.append(f"more ran in {row.say('affected_ratio', format_pct)} of the samples, these would wait")
    # At a cap above the typical batch steps stay as they are.
    return (*parts, *(_speed(now, row) if row.has("assumption") else ()))


def _shared_prefixes(_: CitedRow, row: CitedRow) -> tuple[str, ...]:
    if not row.has("reuse_ratio"):
        return ()
    repeated = row.say("reuse_ratio", format_pct)
    found = f", {row.say('hit_ratio', format_pct)} were hits" if row.has("hit_ratio") else ""
    saved = row.has("recompute_ms")
    return (
        f"{repeated} of the prompt tokens repeat ({row.word('reuse_origin')}){found}",
        f"that part of a mean prompt takes at least {row.say('recompute_ms', format_ms)} to compute"
        if saved
        else "",
        "it saves prefill and makes no decode step shorter",
    )


def _tier(_: CitedRow, row: CitedRow) -> tuple[str, ...]:
    return (*_tier_estimates(row), TIER_EFFORT)


def _tier_estimates(row: CitedRow) -> tuple[str, ...]:
    """Return what is known of the share of reusable prefixes, the break-even and the prefetch needed."""
    parts = []
    if row.has("reuse_ratio"):
        reusable = row.say("reuse_ratio", format_pct)
        parts.append(f"reusable: {reusable} of the prompt tokens ({row.word('reuse_origin')})")
    if row.has("transfer_ms", "recompute_ms"):
        parts.append(
            f"fetching that part of a mean prompt takes {row.say('transfer_ms', format_ms)}, computing it "
            f"again at least {row.say('recompute_ms', format_ms)}"
        )
    if row.has("prefetch_ratio"):
        parts.append(
            f"{row.say('prefetch_ratio', format_pct)} of the fetches must be over in time, so that the mean "
            "wait stays within one decode step"
        )
    return tuple(parts)


_WORDS: dict[str, Callable[[CitedRow, CitedRow], tuple[str, ...]]] = {
    "gqa_model": _smaller_kv,
    "kv_fp8": _smaller_kv,
    "kv_int4": _smaller_kv,
    "cap_length": _length_cap,
    "cap_sequences": _sequence_cap,
    "prefix_sharing": _shared_prefixes,
    "kv_tier": _tier,
}
