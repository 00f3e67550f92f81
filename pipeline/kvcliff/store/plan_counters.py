"""Levels of a sweep that the names of kernel counter files state: one file, or one folder, per load."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

#: A load in a name: decode_c16, decode-bs32, conc_64, concurrency128, batch8.
_LOAD: Final = re.compile(r"(?<![a-z0-9])(?:concurrency|conc|batch|seqs|bs|c)[_-]?(\d{1,6})(?![a-z0-9])")
_LAST_NUMBER: Final = re.compile(r"(\d+)(?!.*\d)")


@dataclass(frozen=True)
class CounterFile:
    """A file of kernel counters: its number in the plan and its path inside the run, with ``/``."""

    source_id: int
    relative: str


def counter_levels(files: Iterable[CounterFile], known: Iterable[str]) -> dict[int, str]:
    """Return the level of each file whose name, else folder, states a load, by source id.

    Names are levels when they differ in the number alone (``decode_c16`` and ``decode_c32``): one number
    by itself can mean anything.

    Args:
        files: files of kernel counters of one run.
        known: labels of levels that other files of the run have; a label with the same number is taken over.
    """
    by_name: dict[str, dict[int, int]] = {}
    by_folder: dict[str, dict[int, int]] = {}
    for file in files:
        folder, _, name = file.relative.rpartition("/")
        stem = name.split(".", 1)[0]
        for groups, text, rest in ((by_name, stem, folder), (by_folder, folder, "")):
            found = _LOAD.search(text.lower())
            if found is not None:
                pattern = f"{rest}/{text[: found.start(1)]}#{text[found.end(1) :]}"
                groups.setdefault(pattern, {})[file.source_id] = int(found[1])
    labels = {int(match[1]): label for label in sorted(known) if (match := _LAST_NUMBER.search(label))}
    # A file's own name says more than that of its folder.
    return {
        source_id: labels.get(load, f"c{load}")
        for groups in (by_folder, by_name)
        for loads in groups.values()
        if len(set(loads.values())) > 1
        for source_id, load in loads.items()
    }
