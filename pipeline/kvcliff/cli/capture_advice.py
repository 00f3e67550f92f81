"""What a full diagnosis wants of a run, and the command that captures each missing part."""

from dataclasses import dataclass

from kvcliff.findings.captures import CLIENT, DEVICE, LOG, SCRAPE, TRACE


@dataclass(frozen=True)
class Capture:
    """One kind of file.

    Attributes:
        role: role of the readers that take such files.
        what: what the file is.
        why: what a diagnosis cannot tell without it.
        command: how it is captured; names in it are relative to the run folder.
    """

    role: str
    what: str
    why: str
    command: str


#: Most telling first.
CAPTURES: tuple[Capture, ...] = (
    Capture(
        "metrics",
        "scrapes of the server's metrics",
        "KV occupancy, waiting requests and preemptions over time",
        SCRAPE,
    ),
    Capture(
        "client",
        "results of the load client with per-token times",
        "how long users' streams stood still, and whether their latency got worse",
        CLIENT,
    ),
    Capture(
        "log",
        "the server's log with iteration details",
        "engine limits, and which step was a prefill, a decode or a recomputation",
        LOG,
    ),
    Capture(
        "trace",
        "an Nsight Systems trace",
        "where GPU time goes by phase, and what KV blocks are copied",
        TRACE,
    ),
    Capture(
        "device",
        "GPU telemetry",
        "clocks, power and memory of the GPU, which tell throttling from paging",
        DEVICE,
    ),
    Capture(
        "model",
        "the model's shape",
        "KV bytes per token, the capacity ledger and the decode floor",
        "cp MODEL_FOLDER/config.json .",
    ),
)


def missing_captures(roles: frozenset[str]) -> tuple[Capture, ...]:
    """Return the captures that no file of a run provides, most telling first."""
    return tuple(capture for capture in CAPTURES if capture.role not in roles)
