"""The section about where everything came from: files, clocks, settings, and how to make the report again."""

import re
from dataclasses import dataclass, replace

import duckdb

from kvcliff.findings.clock_trust import clock_was_off
from kvcliff.findings.marts import mart_columns, query_rows
from kvcliff.report.document import Block, Column, Commands, Paragraph, RunLine, Section, Table, Value
from kvcliff.report.tables import read_table
from kvcliff.units import format_count

_SOURCE_COLUMNS = (
    Column("source_id", "No.", "count"),
    Column("path", "File", "name"),
    Column("reader", "Reader", "name"),
    Column("level", "Level", "name"),
    Column("replica", "Replica", "name"),
    Column("status", "Status", "word"),
    Column("row_count", "Rows", "count"),
    Column("skipped_count", "Skipped", "count"),
    Column("sha256", "SHA-256", "name"),
    Column("remark", "Remark", "word"),
)
#: Files that a long list shows; damaged and refused ones come first into it.
_MAX_FILES = 40
_MAX_IGNORED = 6
_SOURCE_SQL = """
with listed as (
    select *
    from sources
    where status <> 'ignored'
    qualify row_number() over (order by status = 'read', source_id) <= ?
)

select
    source_id, path, reader, level, replica, status, row_count, nullif(skipped_count, 0), left(sha256, 12),
    nullif(concat_ws('; ', reason, first_skip_reason, replace(notes, chr(10), '; ')), '')
from listed
order by source_id
"""
_IGNORED_SQL = "select path from sources where status = 'ignored' order by source_id"
_CLOCK_COLUMNS = (
    Column("path", "File", "name"),
    Column("method", "Method", "word"),
    Column("offset_ns", "Offset added", "clock_offset"),
    Column("uncertainty_ns", "Uncertainty", "error_ns"),
    Column("note", "Note", "word"),
)
#: A file without times has no clock to tell of; contradicted clocks come first into a long list.
_CLOCK_SQL = """
with listed as (
    select sources.path, clocks.*
    from clocks
    inner join sources on clocks.source_id = sources.source_id
    where not (clocks.method = 'untied' and coalesce(contains(clocks.note, 'states no times'), false))
    qualify row_number() over (
        order by coalesce(contains(clocks.note, 'its clock was'), false) desc, clocks.source_id
    ) <= ?
)

select path, replace(method, '_', ' '), offset_ns, uncertainty_ns, note
from listed
order by source_id
"""
_CLOCK_COUNT_SQL = """
select count(*) from clocks
where not (method = 'untied' and coalesce(contains(note, 'states no times'), false))
"""
_SETTING_COLUMNS = (
    Column("scope", "Scope", "name"),
    Column("name", "Setting", "name"),
    Column("value", "Value", "name"),
    Column("unit", "Unit", "word"),
    Column("origin", "From", "name"),
)
#: What every scope states alike stands once; clocks have their own table.
_SETTING_SQL = """
with effective as (
    select *
    from settings
    where is_effective and not ends_with(name, '_clock') and not starts_with(name, 'log_stamp_')
)

select
    case when count(distinct scope) = 1 then nullif(min(scope), '') end, name, value, min(unit),
    arg_min(origin, (source_id, origin))
from effective
group by name, value
order by 1 nulls first, name, value
limit 60
"""
#: The last label of a run that is a part of another: its edges as options take them.
_WINDOW_LABEL = re.compile(
    r"(?:^|, )(?P<part>window|before)=(?P<start>[\w:.+-]+?)\.\.(?P<end>[\w:+-][\w:.+-]*)$"
)
_POLICY_SQL = "select name, value from thresholds where source = 'policy' order by name"
_OWN_CONFIG_SQL = """
select 1
from settings
where origin = 'run.toml' and not exists (select 1 from sources where path = 'run.toml')
limit 1
"""
_POLICY_COLUMNS = (
    Column("name", "Threshold", "name"),
    Column("value", "Value", "number"),
    Column("unit", "Unit", "word"),
)


@dataclass(frozen=True)
class _Policy:
    name: str
    value: float


