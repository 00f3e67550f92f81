"""All readers, and the choice of one for a source."""

from typing import Final

from kvcliff.readers import (
    client_kvcliff,
    client_vllm_bench,
    device_metrics,
    log,
    model_config,
    nsight_systems,
    prometheus,
    series_csv,
)
from kvcliff.readers.base import NO_MATCH, Reader, Sniff, Source

#: Asked in this order; the surest wins, the first of equals.
READERS: Final[tuple[Reader, ...]] = (
    nsight_systems.READER,
    prometheus.READER,
    client_kvcliff.READER,
    client_vllm_bench.READER,
    series_csv.READER,
    device_metrics.READER,
    model_config.READER,
    log.READER,
)


def pick_reader(source: Source) -> tuple[Reader | None, Sniff]:
    """Return the reader that is surest of ``source`` and its reason; ``None`` when none knows it.

    Raises:
        InputError: the source cannot be opened.
    """
    best: tuple[Reader | None, Sniff] = (None, NO_MATCH)
    for reader in READERS:
        sniff = reader.sniff(source)
        if sniff.score > best[1].score:
            best = (reader, sniff)
    return best
