"""A time window of a live Prometheus server into the folder of a run."""

import math
import re
import time
from decimal import Decimal
from pathlib import Path
from typing import Final

import click

from kvcliff.cli.output import note
from kvcliff.cli.progress import progress
from kvcliff.cli.prometheus_options import PrometheusRequest
from kvcliff.errors import UsageProblem
from kvcliff.readers.prometheus_http import PrometheusServer
from kvcliff.readers.prometheus_window import Window, fetch_window
from kvcliff.store.window import parse_time
from kvcliff.timing import stage

DEFAULT_WINDOWS: Final = Path("kvcliff-windows")
_TIME_HINT: Final = "for example 2026-11-30T14:05:00Z, 2026-11-30T15:05:00+01:00, 1764511500, now or now-30m"


def runs_to_read(runs: tuple[Path, ...], request: PrometheusRequest | None) -> tuple[Path, ...]:
    """Return the runs to read, after a window that was asked for has been put into its run.

    Args:
        runs: the arguments of the command.
        request: what to ask a server for, or ``None``.

    Raises:
        UsageProblem: there is no run, or the window fits none.
        InputError: the server cannot be asked, or has nothing.
        OutputError: the window cannot be kept.
    """
    if request is None:
        if not runs:
            raise click.MissingParameter(param_hint="'RUN...'", param_type="argument")
        return runs
    if len(runs) > 1 or (runs and runs[0].exists() and not runs[0].is_dir()):
        raise UsageProblem(
            "--prometheus takes one RUN, the folder that the window is kept in",
            hint=f"without RUN a new folder under {DEFAULT_WINDOWS} is used",
        )
    return (_fetch(request, runs[0] if runs else None),)


def _fetch(request: PrometheusRequest, run: Path | None) -> Path:
    """Return the run folder that holds the window; a window that is there already is not asked for again."""
    window, server = window_of(request, time.time()), server_of(request)
    name = window.file_name(server.base_url)
    folder = run if run is not None else DEFAULT_WINDOWS / name.partition(".")[0]
    target = folder / name
    if target.exists():
        note(f"{target} holds this window already; the server was not asked again")
        return folder
    with progress(), stage(f"ask {server.base_url}"):
        report = fetch_window(server, window, target)
    note(f"wrote {target} ({report.name_count} metric names from {server.base_url})")
    return folder


def window_of(request: PrometheusRequest, now_s: float) -> Window:
    """Return the window to ask for.

    Args:
        request: what the user asked for.
        now_s: the present, unix seconds.

    Raises:
        UsageProblem: a time is missing or is no instant, or the window is empty.
    """
    if request.start is None:
        raise UsageProblem("--prometheus needs --from: the first instant of the window", hint=_TIME_HINT)
    if request.step_s is not None and not math.isfinite(request.step_s):
        raise UsageProblem("--step is no number of seconds", hint="for example: --step 15")
    step_s = Decimal(str(request.step_s)) if request.step_s is not None else None
    start_ms, end_ms = (_instant_ms(text, now_s) for text in (request.start, request.end))
    return Window(start_ms, end_ms, step_s, request.matchers or "")


def server_of(request: PrometheusRequest) -> PrometheusServer:
    """Return the server to ask, with its credentials.

    Raises:
        UsageProblem: the address or the file of headers cannot be used.
    """
    headers = _read_headers(request.headers_path) if request.headers_path is not None else None
    return PrometheusServer.at(request.url, token=request.token, headers=headers, timeout_s=request.timeout_s)


def _instant_ms(text: str, now_s: float) -> int:
    """Return a time of the command line as unix milliseconds.

    Raises:
        UsageProblem: it is no instant; a time without a zone is none.
    """
    found = parse_time(text, now_s)
    if found.kind != "utc":
        what = "counts from a run" if found.kind == "start" else "names no time zone"
        raise UsageProblem(f"{text} {what}, and a server knows instants only", hint=_TIME_HINT)
    return found.ns // 1_000_000


def _read_headers(path: Path) -> dict[str, str]:
    """Return the headers of a file; what it holds is never part of a message.

    Raises:
        UsageProblem: the file cannot be read, or a line is no header.
    """
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError) as exc:
        raise UsageProblem(
            f"cannot read the headers in {path}", hint="one 'Name: value' a line, in ASCII"
        ) from exc
    headers = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z0-9-]+", name.strip()):
            raise UsageProblem(f"line {number} of {path} is no header", hint="one 'Name: value' a line")
        headers[name.strip()] = value.strip()
    return headers
