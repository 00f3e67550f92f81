"""``kvcliff sql``: list, describe and query the tables of the database, read-only."""

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvcliff.cli.options import db_option, example, format_option, memory_option, option
from kvcliff.cli.output import Envelope, format_table, printable, say, say_lines, say_raw
from kvcliff.errors import StoreError, UsageProblem

if TYPE_CHECKING:
    from kvcliff.store.dictionary import Table

#: A spreadsheet takes a cell that begins with one of these for a formula and runs it.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@click.group(
    epilog=example(
        "kvcliff diagnose sample_traces/kv_stress",
        'kvcliff sql run "select at_ns, class, evidence from swap_points"',
    )
)
def sql() -> None:
    """Query the tables behind a report with SQL."""


@sql.command("list", epilog=example("kvcliff sql list"))
@option("--all", "is_everything", is_flag=True, help="Raw tables too.")
@format_option("text", "json")
def list_tables(is_everything: bool, output_format: str) -> None:
    """List the tables that can be queried."""
    from kvcliff.store.dictionary import stored_tables

    tables = [table for table in stored_tables() if is_everything or table.layer != "raw"]
    if output_format == "json":
        data = [
            {"name": table.name, "layer": table.layer, "what": table.what, "grain": table.grain}
            for table in tables
        ]
        say_raw(Envelope("sql list", {"tables": data}).to_json())
        return
    say_lines(
        format_table(
            ("table", "a row is", "what it says"), [(table.name, table.grain, table.what) for table in tables]
        )
    )


@sql.command(epilog=example("kvcliff sql describe swap_points"))
@click.argument("name", metavar="NAME")
@format_option("text", "json")
def describe(name: str, output_format: str) -> None:
    """Show what a table and its columns mean."""
    from kvcliff.store.dictionary import find_table

    table = find_table(name)
    if table is None:
        raise UsageProblem(f"there is no table {name}", hint="see the tables: kvcliff sql list")
    if output_format == "json":
        say_raw(Envelope("sql describe", _table_data(table)).to_json())
        return
    say(table.name, bold=True)
    say(table.what)
    say(f"grain: {table.grain}")
    say(f"key:   {', '.join(table.key)}")
    if table.notes:
        say(f"notes: {table.notes}")
    say("")
    say_lines(
        format_table(
            ("column", "type", "meaning"), [(item.name, item.type, item.meaning) for item in table.columns]
        )
    )


def _table_data(table: "Table") -> dict[str, Any]:
    columns = [
        {"name": column.name, "type": column.type, "meaning": column.meaning} for column in table.columns
    ]
    return {
        "name": table.name,
        "layer": table.layer,
        "what": table.what,
        "grain": table.grain,
        "key": list(table.key),
        "columns": columns,
        "notes": table.notes,
    }


@sql.command(
    "run",
    epilog=example(
        "kvcliff diagnose sample_traces/kv_stress",
        'kvcliff sql run "select ts_ns, used_ratio from kv_occupancy limit 5" --format csv',
    ),
)
@click.argument("query", metavar="QUERY")
@db_option
@memory_option
@format_option("text", "json", "csv")
def run_query(query: str, db_path: Path, memory_limit: str | None, output_format: str) -> None:
    """Run one QUERY on the database and print its rows; '-' reads it from standard input.

    The database is opened read-only, and the query can reach no other file. In CSV a text that a
    spreadsheet would run as a formula gets an apostrophe in front; JSON holds it as it is.
    """
    import duckdb

    from kvcliff.store.database import open_store

    text = sys.stdin.read() if query == "-" else query
    with open_store(db_path, read_only=True, memory_limit=memory_limit) as con:
        try:
            result = con.execute(text)
            columns = [column[0] for column in result.description or ()]
            rows = result.fetchall() if columns else []
        except duckdb.OutOfMemoryException as exc:
            raise StoreError(
                "the query needs more memory than it may have", hint="raise --memory-limit"
            ) from exc
        except duckdb.Error as exc:
            reason = str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
            raise UsageProblem(
                f"the query failed: {reason}", hint="see the tables: kvcliff sql list"
            ) from exc
    say_raw(_render_rows(columns, rows, output_format))


def _render_rows(columns: list[str], rows: list[tuple[Any, ...]], output_format: str) -> str:
    if output_format == "json":
        data = {"columns": columns, "rows": [list(row) for row in rows], "row_count": len(rows)}
        return Envelope("sql run", data).to_json()
    if output_format == "csv":
        return _csv_text([columns, *rows])
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    return format_table(columns, cells) if columns else "no rows"


def _csv_text(rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as CSV; texts of files can neither run in a spreadsheet nor steer a terminal."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([_csv_cell(value) for value in row] for row in rows)
    return printable(buffer.getvalue()) if sys.stdout.isatty() else buffer.getvalue()


def _csv_cell(value: Any) -> Any:
    is_formula = isinstance(value, str) and value.startswith(_FORMULA_STARTS)
    return f"'{value}" if is_formula else value
