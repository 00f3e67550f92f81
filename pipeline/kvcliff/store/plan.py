"""What a run folder holds: its files, the reader of each, its levels, and the run id."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kvcliff.errors import InputError, UsageProblem
from kvcliff.readers import pick_reader
from kvcliff.readers.base import NO_MATCH, ReadContext, Reader, Sniff, Source
from kvcliff.readers.run_config import RunConfig, load_run_config

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
    """A run before anything is read."""

    run_id: str
    name: str
    root: Path
    config: RunConfig
    sources: tuple[PlannedSource, ...]

    @property
    def usable(self) -> tuple[PlannedSource, ...]:
        """Return the sources that a reader will load."""
        return tuple(planned for planned in self.sources if planned.reader is not None)


def plan_run(path: Path, *, config_path: Path | None = None) -> RunPlan:
    """Return the plan of a run folder (or of a single file).

    Args:
        path: folder with any mix of files, or one file.
        config_path: run.toml to use instead of the one in the folder.

    Raises:
        UsageProblem: the path does not exist, or run.toml is wrong.
        InputError: the folder cannot be listed.
    """
    if not path.exists():
        raise UsageProblem(f"there is no run at {path}", hint="give a folder with the files of one load test")
    root = path if path.is_dir() else path.parent
    sources = list(_find_sources(root)) if path.is_dir() else [Source(path, path.name)]
    own_config = root / CONFIG_NAME
    chosen = config_path or (own_config if path.is_dir() and own_config.is_file() else None)
    config = load_run_config(chosen) if chosen is not None else RunConfig()
    planned = [
        _plan_source(number, source, config)
        for number, source in enumerate(
            (item for item in sources if not config.rule_for(item.relative).is_ignored), start=1
        )
    ]
    name = config.name or (path.resolve().name if path.is_dir() else path.stem)
    return RunPlan(
        run_id=f"{name}-{_digest(planned, chosen)}",
        name=name,
        root=root,
        config=config,
        sources=_with_levels(planned, config),
    )


def _digest(planned: list[PlannedSource], config_path: Path | None) -> str:
    """Return 8 hex digits over the sorted (relative path, sha256) list and an outside run.toml."""
    digest = hashlib.sha256()
    for item in sorted(planned, key=lambda entry: entry.source.relative):
        digest.update(f"{item.source.relative}\0{item.sha256}\n".encode())
    if config_path is not None and all(item.source.path != config_path for item in planned):
        digest.update(b"config\0" + hashlib.sha256(config_path.read_bytes()).digest())
    return digest.hexdigest()[:8]


def _find_sources(root: Path) -> Iterator[Source]:
    """Yield the files under ``root`` in path order; hidden ones and links that lead out are left alone."""
    real_root = root.resolve()
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
            yield Source(Path(folder), relative_folder, is_dir=True)
            continue
        subfolders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            inside = path.resolve().is_relative_to(real_root)
            if not name.startswith(".") and inside and (path.is_file() or not path.exists()):
                yield Source(path, path.relative_to(root).as_posix())


def _refuse_folder(error: OSError) -> None:
    """Stop at a folder that cannot be listed; ``os.walk`` alone would pass over it."""
    raise InputError(
        f"cannot list the folder {error.filename}: {error.strerror}", hint="check its permissions"
    ) from error


def _plan_source(number: int, source: Source, config: RunConfig) -> PlannedSource:
    context = config.context_for(source.relative)
    reader, sniff, sha256, size, problem = None, NO_MATCH, "", 0, None
    try:
        sha256, size = _hash(source)
        if source.name != CONFIG_NAME:
            reader, sniff = pick_reader(source)
            problem = None if reader is not None else _wrong_encoding(source)
    except InputError as exc:
        problem = exc.message
    except OSError as exc:
        problem = f"cannot read {source.relative}: {exc.strerror}"
    return PlannedSource(number, source, reader, sniff, context, sha256, size, problem=problem)


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
    a file may state its own level (a stage in its name).
    ``run.toml`` decides where it says something.
    """
    tops = {item.source_id: _top_folder(item) for item in planned}
    serving = Counter(
        tops[item.source_id] for item in planned if item.reader and item.reader.role in _SERVING_ROLES
    )
    folders = {folder for folder in serving if folder}
    is_sweep = len(folders) >= 2 and not serving.get("")
    result = []
    for item in planned:
        rule = config.rule_for(item.source.relative)
        guessed = tops[item.source_id] if is_sweep and tops[item.source_id] in folders else item.sniff.level
        level = rule.level if rule.level is not None else guessed
        number = rule.level_number if rule.level_number is not None else level_number(level)
        result.append(replace(item, level=level, level_number=number, replica=rule.replica))
    return tuple(result)


def _top_folder(item: PlannedSource) -> str:
    parts = Path(item.source.relative).parts
    return parts[0] if len(parts) > 1 else ""


def level_number(level: str | None) -> float | None:
    """Return the last number in a level's label (``c16`` gives 16), or ``None``."""
    match = _NUMBER.search(level) if level is not None else None
    return float(match[1]) if match else None
