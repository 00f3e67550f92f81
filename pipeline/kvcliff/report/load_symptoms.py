"""Symptoms of the load: more of it that brings nothing, and requests that fail."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import query_rows
from kvcliff.report.symptom import Findings, Sighting, found_action, listed, with_value
from kvcliff.units import format_count, format_number


@dataclass(frozen=True)
class _Knee:
    level: str | None
    cause: str | None
    elasticity_beyond: float | None


#: How throughput grows beyond the knee is what the next level tells.
_KNEE_SQL = """
with placed as (
    select *, lead(elasticity) over (partition by sweep order by place_no, level) as elasticity_beyond
    from concurrency_knee
    where place_no is not null
)

select level, cause, elasticity_beyond
from placed
where is_knee
order by sweep nulls first, place_no, level
"""


def load_knee(con: duckdb.DuckDBPyConnection, findings: Findings) -> tuple[Sighting, ...]:
    """Return the knee of a sweep."""
    return tuple(
        Sighting(
            listed(
                f"knee at level {row.level}",
                with_value(
                    format_number,
                    row.elasticity_beyond,
                    "beyond it throughput grows {} times as fast as the load",
                ),
            ),
            {"kv": "KV pressure", None: "cause not known"}.get(row.cause, row.cause or ""),
            found_action(findings, "concurrency_knee"),
        )
        for row in query_rows(con, ("concurrency_knee",), _Knee, _KNEE_SQL)
    )


@dataclass(frozen=True)
class _Failures:
    failed_count: int
    request_count: int


_FAILURE_SQL = """
select count(*) filter (where is_error), count(*)
from requests
where not coalesce(is_warmup, false)
having
    count(*) filter (where is_error)
    > count(*) * (select value from thresholds where name = 'slo_missed_ratio')
"""


def failed_requests(con: duckdb.DuckDBPyConnection, _: Findings) -> tuple[Sighting, ...]:
    """Return that many requests failed."""
    return tuple(
        Sighting(
            f"{format_count(row.failed_count)} of {format_count(row.request_count)} requests failed",
            "refused, timed out or cut off; latencies are those of the requests that came through",
            "Read the client's errors beside the server log before trusting any latency.",
        )
        for row in query_rows(con, ("requests", "thresholds"), _Failures, _FAILURE_SQL)
    )
