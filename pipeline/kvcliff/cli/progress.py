"""What is being worked on, shown on stderr."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from kvcliff.cli.output import is_coloured, note, one_line
from kvcliff.timing import add_listener

_SLOW_STAGE_S = 1.0


@contextmanager
def progress() -> Iterator[None]:
    """Show the stages of the work on stderr while the block runs.

    A terminal gets a line that moves; elsewhere only stages over a second leave a line.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        remove = add_listener(_print_slow_stage)
        try:
            yield
        finally:
            remove()
        return
    console = Console(stderr=True, no_color=not is_coloured(sys.stderr))
    running: list[str] = []
    with console.status(Text("starting"), spinner="dots") as status:

        def show(name: str, seconds: float | None) -> None:
            if seconds is None:
                running.append(name)
            elif name in running:
                running.remove(name)
            status.update(Text(one_line(running[-1] if running else "finishing")))

        remove = add_listener(show)
        try:
            yield
        finally:
            remove()


def _print_slow_stage(name: str, seconds: float | None) -> None:
    if seconds is not None and seconds > _SLOW_STAGE_S:
        note(f"{name}: {seconds:.1f} s")
