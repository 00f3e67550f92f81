"""What is being worked on and how long it may still take, shown on stderr."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from kvcliff.cli.output import is_coloured, note, one_line
from kvcliff.timing import add_listener, expected

_SLOW_STAGE_S = 1.0
#: Before this an estimate says nothing, and below the second nobody needs one.
_LEAST_ELAPSED_S, _LEAST_LEFT_S = 2.0, 2.0


class Estimate:
    """How long the announced work may still take, judged by what of it is done."""

    def __init__(self) -> None:
        self._begun_s: float | None = None
        self._end_s: float | None = None
        self._done: set[str] = set()

    def note(self, name: str, seconds: float | None) -> None:
        """Take note of a stage that begins (``seconds`` is ``None``) or ends."""
        work = expected()
        if name not in work:
            return
        if seconds is not None:
            self._done.add(name)
            self._end_s = self._judged_end_s()
        elif self._begun_s is None or name in self._done or not self._done <= work.keys():
            self._begun_s, self._end_s, self._done = time.monotonic(), None, set()

    def _judged_end_s(self) -> float | None:
        """Return when all may be done, judged when a stage ends: a long stage counts down, not up."""
        work = expected()
        done = sum(work.get(name, 0.0) for name in self._done)
        if self._begun_s is None or not done:
            return None
        now_s = time.monotonic()
        return now_s + (now_s - self._begun_s) * (sum(work.values()) - done) / done

    def left_s(self) -> float | None:
        """Return the seconds that may be left; ``None`` while too little is known, or next to nothing is."""
        if self._begun_s is None or self._end_s is None:
            return None
        now_s = time.monotonic()
        left_s = self._end_s - now_s
        return left_s if now_s - self._begun_s >= _LEAST_ELAPSED_S and left_s >= _LEAST_LEFT_S else None

    def words(self) -> str:
        """Return the estimate as it follows the name of a stage, or nothing."""
        left_s = self.left_s()
        return f", about {left_s:.0f} s left" if left_s is not None else ""


@contextmanager
def progress() -> Iterator[None]:
    """Show the stages of the work on stderr while the block runs.

    A terminal gets a line that moves; elsewhere only stages over a second leave a line.
    """
    estimate = Estimate()
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":

        def print_slow_stage(name: str, seconds: float | None) -> None:
            estimate.note(name, seconds)
            if seconds is not None and seconds > _SLOW_STAGE_S:
                note(f"{name}: {seconds:.1f} s{estimate.words()}")

        remove = add_listener(print_slow_stage)
        try:
            yield
        finally:
            remove()
        return
    console = Console(stderr=True, no_color=not is_coloured(sys.stderr))
    running: list[str] = []
    with console.status(Text("starting"), spinner="dots") as status:

        def show(name: str, seconds: float | None) -> None:
            estimate.note(name, seconds)
            if seconds is None:
                running.append(name)
            elif name in running:
                running.remove(name)
            status.update(Text(one_line(running[-1] if running else "finishing") + estimate.words()))

        remove = add_listener(show)
        try:
            yield
        finally:
            remove()
