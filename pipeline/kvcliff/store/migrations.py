"""Schema versions of the store: what each version added, and bringing an older file up to date."""

from dataclasses import dataclass

import duckdb

from kvcliff import __version__

#: Tables beside the runs since version 2: what the nightly job remembers, and whose raw rows are gone.
STATE_DDL: tuple[str, ...] = (
    """
    create table if not exists nightly_folders (
        root_id varchar, folder varchar, fingerprint varchar, state varchar, stored_run_id varchar,
        attempt_count integer, reason varchar, hint varchar, kvcliff_version varchar, changed_at_ns bigint,
        announced_at_ns bigint
    )
    """,
    """
    create table if not exists nightly_verdicts (
        run_id varchar, series varchar, verdict varchar, summary varchar, cause varchar, base_run_ids varchar,
        order_ns bigint, kvcliff_version varchar, judged_at_ns bigint, announced_at_ns bigint,
        accepted_at_ns bigint
    )
    """,
    """
    create table if not exists nightly_checks (
        run_id varchar, check_no integer, metric varchar, title varchar, unit varchar, level varchar,
        outcome varchar, severity varchar, base_value double, run_value double, change_ratio double,
        minimum_change_ratio double, message varchar, is_gating boolean
    )
    """,
    "create table if not exists retention (run_id varchar, raw_removed_at_ns bigint)",
)


@dataclass(frozen=True)
class Migration:
    """One step of the schema.

    Attributes:
        from_version: version that it starts from; it ends one higher.
        what: what changes, in words.
        statements: SQL that makes the change.
        is_additive: whether a file of the old version can still be read as it is.
    """

    from_version: int
    what: str
    statements: tuple[str, ...]
    is_additive: bool


MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "tables of the nightly job and of removed raw rows", STATE_DDL, is_additive=True),
)


def path_from(
    version: int, current: int, migrations: tuple[Migration, ...] = MIGRATIONS
) -> tuple[Migration, ...] | None:
    """Return the steps from a version to the current one, or ``None`` when there is no way.

    Args:
        version: what the file has.
        current: what this kvcliff writes.
        migrations: the steps that exist.
    """
    if not 1 <= version <= current:
        return None
    by_version = {step.from_version: step for step in migrations}
    steps = [by_version.get(number) for number in range(version, current)]
    found = tuple(step for step in steps if step is not None)
    return found if len(found) == len(steps) else None


def migrate(con: duckdb.DuckDBPyConnection, steps: tuple[Migration, ...]) -> None:
    """Take the steps and note the new version, all in one transaction: a crash leaves the old version.

    Raises:
        duckdb.Error: the database cannot take a step; nothing is changed then.
    """
    con.execute("begin transaction")
    try:
        for step in steps:
            for statement in step.statements:
                con.execute(statement)
        con.execute(
            "update kvcliff_meta set schema_version = ?, written_by = ?",
            [steps[-1].from_version + 1, __version__],
        )
        con.execute("commit")
    except duckdb.Error:
        con.execute("rollback")
        raise
