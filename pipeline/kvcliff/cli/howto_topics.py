"""The topics that ``howto`` explains."""

from collections.abc import Callable
from dataclasses import dataclass

from kvcliff.cli.howto import ENGINES, VLLM, Engine, Howto
from kvcliff.cli.howto_gpu import gpu, ncu, nsys
from kvcliff.cli.howto_serving import client, log, scrape, stress


@dataclass(frozen=True)
class Topic:
    """One topic: its name, and what it says for an engine."""

    name: str
    explain: Callable[[Engine], Howto]


TOPICS: tuple[Topic, ...] = (
    Topic("nsys", nsys),
    Topic("ncu", ncu),
    Topic("scrape", scrape),
    Topic("log", log),
    Topic("client", client),
    Topic("gpu", gpu),
    Topic("stress", stress),
)


def explain(topic: str, engine: str = VLLM.name) -> Howto:
    """Return what is to be said of a topic for an engine, both given by name."""
    explainer = next(known.explain for known in TOPICS if known.name == topic)
    return explainer(next(known for known in ENGINES if known.name == engine))
