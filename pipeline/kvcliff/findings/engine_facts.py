"""Facts about the engine of a run that several findings need: its device, its limits, what it can hold."""

from dataclasses import dataclass

import duckdb

from kvcliff.findings.captures import MORE_KV_ROOM
from kvcliff.findings.marts import query_rows
from kvcliff.units import format_count

CPU_WORDS = "the engine runs on a CPU"


@dataclass(frozen=True)
class _Text:
    value: str | None


@dataclass(frozen=True)
class _Count:
    value: float | None


_HELD_SQL = """
with worst as (
    select level, replica_id, at_ns, end_ns
    from swap_points
    where swap_point_id = ?
)

select quantile_disc(kv.running_count, 0.5)
from worst
inner join kv_occupancy as kv
    on
        worst.replica_id = kv.replica_id
        and worst.level is not distinct from kv.level
        and kv.ts_ns between worst.at_ns and worst.end_ns
where kv.tier = 'hbm' and kv.running_count > 0
"""


def setting(con: duckdb.DuckDBPyConnection, name: str) -> str | None:
    """Return the value of a setting that holds for the whole run, or ``None`` when none is stated."""
    rows = query_rows(
        con,
        ("settings",),
        _Text,
        "select min(value) from settings where is_effective and name = ? having count(distinct value) = 1",
        (name,),
    )
    return rows[0].value if rows else None


def runs_on_cpu(con: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the engine says that it runs on a CPU, where questions about a GPU have no answer."""
    return setting(con, "device_type") == "cpu"


def cap_action(con: duckdb.DuckDBPyConnection, swap_point_id: int) -> str:
    """Return the advice to cap concurrency, with the number that the KV cache held in a swap point.

    The number is the median of running requests during the episode: so many fit while the engine
    took blocks away from the others.

    Args:
        con: connection on which the run is exposed.
        swap_point_id: the swap point to go by.
    """
    rows = query_rows(con, ("swap_points", "kv_occupancy"), _Count, _HELD_SQL, (swap_point_id,))
    held = rows[0].value if rows else None
    limit = setting(con, "max_num_seqs")
    now = f", now {limit}" if limit is not None and limit.isdigit() else ", or the router's limit"
    where = (
        f"at about {format_count(held)} running requests: the KV cache held so many while it was full"
        if held
        else "just below the load of this moment"
    )
    return f"Cap concurrency (max_num_seqs{now}) {where}; {MORE_KV_ROOM}."
