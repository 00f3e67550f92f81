"""Levels of one or more sweeps that the names of files state: one file, or one folder, per load."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

#: A load in a name: decode_c16, decode-bs32, conc_64, concurrency128, batch8.
_LOAD: Final = re.compile(r"(?<![a-z0-9])(?:concurrency|conc|batch|seqs|bs|c)[_-]?(\d{1,6})(?![a-z0-9])")
#: The same in names of serving data, where a batch may be a part of a recording and c1 a container.
_SERVING_LOAD: Final = re.compile(r"(?<![a-z0-9])(?:concurrency|conc|seqs|users)[_-]?(\d{1,6})(?![a-z0-9])")
#: Loads that make a sweep.
_SWEEP_LEVELS: Final = 2
_LAST_NUMBER: Final = re.compile(r"(\d+)(?!.*\d)")


@dataclass(frozen=True)
class CounterFile:
    """A file whose name may state a load: its number in the plan and its path inside the run, with ``/``."""

    source_id: int
    relative: str


def serving_levels(engine: Sequence[CounterFile], clients: Sequence[CounterFile]) -> dict[int, str]:
    """Return the level of each file of serving data whose name states a load, by source id.

    Files of the engine tell: one log or scrape for all loads means that no file belongs to one load alone.

    Args:
        engine: logs, metrics and traces of one run.
        clients: results of its clients.
    """
    for pattern in (_SERVING_LOAD, _LOAD):
        named = counter_levels((*engine, *clients), (), pattern=pattern)
        told = {named.get(file.source_id) for file in engine}
        # A bare c1 may be a container: then the clients' files must know the same loads.
        known = {named.get(file.source_id) for file in clients}
        if told and None not in told and (pattern is _SERVING_LOAD or told == known):
            return named
    return {}


def stated_levels(
    stated: Iterable[tuple[CounterFile, str, bool]], sweep_folders: Collection[str]
) -> dict[int, str]:
    """Return the level of each file that states its own, by source id; nothing where its folder is the level.

    The same level in two folders belongs to two sweeps: then the folder is a part of the level.

    Args:
        stated: files with the level that they state, and whether they are one replica of that level.
        sweep_folders: top folders that are levels; one that holds several stated levels is a sweep instead.
    """
    groups: dict[str, dict[int, str]] = {}
    replicas: dict[int, str] = {}
    for file, level, is_replica in stated:
        top, parent = file.relative.partition("/")[0], file.relative.rpartition("/")[0]
        if is_replica:
            replicas[file.source_id] = level
        else:
            groups.setdefault(top if top in sweep_folders else parent, {})[file.source_id] = level
    places = Counter(
        level
        for group, levels in groups.items()
        if group not in sweep_folders
        for level in set(levels.values())
    )
    is_repeated = any(count > 1 for count in places.values())
    found: dict[int, str] = {}
    for group, levels in groups.items():
        is_sweep = group in sweep_folders
        if is_sweep and len(set(levels.values())) < _SWEEP_LEVELS:
            continue
        prefix = f"{group}/" if group and (is_sweep or is_repeated) else ""
        found |= {source_id: f"{prefix}{level}" for source_id, level in levels.items()}
    return found | replicas


def sweeps_by_folder(engine: Iterable[CounterFile], clients: Iterable[CounterFile]) -> dict[int, str]:
    """Return the level of each file when every top folder holds a sweep of named files, by source id.

    Args:
        engine: logs, metrics and traces of one run, each in a folder.
        clients: results of its clients.
    """
    by_top: dict[str, tuple[list[CounterFile], list[CounterFile]]] = {}
    for kind, files in enumerate((engine, clients)):
        for file in files:
            top, _, rest = file.relative.partition("/")
            by_top.setdefault(top, ([], []))[kind].append(CounterFile(file.source_id, rest))
    found: dict[int, str] = {}
    for top, (own_engine, own_clients) in by_top.items():
        levels = serving_levels(own_engine, own_clients)
        if own_engine and len(set(levels.values())) < _SWEEP_LEVELS:
            return {}
        found |= {source_id: f"{top}/{level}" for source_id, level in levels.items()}
    return found


def counter_levels(
    files: Iterable[CounterFile], known: Iterable[str], *, pattern: re.Pattern[str] = _LOAD
) -> dict[int, str]:
    """Return the level of each file whose name, else folder, states a load, by source id.

    Names are levels when they differ in the number alone (``decode_c16`` and ``decode_c32``): one number
    by itself can mean anything.

    Args:
        files: files of kernel counters of one run.
        known: labels of levels that other files of the run have; a label with the same number is taken over.
        pattern: what a load looks like in a name.
    """
    by_name: dict[str, dict[int, int]] = {}
    by_folder: dict[str, dict[int, int]] = {}
    for file in files:
        folder, _, name = file.relative.rpartition("/")
        stem = name.split(".", 1)[0]
        for groups, text, rest in ((by_name, stem, folder), (by_folder, folder, "")):
            found = pattern.search(text.lower())
            if found is not None:
                frame = f"{rest}/{text[: found.start(1)]}#{text[found.end(1) :]}"
                groups.setdefault(frame, {})[file.source_id] = int(found[1])
    labels = {int(match[1]): label for label in sorted(known) if (match := _LAST_NUMBER.search(label))}
    # A file's own name says more than that of its folder.
    return {
        source_id: labels.get(load, f"c{load}")
        for groups in (by_folder, by_name)
        for loads in groups.values()
        if len(set(loads.values())) > 1
        for source_id, load in loads.items()
    }
