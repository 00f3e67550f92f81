"""Nsight Systems reports: exported with the nsys on PATH, or refused with the command that does it."""

import re
import shutil
import subprocess
from pathlib import Path

from kvcliff.errors import InputError
from kvcliff.readers.base import Source
from kvcliff.readers.nsight_systems_forms import report_version

_VERSION_TIMEOUT_S = 60
#: The manual gives no bound; a report of 1 GB takes some minutes.
_EXPORT_TIMEOUT_S = 1800
_NSYS_VERSION = re.compile(r"version (\d{4})\.(\d{1,3})\.(\d{1,3})")
_TOO_NEW = "newer than your current version"


def export_command(relative: str) -> str:
    """Return the command that exports a report."""
    stem = relative.removesuffix(".nsys-rep").removesuffix(".qdrep")
    return f"nsys export -t sqlite -f true -o {stem}.sqlite {relative}"


def export_report(source: Source, folder: Path) -> Path:
    """Return the SQLite export of a report, made in ``folder``.

    Raises:
        InputError: there is no nsys, it is older than the report, or it fails.
    """
    needed = report_version(source)
    words = "nsys 2022.4 or newer" if needed is None else f"nsys {_dotted(needed)} or newer"
    hint = export_command(source.relative)
    nsys = shutil.which("nsys")
    if nsys is None:
        raise InputError(
            f"{source.relative} is an Nsight Systems report that was not exported; "
            f"it needs {words}, which is not on PATH ({hint})",
            hint=hint,
        )
    have = _installed_version(nsys)
    if needed is not None and have is not None and have < needed:
        raise InputError(
            f"{source.relative} needs {words} to be exported; nsys {_dotted(have)} is on PATH ({hint})",
            hint=hint,
        )
    target = folder / "export.sqlite"
    _run_export(nsys, _plain_file(source, folder), target, source, words, hint)
    return target


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))


def _installed_version(nsys: str) -> tuple[int, int, int] | None:
    try:
        done = subprocess.run(
            [nsys, "--version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    match = _NSYS_VERSION.search(done.stdout)
    return None if match is None else (int(match.group(1)), int(match.group(2)), int(match.group(3)))


def _plain_file(source: Source, folder: Path) -> Path:
    if source.compression is None:
        return source.path.absolute()
    target = folder / "report.nsys-rep"
    with source.open() as stream, target.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
        if stream.damage is not None:
            raise InputError(f"{source.relative} is cut: {stream.damage}", hint="copy the file again")
    return target


def _run_export(nsys: str, report: Path, target: Path, source: Source, words: str, hint: str) -> None:
    command = [nsys, "export", "-t", "sqlite", "-f", "true", "-o", str(target), str(report)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_EXPORT_TIMEOUT_S,
            check=False,
            cwd=target.parent,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise InputError(
            f"nsys could not export {source.relative} ({type(exc).__name__})", hint=hint
        ) from exc
    if done.returncode == 0 and target.is_file():
        return
    # What nsys prints holds paths and host names; only its known meanings are passed on.
    said = done.stdout + done.stderr
    why = f"it needs {words}" if _TOO_NEW in said or "Version number is invalid" in said else "it is damaged"
    raise InputError(f"nsys could not export {source.relative}: {why}", hint=hint)
