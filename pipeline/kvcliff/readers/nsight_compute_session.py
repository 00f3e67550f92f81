"""How Nsight Compute was run: the options on its command line, without paths, host or profiled command."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

#: Options without a value; every other long option takes the next word unless it has '='.
_FLAGS: Final = frozenset(
    {
        *("--nvtx", "--csv", "--quiet", "--verbose", "--force-overwrite", "-f", "--open-in-ui"),
        *("--app-range-replay", "--call-stack", "--check-exit-code", "--disable-extra-suffixes"),
        *("--apply-rules-only", "--null-stdin", "--print-summary-only"),
    }
)
_CACHE: Final = frozenset({"all", "none"})
_CLOCK: Final = frozenset({"base", "none", "boost", "reset"})
_REPLAY: Final = frozenset({"kernel", "application", "range", "app-range"})
_GRAPH: Final = frozenset({"node", "graph"})
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")
_VERSION: Final = re.compile(r"\d+(\.\d+){1,4}")
_SHORT: Final = {"-c": "--launch-count", "-s": "--launch-skip"}
_SCHEMA: Final = {
    "page": pl.String,
    "tool_version": pl.String,
    "driver_version": pl.String,
    "cuda_version": pl.String,
    "cache_control": pl.String,
    "clock_control": pl.String,
    "replay_mode": pl.String,
    "metric_set": pl.String,
    "graph_profiling": pl.String,
    "launch_skip": pl.Int64,
    "launch_count": pl.Int64,
    "read_kernel_count": pl.Int64,
    "stated_kernel_count": pl.Int64,
    "has_options": pl.Boolean,
    "is_refused": pl.Boolean,
    "is_cut": pl.Boolean,
}


@dataclass(frozen=True)
class CounterSession:
    """What one file says about its collection; the fields are columns of ``raw_counter_sessions``."""

    page: str
    tool_version: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    cache_control: str | None = None
    clock_control: str | None = None
    replay_mode: str | None = None
    metric_set: str | None = None
    graph_profiling: str | None = None
    launch_skip: int | None = None
    launch_count: int | None = None
    read_kernel_count: int = 0
    stated_kernel_count: int | None = None
    has_options: bool = False
    is_refused: bool = False
    is_cut: bool = False

    def frame(self) -> pl.DataFrame:
        """Return the row of ``raw_counter_sessions``."""
        return pl.DataFrame({name: [getattr(self, name)] for name in _SCHEMA}, schema=_SCHEMA)


def with_command_line(session: CounterSession, command_line: str) -> CounterSession:
    """Return the session with the options of a profiler command line; those left out have their defaults."""
    options: dict[str, str] = {}
    for name, value in _options(command_line):
        options.setdefault(name, value)
    asked = "--section" in options or "--metrics" in options or "--section-folder" in options
    metric_set = options.get("--set", "" if asked else "basic")
    return replace(
        session,
        cache_control=_choice(options, "--cache-control", _CACHE, "all"),
        clock_control=_choice(options, "--clock-control", _CLOCK, "base"),
        replay_mode=_choice(options, "--replay-mode", _REPLAY, "kernel"),
        graph_profiling=_choice(options, "--graph-profiling", _GRAPH, "node"),
        metric_set=metric_set if metric_set == "" or _WORD.fullmatch(metric_set) else None,
        launch_skip=_count(options.get("--launch-skip")),
        launch_count=_count(options.get("--launch-count")),
        has_options=True,
    )


def with_versions(session: CounterSession, versions: Mapping[str, str]) -> CounterSession:
    """Return the session with the versions of the tool and the driver, by the name of the provider."""
    return replace(
        session,
        tool_version=_version(versions.get("Nsight Compute Target")) or session.tool_version,
        driver_version=_version(versions.get("Display Driver Version")) or session.driver_version,
        cuda_version=_version(versions.get("CUDA Version")) or session.cuda_version,
    )


def _options(command_line: str) -> Iterator[tuple[str, str]]:
    """Yield the options in front of the profiled command, with their values."""
    try:
        words = shlex.split(command_line)[1:]
    except ValueError:
        words = command_line.split()[1:]
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            return
        name, is_joined, value = word.partition("=")
        name = _SHORT.get(name, name)
        if not is_joined and name not in _FLAGS:
            value = next(rest, "")
        yield name, value


def _choice(options: Mapping[str, str], name: str, allowed: frozenset[str], default: str) -> str | None:
    """Return the value of an option, its default when left out, ``None`` when it is no known one."""
    value = options.get(name, default).lower()
    return value if value in allowed else None


def _count(text: str | None) -> int | None:
    """Return a whole number of at most nine digits, or ``None``."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else None


def _version(text: str | None) -> str | None:
    """Return the number at the start of a version text, or ``None``."""
    match = _VERSION.match(text.strip()) if text is not None else None
    return match[0] if match else None
