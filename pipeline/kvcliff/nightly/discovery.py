"""Finding run folders below a root: which are there, which are complete, and what they hold."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kvcliff.errors import UsageProblem
from kvcliff.nightly.policy import DiscoveryPolicy
from kvcliff.readers.base import path_text
from kvcliff.units import NS_PER_S

#: A folder that holds this file is the output of a nightly pass, not a run.
OUTPUT_MARK = "nightly.json"


@dataclass(frozen=True)
class RunFolder:
    """A folder that may hold a run.

    Attributes:
        path: where it is.
        folder: its path relative to the root, with slashes.
        fingerprint: hash over names, sizes and modification times of its files.
        file_count: files in it.
        wait_reason: why it is not complete yet, or ``None``.
    """

    path: Path
    folder: str
    fingerprint: str
    file_count: int
    wait_reason: str | None


@dataclass(frozen=True)
class _FileState:
    name: str
    size_bytes: int
    modified_ns: int
    changed_ns: int


def find_run_folders(
    root: Path, policy: DiscoveryPolicy, *, now_ns: int, outputs: tuple[Path, ...] = ()
) -> tuple[RunFolder, ...]:
    """Return the run folders below a root, by name; empty ones are left out.

    Args:
        root: folder that the load tests write their run folders into.
        policy: where run folders lie and when they are complete.
        now_ns: the present, unix ns.
        outputs: folders that are ours and no runs.

    Raises:
        UsageProblem: the root is no folder, or cannot be listed.
    """
    if not root.is_dir():
        raise UsageProblem(
            f"there is no folder {root}", hint="give the folder that holds one sub-folder per run"
        )
    own = tuple(path.resolve() for path in outputs)
    found = []
    for path, folder in _folders(root, policy.depth):
        if path.resolve() in own or (path / OUTPUT_MARK).is_file():
            continue
        if any(fnmatchcase(folder, pattern) for pattern in policy.ignore):
            continue
        run = look_at(path, folder, policy, now_ns=now_ns)
        if run is not None:
            found.append(run)
    return tuple(found)


def look_at(path: Path, folder: str, policy: DiscoveryPolicy, *, now_ns: int) -> RunFolder | None:
    """Return what a folder holds now; ``None`` when it holds no file.

    Args:
        path: the folder.
        folder: its path relative to the root.
        policy: when it is complete.
        now_ns: the present, unix ns.
    """
    try:
        files = tuple(_files(path))
    except OSError as exc:
        return RunFolder(path, folder, "", 0, f"it cannot be listed: {exc.strerror}")
    if not files:
        return None
    digest = hashlib.sha256()
    for file in files:
        digest.update(
            f"{file.name}\0{file.size_bytes}\0{file.modified_ns}\n".encode("utf-8", "surrogateescape")
        )
    return RunFolder(
        path=path,
        folder=folder,
        fingerprint=digest.hexdigest()[:16],
        file_count=len(files),
        wait_reason=_wait_reason(path, files, policy, now_ns),
    )


def _wait_reason(
    path: Path, files: tuple[_FileState, ...], policy: DiscoveryPolicy, now_ns: int
) -> str | None:
    """Return why the folder is not complete.

    The time of the last change of status counts beside that of the content: tools that copy with the original
    modification times cannot set it.
    """
    if policy.marker is not None:
        is_marked = (path / policy.marker).is_file()
        return None if is_marked else f"the file {policy.marker} is not there yet"
    newest_ns = max(max(file.modified_ns, file.changed_ns) for file in files)
    quiet_s = (now_ns - newest_ns) / NS_PER_S
    if quiet_s >= policy.quiet_s:
        return None
    return f"something in it changed less than {policy.quiet_s:g} s ago"


def _folders(root: Path, depth: int) -> Iterator[tuple[Path, str]]:
    """Yield the folders that lie ``depth`` levels below the root; links and hidden ones are left alone.

    A link such as ``latest`` would show a run a second time.
    """
    level = [(root, "")]
    for _ in range(depth):
        below = []
        for path, prefix in level:
            for name in _sub_folders(path):
                below.append((path / name, f"{prefix}{name}/"))
        level = below
    for path, folder in level:
        yield path, path_text(folder.removesuffix("/"))


def _refuse(error: OSError) -> None:
    """Stop at a folder that cannot be listed; ``os.walk`` alone would pass over it."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _sub_folders(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            )
    except FileNotFoundError:
        # It went away since its parent was listed: then it is no run.
        return []
    except OSError as exc:
        raise UsageProblem(
            f"cannot list {path}: {exc.strerror}", hint="check the permissions of the folder"
        ) from exc


def _files(path: Path) -> Iterator[_FileState]:
    """Yield the files of a folder in path order; what vanishes while it is looked at is left out.

    Raises:
        OSError: a folder in it cannot be listed.
    """
    for folder, names, file_names in os.walk(path, onerror=_refuse):
        names.sort()
        for name in sorted(file_names):
            file = Path(folder) / name
            try:
                status = file.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                yield _FileState(
                    file.relative_to(path).as_posix(),
                    status.st_size,
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                )
