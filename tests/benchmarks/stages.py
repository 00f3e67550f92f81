"""Runs ``kvcliff`` with the given arguments and prints the CPU seconds of its stages as JSON on stderr.

python -m tests.benchmarks.stages diagnose RUN ...
"""

import json
import resource
import sys

from kvcliff.cli import main
from kvcliff.timing import add_listener

#: What stands before the JSON, so that it is found among the notes of the command.
MARK = "stages: "


def cpu_s() -> float:
    """Return the CPU seconds of this process so far, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class StageClock:
    """Adds up CPU seconds by stage.

    Attributes:
        spent: (depth, name, seconds) in order of first end; an inner stage also counts for the outer ones.
    """

    def __init__(self) -> None:
        self.spent: dict[tuple[int, str], float] = {}
        self._begun: list[float] = []

    def __call__(self, name: str, seconds: float | None) -> None:
        """Note the begin (``seconds`` is ``None``) or the end of a stage."""
        if seconds is None:
            self._begun.append(cpu_s())
            return
        spent = cpu_s() - self._begun.pop()
        key = len(self._begun), name
        self.spent[key] = self.spent.get(key, 0.0) + spent


if __name__ == "__main__":
    clock = StageClock()
    add_listener(clock)
    try:
        main()
    finally:
        inside = sum(spent for (depth, _), spent in clock.spent.items() if depth == 0)
        rows = [(depth, name, spent) for (depth, name), spent in clock.spent.items()]
        rows.append((0, "imports, command line, opening the store", cpu_s() - inside))
        print(MARK + json.dumps(rows), file=sys.stderr)
