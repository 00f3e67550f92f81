"""The metrics of a time window, asked from a Prometheus server and kept as a file that a reader knows."""

import gzip
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, Final, cast

from kvcliff.errors import InputError, OutputError, UsageProblem
from kvcliff.readers.metric_families import METRIC_FAMILIES, canonical_name, dcgm_counter, known_kind
from kvcliff.readers.metric_series import CACHE_CONFIG_NAMES
from kvcliff.readers.prometheus_http import PrometheusServer

#: Prometheus refuses more steps than this for one series of ``query_range``.
STEP_LIMIT: Final = 11_000
#: Raw samples are asked for in pieces of this length, so that no answer becomes huge.
_RAW_PIECE_MS: Final = 3_600_000
_NAMES_PATH: Final = "/api/v1/label/__name__/values"
_QUERY_PATH: Final = "/api/v1/query"
_RANGE_PATH: Final = "/api/v1/query_range"
_NATIVE_HISTOGRAMS: Final = frozenset(family.name for family in METRIC_FAMILIES if family.kind == "histogram")
_OF_EVERY_PROCESS: Final = ("process_start_time_seconds",)
_MATCHERS: Final = re.compile(
    r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"'
    r'(?:\s*,\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*")*\s*,?\s*'
)


@dataclass(frozen=True)
class Window:
    """What is asked for.

    Attributes:
        start_ms: first instant, unix milliseconds.
        end_ms: last instant, unix milliseconds.
        step_s: seconds between the values of each series, or ``None`` for the samples as they were scraped.
        matchers: further label matchers in PromQL (``job="vllm"``), or empty.
    """

    start_ms: int
    end_ms: int
    step_s: Decimal | None = None
    matchers: str = ""

    def __post_init__(self) -> None:
        """Check what the server would refuse with less clear words."""
        if self.end_ms <= self.start_ms:
            raise UsageProblem(
                "the window ends before it begins", hint="give --from an earlier time than --to"
            )
        if self.step_s is not None and self.step_s <= 0:
            raise UsageProblem("--step must be more than 0 seconds", hint="for example: --step 15")
        if self.matchers and not _MATCHERS.fullmatch(self.matchers):
            raise UsageProblem(
                "--match is no list of label matchers", hint="for example: --match 'job=\"vllm\"'"
            )

    def file_name(self, base_url: str) -> str:
        """Return the name of the file that holds the window of a server; other questions get other names."""
        question = f"{base_url}\n{self.start_ms}\n{self.end_ms}\n{self.step_s}\n{self.matchers}"
        digest = hashlib.sha256(question.encode()).hexdigest()[:8]
        return f"prometheus_{self.label}_{digest}.json.gz"

    @property
    def label(self) -> str:
        """Return the window as part of a file or folder name."""
        return f"{_compact(self.start_ms)}_{_compact(self.end_ms)}"


@dataclass(frozen=True)
class FetchReport:
    """What came: metric names that were asked for, requests made, and bytes before compression."""

    name_count: int
    request_count: int
    size_bytes: int


def is_wanted(exposed: str) -> bool:
    """Return whether a metric name is one that the readers use and that only engines and GPUs have."""
    name = canonical_name(exposed)
    if name in _OF_EVERY_PROCESS:
        return False
    return (
        known_kind(name) is not None
        or dcgm_counter(name) is not None
        or name in CACHE_CONFIG_NAMES
        or name in _NATIVE_HISTOGRAMS
    )


def fetch_window(server: PrometheusServer, window: Window, target: Path) -> FetchReport:
    """Write the answers about a window to ``target``, which appears only when all of them came.

    Args:
        server: whom to ask.
        window: what to ask for.
        target: file to write, gzip-compressed JSON, one answer after the other.

    Raises:
        InputError: the server cannot be asked, or has none of the metrics in the window.
        OutputError: the file cannot be written.
    """
    names = _names(server, window)
    partial = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            # No name and no time in the header: the same answers give the same bytes.
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6)
            with closing(packed):
                report = _copy_all(server, window, names, cast("BinaryIO", packed))
        os.replace(partial, target)
    except OSError as exc:
        raise OutputError(
            f"cannot write {target}: {exc.strerror or exc}", hint="choose another RUN folder"
        ) from exc
    finally:
        partial.unlink(missing_ok=True)
    return report


def _names(server: PrometheusServer, window: Window) -> tuple[str, ...]:
    """Return the wanted metric names that the server has in the window, sorted.

    Raises:
        InputError: it has none.
    """
    parameters = {"start": _seconds(window.start_ms), "end": _seconds(window.end_ms)}
    if window.matchers:
        parameters["match[]"] = "{" + window.matchers + "}"
    found = server.ask(_NAMES_PATH, parameters)
    known = found if isinstance(found, list) else []
    names = tuple(sorted(name for name in known if isinstance(name, str) and is_wanted(name)))
    if not names:
        where = f" that match {window.matchers}" if window.matchers else ""
        raise InputError(
            f"{server.base_url} has none of the metrics that kvcliff reads{where} in this window",
            hint="check --from, --to and --match, and that this server scrapes the engine "
            "(names such as vllm:num_requests_running)",
        )
    return names


def _copy_all(
    server: PrometheusServer, window: Window, names: tuple[str, ...], target: BinaryIO
) -> FetchReport:
    """Copy the answers about every name and piece of the window."""
    size, count = 0, 0
    for name in names:
        matchers = f",{window.matchers}" if window.matchers else ""
        selector = f'{{__name__="{name}"{matchers}}}'
        for path, parameters in _requests(window, selector):
            size += server.copy(path, parameters, target)
            count += 1
    return FetchReport(len(names), count, size)


def _requests(window: Window, selector: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield path and parameters of the requests that cover a window."""
    if window.step_s is None:
        for start_ms, end_ms in _pieces(window, _RAW_PIECE_MS):
            # Newer servers leave out the first instant of a range: one millisecond more brings it back.
            length_ms = end_ms - start_ms + (start_ms == window.start_ms)
            yield _QUERY_PATH, {"query": f"{selector}[{length_ms}ms]", "time": _seconds(end_ms)}
        return
    # A piece begins one step after the last value of the piece before it, so that no value comes twice.
    step_ms = max(int(window.step_s * 1000), 1)
    for start_ms, end_ms in _pieces(window, step_ms * (STEP_LIMIT - 1000)):
        first_ms = start_ms if start_ms == window.start_ms else start_ms + step_ms
        if first_ms <= end_ms:
            span = {"start": _seconds(first_ms), "end": _seconds(end_ms), "step": _seconds(step_ms)}
            yield _RANGE_PATH, {"query": selector, **span}


def _pieces(window: Window, length_ms: int) -> Iterator[tuple[int, int]]:
    """Yield the window in pieces of at most ``length_ms``, each beginning where the one before ended."""
    start_ms = window.start_ms
    while start_ms < window.end_ms:
        end_ms = min(start_ms + length_ms, window.end_ms)
        yield start_ms, end_ms
        start_ms = end_ms


def _seconds(milliseconds: int) -> str:
    """Return milliseconds as the API takes them."""
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def _compact(milliseconds: int) -> str:
    """Return an instant as part of a file name."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
