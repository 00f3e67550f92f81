"""Finding: do log, metrics, clients and block arithmetic contradict each other?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.captures import LOG, SCRAPE
from kvcliff.findings.marts import query_rows
from kvcliff.units import format_count, format_number, format_pct


@dataclass(frozen=True)
class _Pair:
    level: str | None
    replica_id: str
    topic: str
    first_source: str
    second_source: str
    first_value: float
    second_value: float
    compared_count: int
    differing_count: int
    is_disagreement: bool


@dataclass(frozen=True)
class _Source:
    source_id: int


@dataclass(frozen=True)
class _Topic:
    """What a fact is called, and what to do when two sources do not agree on it."""

    words: str
    action: str


_TOPICS = {
    "kv_capacity": _Topic(
        "the size of the KV cache",
        "Check that log and metrics come from the same engine and start; until then the capacity ledger "
        "goes by the log.",
    ),
    "kv_used": _Topic(
        "KV occupancy",
        "Check that log and scrapes come from the same replica; the report draws one of them, see origin "
        "in kv_occupancy.",
    ),
    "running": _Topic(
        "running requests",
        "Check that log and scrapes come from the same replica, and that every engine process is scraped.",
    ),
    "preemptions": _Topic(
        "preemptions",
        "Check that the scraped replica is the one that wrote the log; the log's events are kept.",
    ),
    "generated_tokens": _Topic(
        "generated tokens",
        "Scrape every replica that serves these clients: the scraped ones generated less than was received.",
    ),
}
_SQL = """
select
    level, replica_id, topic, first_source, second_source, first_value, second_value,
    compared_count, differing_count, is_disagreement
from source_agreement
order by topic, level, replica_id, first_source, second_source
"""
_METRICS_SQL = "select source_id from sources where role = 'metrics' and row_count > 0 order by source_id"
_CONFIDENCE = 0.8


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    pairs = query_rows(con, ("source_agreement",), _Pair, _SQL)
    if not pairs:
        return (_nothing_to_compare(con),)
    found = tuple(
        _disagreement(topic, contradicting)
        for topic in _TOPICS
        if (contradicting := tuple(pair for pair in pairs if pair.topic == topic and pair.is_disagreement))
    )
    return found or (_agreed(pairs),)


def _nothing_to_compare(con: duckdb.DuckDBPyConnection) -> Result:
    has_metrics = bool(query_rows(con, ("sources",), _Source, _METRICS_SQL))
    return cannot_tell(
        "Agreement of sources: no two sources of the run state the same fact.", LOG if has_metrics else SCRAPE
    )


def _disagreement(topic: str, pairs: tuple[_Pair, ...]) -> Result:
    # The pair that is contradicted most often stands for its topic; ties go by the order of the rows.
    worst = max(pairs, key=lambda pair: pair.differing_count / max(pair.compared_count, 1))
    more = f", and {format_count(len(pairs) - 1)} more" if len(pairs) > 1 else ""
    often = (
        f" at {format_count(worst.differing_count)} of {format_count(worst.compared_count)} shared moments"
        if worst.compared_count > 1 and topic in ("kv_used", "running")
        else ""
    )
    return Result(
        "found",
        "warning",
        _CONFIDENCE,
        f"Sources disagree on {_TOPICS[topic].words}: {_value(topic, worst.first_value)} by "
        f"{worst.first_source}, {_value(topic, worst.second_value)} by {worst.second_source}{often}{more}.",
        action=_TOPICS[topic].action,
        evidence=(_evidence(topic, worst, is_found=True),),
        reason="the difference is larger than sampling and the sources' definitions explain",
    )


def _agreed(pairs: tuple[_Pair, ...]) -> Result:
    topics = [entry.words for topic, entry in _TOPICS.items() if any(pair.topic == topic for pair in pairs)]
    return not_found(
        f"Sources agree within their definitions on {_listed(topics)}.",
        _CONFIDENCE,
        *(_evidence(pair.topic, pair, is_found=False) for pair in pairs[:1]),
        reason=f"{format_count(len(pairs))} pairs of sources were compared",
    )


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _value(topic: str, value: float) -> str:
    if topic == "kv_used":
        return format_pct(value)
    return format_number(value) if topic == "running" else format_count(value)


def _evidence(topic: str, pair: _Pair, *, is_found: bool) -> Evidence:
    condition = f"topic = '{topic}'" + (" and is_disagreement" if is_found else "")
    return Evidence(
        "source_agreement",
        condition,
        (
            ("first_value", pair.first_value),
            ("second_value", pair.second_value),
            ("compared_count", pair.compared_count),
            ("differing_count", pair.differing_count),
        ),
    )


FINDING = Finding(
    name="source_disagreement",
    question="Do log, metrics, clients and block arithmetic contradict each other?",
    evaluate=_evaluate,
)
