"""Finding: how far is the KV cache from its ceiling; would more KV room pay?"""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.base import Evidence, Finding, Result, cannot_tell, not_found
from kvcliff.findings.captures import SCRAPE
from kvcliff.findings.marts import query_rows, threshold
from kvcliff.units import format_pct


@dataclass(frozen=True)
class _Peak:
    level: str | None
    replica_id: str | None
    used_ratio: float
    ts_ns: int


_SQL = """
select level, replica_id, used_ratio, ts_ns
from kv_occupancy
where tier = 'hbm' and used_ratio is not null
order by used_ratio desc, ts_ns, level, replica_id
limit 1
"""


def _evaluate(con: duckdb.DuckDBPyConnection) -> tuple[Result, ...]:
    peaks = query_rows(con, ("kv_occupancy",), _Peak, _SQL)
    if not peaks or peaks[0].used_ratio <= 0:
        return (cannot_tell("KV headroom: no KV occupancy was recorded.", SCRAPE),)
    peak = peaks[0]
    evidence = Evidence(
        "kv_occupancy",
        f"tier = 'hbm' and ts_ns = {peak.ts_ns}",
        (("used_ratio", peak.used_ratio), ("ts_ns", peak.ts_ns)),
    )
    if peak.used_ratio < threshold(con, "kv_headroom_ratio"):
        return (
            Result(
                "found",
                "info",
                0.85,
                f"The KV cache has headroom: it peaked at {format_pct(peak.used_ratio)}, "
                "so a tiered KV pool or more KV memory would not pay.",
                evidence=(evidence,),
            ),
        )
    return (
        not_found(
            f"The KV cache has little headroom: it peaked at {format_pct(peak.used_ratio)}.", 0.85, evidence
        ),
    )


FINDING = Finding(
    name="headroom",
    question="How far is the KV cache from its ceiling; would more KV room pay?",
    evaluate=_evaluate,
)
