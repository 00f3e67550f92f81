"""The levels of a sweep in the order of their load, with the time in which each ran."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.marts import query_rows


@dataclass(frozen=True)
class Level:
    """One level of a sweep.

    Attributes:
        name: its label.
        number: the load that the label states, or ``None`` when it is no number.
        started_at_ns: its first sample.
        ended_at_ns: its last sample.
    """

    name: str
    number: float | None
    started_at_ns: int
    ended_at_ns: int


_SQL = """
with samples as (
    select level, ts_ns from kv_occupancy
    union all
    select level, ts_ns from token_latency
)

select level, try_cast(regexp_extract(level, '[0-9]+([.][0-9]+)?') as double), min(ts_ns), max(ts_ns)
from samples
where level is not null
group by level
order by 2 nulls last, 3, 1
"""


def read_levels(con: duckdb.DuckDBPyConnection) -> tuple[Level, ...]:
    """Return the levels of the run, the lightest first; none when the run is no sweep."""
    return query_rows(con, ("kv_occupancy", "token_latency"), Level, _SQL)


def level_range(levels: tuple[Level, ...], chosen: frozenset[str]) -> str:
    """Return which levels were chosen, in words: ``from level 96 on (none up to level 80)``.

    Args:
        levels: all levels, the lightest first.
        chosen: names of those the sentence is about.
    """
    names = [level.name for level in levels]
    hit = [name for name in names if name in chosen]
    first = names.index(hit[0])
    if names[first:] != hit:
        word = "level" if len(hit) == 1 else "levels"
        return f"at {word} {', '.join(hit)} of {len(names)}"
    if first == 0:
        return f"at each of the {len(names)} levels"
    on = f"from level {hit[0]} on" if len(hit) > 1 else f"at level {hit[0]}"
    return f"{on} (none up to level {names[first - 1]})"
