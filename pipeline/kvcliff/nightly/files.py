"""Writing output files so that nobody ever reads half of one."""

import os
from collections.abc import Mapping
from pathlib import Path

from kvcliff.errors import OutputError


def check_folder(folder: Path) -> None:
    """Make the output folder, and find out whether it can be written before any work is done.

    Raises:
        OutputError: it is a file, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".kvcliff.part"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as exc:
        raise OutputError(
            f"the output folder {folder} cannot be written: {exc.strerror}",
            hint="choose another folder: --into",
        ) from exc


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder, each beside its target first and then moved there.

    A file that already has the content is left alone, so its time says when it last changed.

    Args:
        folder: output folder.
        files: content by path relative to it, in the order of writing.

    Raises:
        OutputError: a file cannot be written.
    """
    for name, data in files.items():
        write_file(folder / name, data)


def write_file(target: Path, data: bytes, *, is_always: bool = False) -> None:
    """Write one file in one step.

    Args:
        target: where it goes.
        data: its content.
        is_always: also when it has this content already.

    Raises:
        OutputError: it cannot be written.
    """
    part = target.with_name(f".{target.name}.part")
    try:
        if not is_always and target.is_file() and target.read_bytes() == data:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as exc:
        raise OutputError(
            f"cannot write {target}: {exc.strerror or exc}",
            hint="check free disk space and permissions; the next pass writes it",
        ) from exc
