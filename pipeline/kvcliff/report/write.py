"""Writing a report: Markdown, JSON, HTML and the figures into one folder, nothing of others overwritten."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from kvcliff.errors import OutputError
from kvcliff.report.audience import DEFAULT_AUDIENCE, Audience, for_audience
from kvcliff.report.content import build_content
from kvcliff.report.document import ReportContent, Section
from kvcliff.report.figures import FIGURES, FOLDER, ShownFigure, draw_figures
from kvcliff.report.html import report_html
from kvcliff.report.json_output import SCHEMA, report_json
from kvcliff.report.markdown import report_markdown
from kvcliff.store.database import expose_run
from kvcliff.store.models import mart_names
from kvcliff.store.run_tables import RUN_TABLES
from kvcliff.timing import stage

MARKDOWN_NAME = "report.md"
JSON_NAME = "report.json"
HTML_NAME = "report.html"
_OWN_NAMES = frozenset(
    (
        MARKDOWN_NAME,
        JSON_NAME,
        HTML_NAME,
        FOLDER,
        *(figure.svg_name for figure in FIGURES),
        *(figure.png_name for figure in FIGURES),
    )
)


@dataclass(frozen=True)
class WrittenReport:
    """Where a report lies, and what it says.

    Attributes:
        folder: the report's folder.
        markdown: ``report.md``.
        json: ``report.json``.
        html: ``report.html``, or ``None`` when none was asked for.
        figures: the figures' files, empty when there was nothing to draw.
        content: what was written.
    """

    folder: Path
    markdown: Path
    json: Path
    html: Path | None
    figures: tuple[Path, ...]
    content: ReportContent


@dataclass(frozen=True)
class ReportOptions:
    """How a report is written.

    Attributes:
        audience: how long it is.
        is_self_contained: whether it is written as one HTML file too.
        opening_sections: sections that come first, from what is known beside the run.
    """

    audience: Audience = DEFAULT_AUDIENCE
    is_self_contained: bool = False
    opening_sections: tuple[Section, ...] = ()


def write_report(
    con: duckdb.DuckDBPyConnection,
    run_id: str,
    out_dir: Path,
    *,
    force: bool = False,
    options: ReportOptions = ReportOptions(),
) -> WrittenReport:
    """Write the report of a stored run and return where.

    The report of the same run in the same folder is replaced. Any other content of the folder is a
    refusal; with ``force`` the files of the report are written beside it.

    Args:
        con: connection to the store.
        run_id: id of a stored run.
        out_dir: folder to write into, created when absent.
        force: write although the folder holds other files.
        options: how long it is, and in which forms.

    Raises:
        OutputError: the folder cannot be written, or holds other content.
        StoreError: the store holds no such run.
    """
    expose_run(con, run_id, (*mart_names(), *RUN_TABLES))
    content = build_content(con, run_id)
    is_ours = _check_folder(out_dir, content.run.name, force=force)
    with stage("figures"):
        shown = draw_figures(con, content.run_time, content.run.name)
    content = replace(
        content,
        figures=tuple(figure.text for figure in shown),
        sections=(*options.opening_sections, *content.sections),
    )
    with stage("report"):
        content = for_audience(content, options.audience)
        files = report_files(content, shown, options)
        _write_files(out_dir, files)
        if is_ours:
            _remove_outdated(out_dir, files)
    return WrittenReport(
        folder=out_dir,
        markdown=out_dir / MARKDOWN_NAME,
        json=out_dir / JSON_NAME,
        html=out_dir / HTML_NAME if HTML_NAME in files else None,
        figures=tuple(out_dir / name for name in files if name.startswith(f"{FOLDER}/")),
        content=content,
    )


def report_files(
    content: ReportContent, shown: tuple[ShownFigure, ...], options: ReportOptions
) -> dict[str, bytes]:
    """Return the files of a report by their path below its folder.

    Args:
        content: what it says, in the length of its audience.
        shown: the figures of the run; those that the content does not name are left out.
        options: in which forms it is written.
    """
    named = {figure.svg for figure in content.figures}
    images = {figure.text.svg: figure.drawn.svg for figure in shown if figure.text.svg in named}
    files = dict(images)
    files |= {figure.text.png: figure.drawn.png for figure in shown if figure.text.svg in named}
    files[MARKDOWN_NAME] = report_markdown(content).encode()
    files[JSON_NAME] = report_json(content).encode()
    if options.is_self_contained:
        files[HTML_NAME] = report_html(content, images).encode()
    return files


def _remove_outdated(out_dir: Path, files: dict[str, bytes]) -> None:
    """Remove what an earlier report of the run had and this one has not, so that nothing contradicts it.

    Raises:
        OutputError: a file cannot be removed.
    """
    for name in sorted(_OWN_NAMES - {FOLDER} - set(files)):
        try:
            (out_dir / name).unlink(missing_ok=True)
        except OSError as exc:
            raise OutputError(
                f"cannot remove {out_dir / name} of the earlier report: {exc.strerror or exc}",
                hint="choose another folder with --output",
            ) from exc


def _check_folder(out_dir: Path, run_name: str, *, force: bool) -> bool:
    """Refuse a folder that holds anything but an earlier report of this run; return whether it holds one.

    Raises:
        OutputError: it does, or it is no folder.
    """
    if not out_dir.exists():
        return False
    if not out_dir.is_dir():
        raise OutputError(f"{out_dir} is a file, not a folder", hint="choose another folder with --output")
    try:
        names = {path.relative_to(out_dir).as_posix() for path in out_dir.rglob("*")}
    except OSError as exc:
        raise OutputError(
            f"cannot list {out_dir}: {exc.strerror}", hint="choose another folder with --output"
        ) from exc
    is_ours = _report_of(out_dir) == run_name
    if not names or force:
        return is_ours
    if names - _OWN_NAMES:
        raise OutputError(
            f"{out_dir} holds other files ({min(names - _OWN_NAMES)})",
            hint="choose another folder with --output, or add --force to write beside them",
        )
    if not is_ours:
        raise OutputError(
            f"{out_dir} holds a report of another run, or none that kvcliff wrote",
            hint="choose another folder with --output, or add --force to replace it",
        )
    return True


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
    """Write all files beside their targets, then move them there: a full disk leaves what was there before.

    Raises:
        OutputError: the folder or a file cannot be written.
    """
    targets = {out_dir / name: data for name, data in files.items()}
    parts = {target: target.with_name(f".{target.name}.part") for target in targets}
    new_folders = [folder for folder in (out_dir / FOLDER, out_dir) if not folder.exists()]
    try:
        for target, data in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            parts[target].write_bytes(data)
        for target, part in parts.items():
            os.replace(part, target)
    except OSError as exc:
        _clear_away(parts.values(), new_folders)
        raise OutputError(
            f"cannot write the report to {out_dir}: {exc.strerror or exc}",
            hint="check free disk space and permissions, or choose another folder with --output",
        ) from exc


def _clear_away(parts: Iterable[Path], folders: Iterable[Path]) -> None:
    """Remove what a report that could not be written left, so that the next try finds no strange files."""
    # What cannot be removed stays; the first error is the one to tell.
    with suppress(OSError):
        for part in parts:
            part.unlink(missing_ok=True)
        for folder in folders:
            folder.rmdir()
