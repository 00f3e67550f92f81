"""Writing a report: Markdown, JSON and the figure into one folder, nothing of others overwritten."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import duckdb

from kvcliff.errors import OutputError
from kvcliff.report.content import build_content
from kvcliff.report.document import ReportContent
from kvcliff.report.figure import draw_figure
from kvcliff.report.focus import choose_focus
from kvcliff.report.json_output import SCHEMA, report_json
from kvcliff.report.markdown import report_markdown
from kvcliff.report.series import read_series
from kvcliff.store.database import expose_run
from kvcliff.store.ingest import RUN_TABLES
from kvcliff.store.models import mart_names
from kvcliff.timing import stage

MARKDOWN_NAME = "report.md"
JSON_NAME = "report.json"
SVG_NAME = "figures/kv_and_latency.svg"
PNG_NAME = "figures/kv_and_latency.png"
_OWN_NAMES = frozenset((MARKDOWN_NAME, JSON_NAME, "figures", SVG_NAME, PNG_NAME))


@dataclass(frozen=True)
class WrittenReport:
    """Where a report lies, and what it says.

    Attributes:
        folder: the report's folder.
        markdown: ``report.md``.
        json: ``report.json``.
        figures: the figure's files, empty when there was nothing to draw.
        content: what was written.
    """

    folder: Path
    markdown: Path
    json: Path
    figures: tuple[Path, ...]
    content: ReportContent


def write_report(
    con: duckdb.DuckDBPyConnection, run_id: str, out_dir: Path, *, force: bool = False
) -> WrittenReport:
    """Write the report of a stored run and return where.

    The report of the same run in the same folder is replaced. Any other content of the folder is a
    refusal; with ``force`` the files of the report are written beside it.

    Args:
        con: connection to the store.
        run_id: id of a stored run.
        out_dir: folder to write into, created when absent.
        force: write although the folder holds other files.

    Raises:
        OutputError: the folder cannot be written, or holds other content.
        StoreError: the store holds no such run.
    """
    expose_run(con, run_id, (*mart_names(), *RUN_TABLES))
    content = build_content(con, run_id)
    _check_folder(out_dir, content.run.name, force=force)
    with stage("figures"):
        files = _figures(con, content)
    svg, png = (SVG_NAME, PNG_NAME) if files else (None, None)
    with stage("report"):
        files[MARKDOWN_NAME] = report_markdown(content, figure_svg=svg, figure_png=png).encode()
        files[JSON_NAME] = report_json(content).encode()
        _write_files(out_dir, files)
    return WrittenReport(
        folder=out_dir,
        markdown=out_dir / MARKDOWN_NAME,
        json=out_dir / JSON_NAME,
        figures=tuple(out_dir / name for name in (SVG_NAME, PNG_NAME) if name in files),
        content=content,
    )


def _figures(con: duckdb.DuckDBPyConnection, content: ReportContent) -> dict[str, bytes]:
    focus = choose_focus(con)
    if focus is None:
        return {}
    drawn = draw_figure(read_series(con, focus), content.run_time, content.run.name)
    return {SVG_NAME: drawn.svg, PNG_NAME: drawn.png}


def _check_folder(out_dir: Path, run_name: str, *, force: bool) -> None:
    """Refuse a folder that holds anything but an earlier report of this run.

    Raises:
        OutputError: it does, or it is no folder.
    """
    if not out_dir.exists():
        return
    if not out_dir.is_dir():
        raise OutputError(f"{out_dir} is a file, not a folder", hint="choose another folder with --output")
    try:
        names = {path.relative_to(out_dir).as_posix() for path in out_dir.rglob("*")}
    except OSError as exc:
        raise OutputError(
            f"cannot list {out_dir}: {exc.strerror}", hint="choose another folder with --output"
        ) from exc
    if not names or force:
        return
    if names - _OWN_NAMES:
        raise OutputError(
            f"{out_dir} holds other files ({min(names - _OWN_NAMES)})",
            hint="choose another folder with --output, or add --force to write beside them",
        )
    if _report_of(out_dir) != run_name:
        raise OutputError(
            f"{out_dir} holds a report of another run, or none that kvcliff wrote",
            hint="choose another folder with --output, or add --force to replace it",
        )


def _report_of(out_dir: Path) -> str | None:
    """Return the name of the run whose report lies in the folder, or ``None``."""
    try:
        data = json.loads((out_dir / JSON_NAME).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("run"), dict):
        return None
    name = data["run"].get("name")
    return name if isinstance(name, str) else None


def _write_files(out_dir: Path, files: dict[str, bytes]) -> None:
    """Write each file beside its target and move it there, so that a reader never sees half a file.

    Raises:
        OutputError: the folder or a file cannot be written.
    """
    try:
        for name, data in files.items():
            target = out_dir / name
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.part")
            part.write_bytes(data)
            os.replace(part, target)
    except OSError as exc:
        raise OutputError(
            f"cannot write the report to {out_dir}: {exc.strerror or exc}",
            hint="choose another folder with --output",
        ) from exc
