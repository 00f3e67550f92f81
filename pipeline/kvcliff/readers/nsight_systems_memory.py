"""Allocations and unified-memory page faults of an Nsight Systems export, as counters over time."""

from collections.abc import Iterator

import polars as pl

from kvcliff.readers.nsight_systems_activity import PLACED, Devices
from kvcliff.readers.nsight_systems_export import Column, Export

USAGE = "CUDA_GPU_MEMORY_USAGE_EVENTS"
GPU_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"
CPU_FAULTS = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
#: Device memory; host and managed allocations take none of it by themselves.
_DEVICE_KIND = 2
_ALLOCATION = 0
_START = Column("src_ns", "start", pl.Int64)
_USAGE_COLUMNS = (
    _START,
    *PLACED,
    Column("context_id", "contextId", pl.Int64),
    Column("address", "address", pl.UInt64, is_bits=True),
    Column("bytes", "bytes", pl.Int64),
    Column("operation", "memoryOperationType", pl.Int32),
)
_FAULT_COLUMNS = (_START, *PLACED, Column("value", "numberOfPageFaults", pl.Float64))
_BLOCK = ("process_id", "context_id", "address")


def read_memory_use(export: Export, shift_ns: int, devices: Devices) -> Iterator[pl.DataFrame]:
    """Yield rows for ``raw_gpu_metrics``: device memory allocated since the capture began, at each change.

    A free of memory that was allocated before the capture changes nothing, so that the sum is never negative.
    """
    frames = list(export.frames(USAGE, _USAGE_COLUMNS, f"memKind = {_DEVICE_KIND}"))
    if not frames:
        return
    events = devices.place(pl.concat(frames)).sort("src_ns", maintain_order=True)
    is_allocation = pl.col("operation") == _ALLOCATION
    earlier = pl.when(is_allocation).then(pl.col("bytes")).otherwise(0).shift(1, fill_value=0).over(_BLOCK)
    change = pl.when(is_allocation).then(pl.col("bytes")).otherwise(-earlier)
    summed = events.with_columns(change.alias("change")).with_columns(
        pl.col("change").cum_sum().over("device_id").cast(pl.Float64).alias("value")
    )
    # Of several events at one time the last one counts.
    last = summed.unique(["src_ns", "device_id"], keep="last", maintain_order=True)
    yield _counter(last, "memory_allocated_bytes", shift_ns)


def read_page_faults(export: Export, shift_ns: int, devices: Devices) -> Iterator[pl.DataFrame]:
    """Yield rows for ``raw_gpu_metrics``: page faults of unified memory, on the GPUs and on the host."""
    for table, counter in ((GPU_FAULTS, "um_gpu_page_faults"), (CPU_FAULTS, "um_cpu_page_faults")):
        frames = list(export.frames(table, _FAULT_COLUMNS))
        if not frames:
            continue
        faults = devices.place(pl.concat(frames)).with_columns(pl.col("value").fill_null(1))
        summed = faults.group_by("src_ns", "device_id", maintain_order=True).agg(pl.col("value").sum())
        yield _counter(summed.sort("src_ns", "device_id"), counter, shift_ns)


def _counter(frame: pl.DataFrame, name: str, shift_ns: int) -> pl.DataFrame:
    return frame.select(
        pl.col("src_ns") - shift_ns,
        pl.col("device_id").cast(pl.Int32),
        pl.lit(name).alias("counter"),
        pl.col("value").cast(pl.Float64),
    )
