"""Small run folders for tests of the store and the command line, and ways to run commands on them."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from click.testing import Result

Invoke = Callable[..., Result]
START_NS = 1_790_000_000_000_000_000
CHECKOUT = Path(__file__).resolve().parent.parent

_SCRAPE = """\
# scrape start_unix_ns={start_ns} end_unix_ns={end_ns} status=200
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} {usage}
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="m"}} {waiting}
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{{engine="0",model_name="m"}} {preemptions}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}
"""


@dataclass(frozen=True)
class Moment:
    """What one scrape says of the engine."""

    usage: float = 0.3
    running: int = 4
    waiting: int = 0
    preemptions: int = 0


def scrapes_text(moments: Sequence[Moment]) -> str:
    """Return the text of scrapes, half a second apart."""
    parts = []
    for number, moment in enumerate(moments):
        start_ns = START_NS + number * 500_000_000
        parts.append(
            _SCRAPE.format(
                start_ns=start_ns,
                end_ns=start_ns + 2_000_000,
                usage=moment.usage,
                running=float(moment.running),
                waiting=float(moment.waiting),
                preemptions=float(moment.preemptions),
                tokens=float(number * 100),
            )
        )
    return "".join(parts)


def easy_moments(count: int = 40) -> tuple[Moment, ...]:
    """Return the moments of an engine at ease."""
    return (Moment(),) * count


def pressed_moments() -> tuple[Moment, ...]:
    """Return 20 s at ease, a ramp of 10 s to a full KV cache, and 20 s of preemptions."""
    ramp = tuple(Moment(usage=0.3 + 0.035 * step, running=4 + step // 2) for step in range(20))
    storm = tuple(
        Moment(
            usage=1.0 - 0.02 * (step % 2), running=14 - step % 3, waiting=2 + step % 3, preemptions=1 + step
        )
        for step in range(40)
    )
    return easy_moments() + ramp + storm


def write_run(folder: Path, *, count: int = 40) -> Path:
    """Write the folder of a run at ease, with one scrape file, and return it."""
    return write_moments(folder, easy_moments(count))


def write_moments(folder: Path, moments: Sequence[Moment]) -> Path:
    """Write a run folder with one scrape file and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.prom").write_text(scrapes_text(moments), encoding="utf-8")
    return folder


def run_command(
    *arguments: str | Path,
    cwd: Path,
    environment: dict[str, str] | None = None,
    prefix: tuple[str, ...] = (),
    timeout_s: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run ``kvcliff`` as a process of its own and return what came of it.

    Args:
        arguments: the command line after ``kvcliff``.
        cwd: folder to run in.
        environment: variables to set.
        prefix: a command to run it under.
        timeout_s: when to give up.
    """
    return subprocess.run(
        [*prefix, *command_line(*arguments)],
        cwd=cwd,
        env=process_environment(environment),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def command_line(*arguments: str | Path) -> list[str]:
    """Return the argument list that runs ``kvcliff`` of this checkout with this Python."""
    return [sys.executable, "-c", "from kvcliff.cli import main; main()", *map(str, arguments)]


def process_environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment without variables that steer kvcliff, with the checkout importable."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KVCLIFF_", "NO_COLOR", "FORCE_COLOR"))
    }
    return {**kept, "PYTHONPATH": str(CHECKOUT / "pipeline"), **(extra or {})}
