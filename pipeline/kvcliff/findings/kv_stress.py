"""Finding: was this a KV stress test, and do latency and KV rise together or does latency jump?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell
from kvcliff.findings.captures import CLIENT
from kvcliff.findings.marts import mart_columns, read_rows
from kvcliff.units import format_count, format_ms, format_pct


@dataclass(frozen=True)
class _Test:
    level: str | None
    replica_id: str
    verdict: str
    request_count: int
    prompt_tokens: int
    output_tokens: int
    swap_count: int
    used_ratio_first: float
    used_ratio_peak: float
    kv_itl_correlation: float | None
    itl_low_ms: float | None
    itl_high_ms: float | None


_CONFIDENCE = {"paging": 0.9, "both": 0.85, "bandwidth": 0.8, "flat": 0.7}


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    if not mart_columns(con, "stress_tests"):
        return (cannot_tell("KV stress test: no file holds the lengths of a client's requests.", CLIENT),)
    tests = read_rows(con, "stress_tests", _Test, order="level nulls first, replica_id")
    return tuple(_result(test) for test in tests)


def _result(test: _Test) -> Result:
    begin = (
        f"This was a KV stress test{_where(test)}: {format_count(test.request_count)} requests with prompts "
        f"of {format_count(test.prompt_tokens)} and outputs of {format_count(test.output_tokens)} tokens, "
        f"KV from {format_pct(test.used_ratio_first)} to {format_pct(test.used_ratio_peak)}"
    )
    evidence = _evidence(test)
    if test.verdict not in _CONFIDENCE:
        why = (
            "the ceiling was not reached; add users"
            if test.verdict == "not_full"
            else "no latency was recorded on the way up"
        )
        return cannot_tell(f"{begin}; {why}.", None if test.verdict == "not_full" else CLIENT, evidence)
    return Result(
        "found",
        "info",
        _CONFIDENCE[test.verdict],
        f"{begin}. {_verdict_words(test)}",
        evidence=(evidence,),
    )


def _verdict_words(test: _Test) -> str:
    way = _way_words(test)
    points = f"{format_count(test.swap_count)} swap point{'' if test.swap_count == 1 else 's'}"
    match test.verdict:
        case "both":
            return (
                f"First both rose together{way}: bandwidth; then latency jumped at the ceiling ({points}): "
                "paging."
            )
        case "paging":
            return (
                f"Latency did not follow KV on the way{way}, then jumped at the ceiling ({points}): paging."
            )
        case "bandwidth":
            return f"Latency and KV rose together{way} without a jump: bandwidth, not paging."
        case _:
            return f"Latency stayed flat up to the ceiling{way}: neither bandwidth nor paging hurts here."


def _way_words(test: _Test) -> str:
    if test.itl_low_ms is None or test.itl_high_ms is None:
        return ""
    return (
        f" (median ITL {format_ms(test.itl_low_ms)} at first, {format_ms(test.itl_high_ms)} near the ceiling)"
    )


def _where(test: _Test) -> str:
    level = f" at level {test.level}" if test.level is not None else ""
    replica = f" on replica {test.replica_id}" if test.replica_id != "0" else ""
    return f"{level}{replica}"


def _evidence(test: _Test) -> Evidence:
    level = "level is null" if test.level is None else f"level = '{_escaped(test.level)}'"
    return Evidence(
        "stress_tests",
        f"{level} and replica_id = '{_escaped(test.replica_id)}'",
        (
            ("request_count", test.request_count),
            ("prompt_tokens", test.prompt_tokens),
            ("output_tokens", test.output_tokens),
            ("used_ratio_first", test.used_ratio_first),
            ("used_ratio_peak", test.used_ratio_peak),
            ("swap_count", test.swap_count),
            ("kv_itl_correlation", test.kv_itl_correlation),
            ("itl_low_ms", test.itl_low_ms),
            ("itl_high_ms", test.itl_high_ms),
        ),
    )


def _escaped(text: str) -> str:
    return text.replace("'", "''")


FINDING = Finding(
    name="kv_stress",
    question="Was this a KV stress test: do latency and KV rise together, or does latency jump?",
    evaluate=_evaluate,
)
