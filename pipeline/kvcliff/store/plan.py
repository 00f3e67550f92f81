"""What a run folder holds: its files, the reader of each, its levels, and the run id."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kvcliff.errors import InputError, UsageProblem
from kvcliff.readers import pick_reader
from kvcliff.readers.base import HEAD_BYTES, NO_MATCH, ReadContext, Reader, Sniff, Source, path_text
from kvcliff.readers.run_config import RunConfig, load_run_config
from kvcliff.store.plan_counters import (
    CounterFile,
    counter_levels,
    serving_levels,
    stated_levels,
    sweeps_by_folder,
)
from kvcliff.store.window import WindowRequest

CONFIG_NAME = "run.toml"
_NUMBER = re.compile(r"(\d+)(?!.*\d)")
#: Byte-order marks, the longer ones first: the mark of UTF-32 begins with that of UTF-16.
_FOREIGN_ENCODINGS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_SERVING_ROLES = {"log", "metrics", "trace"}
_MAX_LABEL = 200
_EXPORT_FOLDERS = ("_pqtdir", "_arwdir")


@dataclass(frozen=True)
class PlannedSource:
    """One file of a run and what will be done with it.

    Attributes:
        source_id: number in the run, from 1, in order of the relative path.
        source: the file.
        reader: who reads it; ``None`` when nobody knows it or it is refused.
        sniff: the reader's certainty and reason.
        context: what run.toml says about it.
        sha256: hash of the file as it lies on disk.
        size_bytes: its size on disk.
        level: level of a sweep it belongs to, or ``None``.
        level_number: the number of that level (a concurrency, say), or ``None``.
        replica: replica it belongs to, or ``None``.
        problem: why it cannot be read (permission, broken container), or ``None``.
    """

    source_id: int
    source: Source
    reader: Reader | None
    sniff: Sniff
    context: ReadContext
    sha256: str
    size_bytes: int
    level: str | None = None
    level_number: float | None = None
    replica: str | None = None
    problem: str | None = None


@dataclass(frozen=True)
class RunPlan:
    """A run before anything is read; with a ``window`` the part of it that lies there."""

    run_id: str
    name: str
    root: Path
    config: RunConfig
    sources: tuple[PlannedSource, ...]
    window: WindowRequest | None = None

    @property
    def usable(self) -> tuple[PlannedSource, ...]:
        """Return the sources that a reader will load."""
        return tuple(planned for planned in self.sources if planned.reader is not None)


def plan_run(path: Path, *, config_path: Path | None = None, window: WindowRequest | None = None) -> RunPlan:
    """Return the plan of a run folder (or of a single file).

    A part of a run is a run of its own, with its own name and id, so that the whole one stays stored.

    Args:
        path: folder with any mix of files, or one file.
        config_path: run.toml to use instead of the one in the folder.
        window: the part of the run to use, or ``None`` for all of it.

    Raises:
        UsageProblem: the path does not exist, or run.toml is wrong.
        InputError: the folder cannot be listed.
    """
    if not path.exists():
        raise UsageProblem(f"there is no run at {path}", hint="give a folder with the files of one load test")
    if not path.is_dir() and not path.is_file():
        # A pipe can be read once, and only when somebody writes into it.
        raise UsageProblem(f"{path} is no file and no folder", hint="put what it holds into a file")
    root = path if path.is_dir() else path.parent
    sources = list(_find_sources(root)) if path.is_dir() else [Source(path, path_text(path.name))]
    own_config = root / CONFIG_NAME
    chosen = config_path or (own_config if path.is_dir() and own_config.is_file() else None)
    if config_path is None and chosen is not None and not _is_inside(own_config, root):
        raise UsageProblem(
            f"{own_config} is a link that leads out of the run", hint="give the file it means with --config"
        )
    config = load_run_config(chosen) if chosen is not None else RunConfig()
    planned = [
        _plan_source(number, source, config, None if path.is_file() else root)
        for number, source in enumerate(
            (item for item in sources if not config.rule_for(item.relative).is_ignored), start=1
        )
    ]
    name = _label(config.name or path_text(path.resolve().name if path.is_dir() else path.stem))
    if window is not None:
        name = f"{name}@{window.part}"
    return RunPlan(
        run_id=f"{name}-{_digest(planned, chosen, window)}",
        name=name,
        root=root,
        config=config,
        sources=_with_levels(planned, config),
        window=window,
    )


def _label(text: str) -> str:
    """Return the name of a run, level or replica as one printable line: it stands in keys and sentences."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:_MAX_LABEL])


def _digest(planned: list[PlannedSource], config_path: Path | None, window: WindowRequest | None) -> str:
    """Return 8 hex digits over the sorted (relative path, sha256) list, an outside run.toml and a window."""
    digest = hashlib.sha256()
    for item in sorted(planned, key=lambda entry: entry.source.relative):
        digest.update(f"{item.source.relative}\0{item.sha256}\n".encode())
    if config_path is not None and all(item.source.path != config_path for item in planned):
        digest.update(b"config\0" + hashlib.sha256(config_path.read_bytes()).digest())
    if window is not None:
        digest.update(f"window\0{window.identity}".encode())
    return digest.hexdigest()[:8]


def _find_sources(root: Path) -> Iterator[Source]:
    """Yield what lies under ``root`` in path order, files or not; hidden ones are left alone."""
    walk = sorted(os.walk(root, onerror=_refuse_folder, followlinks=False))
    exports: list[str] = []
    for folder, subfolders, names in walk:
        relative_folder = Path(folder).relative_to(root).as_posix()
        if any(relative_folder == done or relative_folder.startswith(f"{done}/") for done in exports):
            continue
        if any(part.startswith(".") for part in Path(relative_folder).parts if part != "."):
            continue
        if Path(folder).name.endswith(_EXPORT_FOLDERS):
            exports.append(relative_folder)
            yield Source(Path(folder), path_text(relative_folder), is_dir=True)
            continue
        subfolders.sort()
        linked = [name for name in subfolders if not _is_inside(Path(folder) / name, root)]
        for name in sorted((*names, *linked)):
            if not name.startswith("."):
                path = Path(folder) / name
                yield Source(path, path_text(path.relative_to(root)))


