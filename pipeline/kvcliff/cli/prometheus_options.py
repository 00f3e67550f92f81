"""Options of the commands that can read a time window from a live Prometheus server."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from kvcliff.cli.options import FUNCTION, option
from kvcliff.cli.window_options import WindowTexts, from_option, to_option


@dataclass(frozen=True)
class PrometheusRequest:
    """What the user asks of a server, as given on the command line."""

    url: str
    start: str | None
    end: str
    step_s: float | None = None
    matchers: str | None = None
    token: str | None = None
    headers_path: Path | None = None
    timeout_s: float = 60.0


def prometheus_options(command: FUNCTION) -> FUNCTION:
    """Return a command with the options of a live server and of a window.

    It gets ``prometheus``, what to ask a server for, or ``window``, what to cut out of the run; each ``None``
    when it is not asked for.
    """

    @functools.wraps(command)
    def wrapped(
        *,
        prometheus_url: str | None,
        from_time: str | None,
        to_time: str | None,
        step_s: float | None,
        matchers: str | None,
        prometheus_token: str | None,
        prometheus_headers: Path | None,
        prometheus_timeout_s: float,
        **others: Any,
    ) -> Any:
        request, window = None, None
        if prometheus_url is None and (from_time is not None or to_time is not None):
            window = WindowTexts(from_time, to_time)
        if prometheus_url is not None:
            request = PrometheusRequest(
                prometheus_url,
                from_time,
                to_time or "now",
                step_s,
                matchers,
                prometheus_token,
                prometheus_headers,
                prometheus_timeout_s,
            )
        return command(prometheus=request, window=window, **others)

    return functools.reduce(_add, reversed(_OPTIONS), wrapped)  # type: ignore[return-value]


def _add(command: Any, decorate: Callable[[Any], Any]) -> Any:
    return decorate(command)


_OPTIONS: Final = (
    option(
        "--prometheus",
        "prometheus_url",
        metavar="URL",
        default=None,
        help="Ask this Prometheus server (or one that speaks its query API) for the metrics of a time window "
        "and keep the answers as a file in RUN. Nothing is asked over the network without it.",
    ),
    from_option,
    to_option,
    option(
        "--step",
        "step_s",
        type=float,
        metavar="SECONDS",
        default=None,
        help="Ask for one value per so many seconds; without it for every sample as it was scraped.",
    ),
    option(
        "--match",
        "matchers",
        metavar="MATCHERS",
        default=None,
        help='Label matchers in PromQL that choose the engine, for example job="vllm".',
    ),
    option(
        "--prometheus-token",
        "prometheus_token",
        metavar="TOKEN",
        default=None,
        help="Bearer token for the server; better given by the environment, since others on the machine "
        "can read command lines.",
    ),
    option(
        "--prometheus-headers",
        "prometheus_headers",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        default=None,
        help="File with headers to send to the server, one 'Name: value' a line.",
    ),
    option(
        "--prometheus-timeout",
        "prometheus_timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        default=60.0,
        help="How long a silent server is waited for.",
    ),
)