def provenance_section(con: duckdb.DuckDBPyConnection, run: RunLine, run_id: str) -> Section:
    """Return the files, clocks and settings behind the report, and how to make it again."""
    files = read_table(
        con,
        "sources",
        _SOURCE_COLUMNS,
        _SOURCE_SQL,
        (_MAX_FILES,),
        more_words="files",
        total_sql="select count(*) from sources where status <> 'ignored'",
    )
    tables = (
        read_table(
            con,
            "clocks",
            _CLOCK_COLUMNS,
            _CLOCK_SQL,
            (_MAX_FILES,),
            also_needs=("sources",),
            more_words="clocks",
            total_sql=_CLOCK_COUNT_SQL,
        ),
        read_table(con, "settings", _SETTING_COLUMNS, _SETTING_SQL),
        read_table(
            con,
            "thresholds",
            _POLICY_COLUMNS,
            "select name, value, unit from thresholds where source = 'policy' order by name",
        ),
    )
    blocks: list[Block] = [
        Paragraph(f"Run {run_id}, read by kvcliff {run.kvcliff_version or 'of unknown version'}."),
        *((files,) if files is not None else ()),
        *_ignored_words(con),
        *(_plain_clocks(table) if table.mart == "clocks" else table for table in tables if table is not None),
        *_reproduction(con, run),
    ]
    return Section("provenance", "Where this comes from", tuple(blocks))


def _reproduction(con: duckdb.DuckDBPyConnection, run: RunLine) -> tuple[Block, ...]:
    """Return the commands that make the report again and show the rows behind a number."""
    cut = _WINDOW_LABEL.search(run.labels or "")
    name = _shell_word(run.name.removesuffix(f"@{cut['part']}") if cut else run.name)
    window = f" --from {cut['start']} --to {cut['end']}" if cut else ""
    policy = query_rows(con, ("thresholds",), _Policy, _POLICY_SQL)
    written = [f"{row.name} = {row.value!r}" for row in policy]
    options = (" --policy policy.toml" if policy else "") + (
        " --config run.toml" if _has_own_config(con) else ""
    )
    lines = (
        *(
            (f"printf '%s\\n' {' '.join(_shell_word(line) for line in written)} > policy.toml",)
            if policy
            else ()
        ),
        f"kvcliff diagnose {name}{window}{options}",
        "kvcliff sql run 'select * from swap_points'",
        f"kvcliff export {_shell_word(run.name)} --bundle {name}.zip",
    )
    return (
        Paragraph(
            f"Make this report again with kvcliff {run.kvcliff_version or 'of the same version'}, in the "
            "folder that holds the run; look at the rows behind its numbers; pack it for a ticket:"
        ),
        Commands(lines),
    )


def _has_own_config(con: duckdb.DuckDBPyConnection) -> bool:
    """Return whether settings came from a run.toml that is no file of the run."""
    if not (mart_columns(con, "settings") and mart_columns(con, "sources")):
        return False
    return bool(con.execute(_OWN_CONFIG_SQL).fetchall())


def _ignored_words(con: duckdb.DuckDBPyConnection) -> tuple[Paragraph, ...]:
    """Return one sentence about files that are no data: they need no line in the table."""
    if not mart_columns(con, "sources"):
        return ()
    paths = [str(row[0]) for row in con.execute(_IGNORED_SQL).fetchall()]
    if not paths:
        return ()
    named = ", ".join(paths[:_MAX_IGNORED])
    more = f" and {format_count(len(paths) - _MAX_IGNORED)} more" if len(paths) > _MAX_IGNORED else ""
    return (Paragraph(f"Not used, in no format that kvcliff reads: {named}{more}."),)


def _plain_clocks(table: Table) -> Table:
    """Return the table of clocks with notes on clocks that were off as a reader would say them."""
    index = next((number for number, column in enumerate(table.columns) if column.name == "note"), None)
    if index is None:
        return table
    rows = tuple((*row[:index], _plain_note(row[index]), *row[index + 1 :]) for row in table.rows)
    return replace(table, rows=rows)


def _plain_note(note: Value) -> Value:
    if not isinstance(note, str):
        return note
    pieces = []
    for piece in note.split("; "):
        off = clock_was_off(piece)
        words = f"the file's clock was {off}: events that it shares with other files show it; corrected here"
        pieces.append(words if off is not None else piece)
    return "; ".join(pieces)


def _shell_word(name: str) -> str:
    """Return a name quoted for a shell when it needs it."""
    safe = name and all(char.isalnum() or char in "._-" for char in name) and not name.startswith("-")
    return name if safe else "'" + name.replace("'", "'\\''") + "'"
