"""One file for a ticket: the marts of a run as Parquet and its report, without any private text."""

import io
import json
import zipfile
from dataclasses import dataclass, replace

import duckdb
import polars as pl

from kvcliff import __version__
from kvcliff.findings.diagnosis import run_findings
from kvcliff.report.bundle_redaction import RUN_NAME, RedactedTable, redact_run
from kvcliff.report.content import build_content
from kvcliff.report.figures import draw_figures
from kvcliff.report.write import ReportOptions, report_files
from kvcliff.store.database import expose_run, quote
from kvcliff.store.models import mart_names
from kvcliff.store.run_tables import RUN_TABLES
from kvcliff.timing import stage

SCHEMA = "kvcliff.bundle/1"
#: The earliest time that a zip file can hold: the moment of packing must not change its bytes.
_STAMP = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_README = """\
kvcliff bundle: one run, to attach to a ticket
==============================================

report.html     the report in one file
report.md       the same as Markdown, with figures/
report.json     the same as data
marts/          the tables behind it as Parquet, one file each
manifest.json   tables, rows, columns, and which columns were emptied

What was left out: prompts and answers were never read. File and folder names stand as role and number;
names of the run, of its labels, hosts, models and requests are gone; kernels are named only when they are of
a known family, the others are numbered. Times are those of the run. Numbers are untouched.

Look at the tables with any Parquet reader, for example:

    duckdb -c "select * from 'marts/swap_points.parquet'"
"""


@dataclass(frozen=True)
class Bundle:
    """A packed bundle.

    Attributes:
        data: the zip file.
        tables: the tables in it, as they were redacted.
        row_counts: rows of each table.
    """

    data: bytes
    tables: tuple[RedactedTable, ...]
    row_counts: dict[str, int]


def build_bundle(con: duckdb.DuckDBPyConnection, run_id: str) -> Bundle:
    """Return the bundle of a stored run; the same stored run gives the same bytes.

    The findings are judged again on what is left, so that no sentence of the report can hold text of the run.

    Args:
        con: connection to the store; its temporary views of the run are replaced.
        run_id: id of a stored run.

    Raises:
        StoreError: the store holds no such run.
    """
    expose_run(con, run_id, (*mart_names(), *RUN_TABLES))
    with stage("redaction"):
        tables = redact_run(con)
        run_findings(con)
    with stage("figures"):
        content = build_content(con, f"{RUN_NAME}-{run_id[-8:]}")
        shown = draw_figures(con, content.run_time, content.run.name)
    content = replace(content, figures=tuple(figure.text for figure in shown))
    files = report_files(content, shown, ReportOptions(is_self_contained=True))
    row_counts = {}
    with stage("marts"):
        for table in tables:
            frame = _frame(con, table.name)
            row_counts[table.name] = frame.height
            files[f"marts/{table.name}.parquet"] = _parquet(frame)
    files["README.txt"] = _README.encode()
    files["manifest.json"] = _manifest(tables, row_counts).encode()
    return Bundle(_zip(files), tables, row_counts)


def _frame(con: duckdb.DuckDBPyConnection, table: str) -> pl.DataFrame:
    # Through the Arrow stream of the relation: it needs no pyarrow.
    return pl.DataFrame(con.sql(f"select * from temp.{quote(table)}"))  # noqa: S608


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def _manifest(tables: tuple[RedactedTable, ...], row_counts: dict[str, int]) -> str:
    data = {
        "schema": SCHEMA,
        "kvcliff_version": __version__,
        "tables": [
            {
                "name": table.name,
                "file": f"marts/{table.name}.parquet",
                "row_count": row_counts[table.name],
                "columns": list(table.columns),
                "emptied_columns": list(table.dropped),
            }
            for table in tables
        ],
    }
    return json.dumps(data, sort_keys=True, indent=2) + "\n"


def _zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name, date_time=_STAMP)
            member.external_attr = _MODE
            member.create_system = 3
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, files[name])
    return buffer.getvalue()