def _is_inside(path: Path, root: Path) -> bool:
    """Return whether a path, its links followed, lies below the root of the run."""
    # Unlike Path.resolve, this takes links that lead in a circle.
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _refuse_folder(error: OSError) -> None:
    """Stop at a folder that cannot be listed; ``os.walk`` alone would pass over it."""
    raise InputError(
        f"cannot list the folder {error.filename}: {error.strerror}", hint="check its permissions"
    ) from error


def _why_not_opened(source: Source, root: Path | None) -> str | None:
    """Return why a source must not even be opened; ``root`` is the folder that links must stay in."""
    if root is not None and not _is_inside(source.path, root):
        return "a link that leads out of the run; put the file itself here, or a hard link"
    if source.path.exists() and not source.is_dir and not source.path.is_file():
        return "no file (a pipe, a socket or a device)"
    return None


def _plan_source(number: int, source: Source, config: RunConfig, root: Path | None) -> PlannedSource:
    context = config.context_for(source.relative)
    reader, sniff, sha256, size = None, NO_MATCH, "", 0
    try:
        problem = _why_not_opened(source, root)
        if problem is None:
            sha256, size = _hash(source)
        if problem is None and source.name != CONFIG_NAME:
            reader, sniff = pick_reader(source)
            problem = None if reader is not None else _broken_container(source) or _wrong_encoding(source)
    except InputError as exc:
        problem = exc.message
    except OSError as exc:
        problem = f"cannot read {source.relative}: {exc.strerror}"
    return PlannedSource(number, source, reader, sniff, context, sha256, size, problem=problem)


def _broken_container(source: Source) -> str | None:
    """Return why a compressed file of an unknown format gives too little to know it by."""
    if source.compression is None:
        return None
    with source.open() as stream:
        stream.read(HEAD_BYTES)
        return stream.damage


def _wrong_encoding(source: Source) -> str | None:
    """Return what to do with a text in UTF-16 or UTF-32, which no tool of the field writes on purpose."""
    for mark, name in _FOREIGN_ENCODINGS:
        if source.head.startswith(mark):
            return f"text in {name}; convert it: iconv -f {name} -t UTF-8"
    return None


def _hash(source: Source) -> tuple[str, int]:
    """Return the sha256 (hex) and the size in bytes of a file, or of a folder's files in name order."""
    digest = hashlib.sha256()
    size = 0
    paths = [source.path / name for name in source.listing] if source.is_dir else [source.path]
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
                size += len(block)
    return digest.hexdigest(), size


def _with_levels(planned: list[PlannedSource], config: RunConfig) -> tuple[PlannedSource, ...]:
    """Return the sources with level and replica set.

    A parent folder whose sub-folders each hold serving data is a sweep: one level per sub-folder. Otherwise
    a file may state its own level (a stage in its name), as kernel counters do (``decode_c16``), and serving
    data when each log and scrape does (``server_c16.log``). Sub-folders that each hold such a sweep are
    sweeps of their own: their levels carry the folder (``fp8/c16``).
    ``run.toml`` decides where it says something.
    """
    tops = {item.source_id: _top_folder(item) for item in planned}
    serving = Counter(
        tops[item.source_id] for item in planned if item.reader and item.reader.role in _SERVING_ROLES
    )
    folders = {folder for folder in serving if folder}
    is_sweep = len(folders) >= 2 and not serving.get("")
    sweep_folders = folders if is_sweep else frozenset()
    stated = [
        (_file(item), item.sniff.level, config.rule_for(item.source.relative).replica is not None)
        for item in planned
        if item.sniff.level is not None
    ]
    guesses = {
        item.source_id: tops[item.source_id] for item in planned if tops[item.source_id] in sweep_folders
    }
    guesses |= stated_levels(stated, sweep_folders)
    if is_sweep:
        guesses |= sweeps_by_folder(_named(planned, _SERVING_ROLES), _named(planned, {"client"}))
    unplaced = [item for item in planned if item.source_id not in guesses]
    if not guesses:
        guesses |= serving_levels(_named(unplaced, _SERVING_ROLES), _named(unplaced, {"client"}))
    guesses |= counter_levels(_named(unplaced, {"counters"}), sweep_folders)
    result = []
    for item in planned:
        rule = config.rule_for(item.source.relative)
        level = rule.level if rule.level is not None else guesses.get(item.source_id)
        number = rule.level_number if rule.level_number is not None else level_number(level)
        result.append(
            replace(
                item,
                level=None if level is None else _label(level),
                level_number=number,
                replica=None if rule.replica is None else _label(rule.replica),
            )
        )
    return tuple(result)


def _named(items: Iterable[PlannedSource], roles: Container[str]) -> tuple[CounterFile, ...]:
    """Return the files that a reader of these roles will load."""
    return tuple(_file(item) for item in items if item.reader and item.reader.role in roles)


def _file(item: PlannedSource) -> CounterFile:
    return CounterFile(item.source_id, Path(item.source.relative).as_posix())


def _top_folder(item: PlannedSource) -> str:
    parts = Path(item.source.relative).parts
    return parts[0] if len(parts) > 1 else ""


def level_number(level: str | None) -> float | None:
    """Return the last number in a level's label (``c16`` gives 16), or ``None``."""
    match = _NUMBER.search(level) if level is not None else None
    return float(match[1]) if match else None
