"""Which runs belong together, and which of them a run is compared with."""

import duckdb

from kvcliff.nightly.gate import GOOD
from kvcliff.nightly.policy import BaselinePolicy
from kvcliff.store.catalog import StoredRun
from kvcliff.store.database import stored_table

UNLABELLED = "(no labels)"
#: Times before this are no wall times: series that count from zero, logs without a date.
_EARLIEST_WALL_NS = 946_684_800_000_000_000


def series_of(run: StoredRun, policy: BaselinePolicy) -> str:
    """Return the series of a run: its labels that count, as ``key=value`` with commas, sorted by key.

    Args:
        run: a stored run.
        policy: which labels count.
    """
    kept = [
        f"{key}={value}"
        for key, value in label_pairs(run.labels)
        if (policy.labels is None or key in policy.labels) and key not in policy.ignore_labels
    ]
    return ", ".join(sorted(kept)) or UNLABELLED


def label_pairs(labels: str | None) -> tuple[tuple[str, str], ...]:
    """Return key and value of each label of a stored run; a comma inside a value stays in it."""
    pairs: list[tuple[str, str]] = []
    for part in (labels or "").split(", "):
        key, sign, value = part.partition("=")
        if sign:
            pairs.append((key, value))
        elif pairs:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]}, {part}")
    return tuple(pairs)


def order_ns(run: StoredRun) -> int:
    """Return the time that orders runs: when it began, or when it was read if its clock is no wall clock."""
    started = run.started_at_ns
    return started if started is not None and started > _EARLIEST_WALL_NS else run.ingested_at_ns


def choose_baseline(
    con: duckdb.DuckDBPyConnection, run_id: str, series: str, order: int, policy: BaselinePolicy
) -> tuple[str, ...]:
    """Return the last good runs of the series before a run, oldest first; empty when there are too few.

    Good runs have the verdict passed, warned or learning, or were accepted by somebody. An accepted run is
    the new normal: what came before it does not count any more.

    Args:
        con: connection to the store.
        run_id: the run to judge.
        series: its series.
        order: its time.
        policy: how many runs, and how few are too few.
    """
    verdicts, runs = stored_table(con, "nightly_verdicts"), stored_table(con, "runs")
    rows = con.execute(
        f"""
        with

        earlier as (

            select
                run_id,
                verdict,
                order_ns,
                accepted_at_ns
            from {verdicts}
            where
                series = ? and run_id <> ? and (order_ns, run_id) < (?, ?)
                and run_id in (select run_id from {runs})

        ),

        newest_accepted as (

            select
                order_ns,
                run_id
            from earlier
            where accepted_at_ns is not null
            order by order_ns desc, run_id desc
            limit 1

        )

        select earlier.run_id
        from earlier
        left join newest_accepted on true
        where
            (earlier.verdict in (select unnest(?)) or earlier.accepted_at_ns is not null)
            and (
                newest_accepted.run_id is null
                or (earlier.order_ns, earlier.run_id) >= (newest_accepted.order_ns, newest_accepted.run_id)
            )
        order by earlier.order_ns desc, earlier.run_id desc
        limit ?
        """,  # noqa: S608
        [series, run_id, order, run_id, list(GOOD), policy.runs],
    ).fetchall()
    return tuple(row[0] for row in reversed(rows)) if len(rows) >= policy.min_runs else ()
