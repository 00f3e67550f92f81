"""Which processes of an Nsight Systems export launched kernels, and whose kernels it shows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl


@dataclass
class Processes:
    """Process keys that are met while rows pass by.

    Attributes:
        launching: processes that launched kernels or graphs.
        working: processes with kernels or graphs on the GPU.
    """

    launching: set[int] = field(default_factory=set)
    working: set[int] = field(default_factory=set)

    @property
    def silent_count(self) -> int:
        """Return how many processes launched kernels of which none is in the export.

        0 when the GPU's rows carry no process at all: then nothing can be told.
        """
        return len(self.launching - self.working) if self.working else 0

    def of_work(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Pass on batches of kernels or graphs and remember their processes."""
        for frame in frames:
            self.working.update(frame["process_id"].drop_nulls().unique().to_list())
            yield frame

    def of_launches(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Pass on batches of launch calls and remember who launched kernels or graphs."""
        for frame in frames:
            kernels = frame.filter(pl.col("call").is_in(["kernel", "graph"]))
            self.launching.update(kernels["process_id"].drop_nulls().unique().to_list())
            yield frame
