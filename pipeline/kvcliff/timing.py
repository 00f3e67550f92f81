"""Named stages of our own work: NVTX ranges in the domain ``kvcliff.pipeline`` and their wall times."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import nvtx

DOMAIN = "kvcliff.pipeline"
StageListener = Callable[[str, float | None], None]

_listeners: list[StageListener] = []
_expected: dict[str, float] = {}


def expect(weights: Mapping[str, float]) -> None:
    """Say which stages lie ahead and how much work each is, in any unit; earlier expectations are dropped."""
    _expected.clear()
    _expected.update(weights)


def expected() -> Mapping[str, float]:
    """Return the work that was announced, by stage."""
    return _expected


def add_listener(listener: StageListener) -> Callable[[], None]:
    """Register ``listener(name, seconds)``; seconds is ``None`` at the start of a stage.

    Returns:
        A function that removes the listener.
    """
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Mark a stage for profilers and tell listeners when it begins and ends."""
    for listener in _listeners:
        listener(name, None)
    begun = time.perf_counter()
    with nvtx.annotate(name, domain=DOMAIN):
        try:
            yield
        finally:
            seconds = time.perf_counter() - begun
            for listener in _listeners:
                listener(name, seconds)
