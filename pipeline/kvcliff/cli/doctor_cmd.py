"""``kvcliff doctor``: whether this installation works."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import click

from kvcliff import __version__
from kvcliff.cli.options import db_option, example, format_option
from kvcliff.cli.output import Envelope, Problem, format_table, say_lines, say_raw
from kvcliff.errors import KvcliffError
from kvcliff.units import format_bytes

EXIT_UNHEALTHY = 1
_MIN_FREE_BYTES = 1 << 30
State = Literal["ok", "failed", "absent"]


@dataclass(frozen=True)
class Check:
    """One line of the doctor: what was looked at, how it is, details. ``absent`` is fine."""

    name: str
    state: State
    detail: str


@click.command(epilog=example("kvcliff doctor && kvcliff diagnose sample_traces/steady"))
@db_option
@format_option("text", "json")
def doctor(db_path: Path, output_format: str) -> int:
    """Check whether this installation works.

    Exit 0 when kvcliff can work, 1 when something it needs is broken.
    """
    checks = [
        Check("kvcliff", "ok", __version__),
        Check("python", "ok" if sys.version_info >= (3, 11) else "failed", sys.version.split()[0]),
        *(_library(name, minimum) for name, minimum in (("duckdb", 2), ("polars", 2), ("matplotlib", 3))),
        _guarded("sql models", _check_models),
        _guarded("nvtx", _check_nvtx),
        _guarded("temporary folder", _check_temporary),
        _guarded("database", lambda: _check_database(db_path)),
        _tool("nsys", "captures GPU traces"),
        _tool("ncu", "captures kernel counters"),
    ]
    failed = [check for check in checks if check.state == "failed"]
    if output_format == "json":
        data = {
            "checks": [{"name": item.name, "state": item.state, "detail": item.detail} for item in checks]
        }
        problems = tuple(Problem("doctor_failed", f"{item.name}: {item.detail}") for item in failed)
        say_raw(Envelope("doctor", data, "error" if failed else "ok", problems).to_json())
    else:
        say_lines(
            format_table(
                ("check", "state", "detail"), [(item.name, item.state, item.detail) for item in checks]
            )
        )
    return EXIT_UNHEALTHY if failed else 0


def _guarded(name: str, look: Callable[[], tuple[State, str]]) -> Check:
    """Return the check of ``look``; what stops it is its detail."""
    try:
        return Check(name, *look())
    except KvcliffError as error:
        return Check(name, "failed", error.message)
    except (OSError, ImportError, ValueError, RuntimeError) as exc:
        return Check(name, "failed", f"{type(exc).__name__}: {exc}")


def _library(name: str, minimum: int) -> Check:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, "failed", "not installed")
    is_recent = int(version.split(".")[0]) >= minimum
    return Check(
        name, "ok" if is_recent else "failed", version if is_recent else f"{version}, need {minimum} or newer"
    )


def _check_models() -> tuple[State, str]:
    import duckdb

    from kvcliff.store.checks import build_empty_run, check_models
    from kvcliff.store.models import load_models

    with duckdb.connect() as con:
        build_empty_run(con)
        failures = check_models(con)
    if failures:
        return "failed", f"{failures[0].model}: {failures[0].problem}"
    return "ok", f"{len(load_models())} models build"


def _check_nvtx() -> tuple[State, str]:
    from kvcliff.timing import DOMAIN, stage

    with stage("doctor"):
        pass
    return "ok", f"{metadata.version('nvtx')}, domain {DOMAIN}"


def _check_temporary() -> tuple[State, str]:
    with tempfile.NamedTemporaryFile(prefix="kvcliff-") as file:
        file.write(b"kvcliff")
    free_bytes = shutil.disk_usage(tempfile.gettempdir()).free
    text = f"writable, {format_bytes(free_bytes)} free"
    return ("ok" if free_bytes >= _MIN_FREE_BYTES else "failed"), text


def _check_database(db_path: Path) -> tuple[State, str]:
    if not db_path.exists():
        is_writable = os.access(db_path.resolve().parent, os.W_OK)
        return (
            ("absent", f"{db_path} will be created")
            if is_writable
            else ("failed", f"{db_path} cannot be created")
        )
    from kvcliff.store.catalog import list_runs
    from kvcliff.store.database import open_store
    from kvcliff.store.soundness import check_soundness

    with open_store(db_path, read_only=True) as con:
        check_soundness(con)
        return "ok", f"{db_path}, {len(list_runs(con))} runs"


def database_fault(db_path: Path) -> KvcliffError | None:
    """Return what is wrong with a database, if that can be the reason why a command failed."""
    try:
        if db_path.exists():
            _check_database(db_path)
    except KvcliffError as error:
        return error
    return None


def _tool(name: str, use: str) -> Check:
    found = shutil.which(name)
    return Check(name, "ok", "on PATH") if found else Check(name, "absent", f"optional; {use}")
