"""GPU hardware counters sampled by Nsight Systems, under the names that kvcliff uses."""

from collections.abc import Iterator

import polars as pl

from kvcliff.readers.nsight_systems_export import Column, Export

TABLE = "GPU_METRICS"
NAMES_TABLE = "TARGET_INFO_GPU_METRICS"
#: Counter names by the text before `` [`` in lower case. The clock is in Hz although its label says MHz.
_COUNTERS = {
    "dram read bandwidth": "dram_read_pct",
    "dram read throughput": "dram_read_pct",
    "dram write bandwidth": "dram_write_pct",
    "dram write throughput": "dram_write_pct",
    "sms active": "sm_active_pct",
    "sm active": "sm_active_pct",
    "sm issue": "sm_issue_pct",
    "tensor active": "tensor_active_pct",
    "tensor active / fp16 active": "tensor_active_pct",
    "gr active": "gr_active_pct",
    "pcie rx throughput": "pcie_rx_pct",
    "pcie tx throughput": "pcie_tx_pct",
    "gpc clock frequency": "gpc_clock_hz",
    "sys clock frequency": "sys_clock_hz",
    "nvlink rx responses user data": "nvlink_rx_user_data_pct",
    "nvlink tx responses user data": "nvlink_tx_user_data_pct",
    "l2 hit rate": "l2_hit_pct",
    "l2 hit rate from l1": "l2_hit_from_l1_pct",
}
_COLUMNS = (
    Column("src_ns", "timestamp", pl.Int64),
    Column("type_id", "typeId", pl.Int64),
    Column("metric_id", "metricId", pl.Int64),
    Column("value", "value", pl.Float64),
)
_GPU_MASK = 0xFF


def counter_names(export: Export) -> dict[tuple[int, int], str]:
    """Return the counters to read by (type id, metric id); unknown metrics are left out."""
    if not export.has(NAMES_TABLE, "typeId", "metricId", "metricName"):
        return {}
    rows = export.rows(f"select typeId, metricId, metricName from {NAMES_TABLE} order by 1, 2")  # noqa: S608
    names: dict[tuple[int, int], str] = {}
    taken: set[tuple[int, str]] = set()
    for type_id, metric_id, text in rows:
        label, _, unit = str(text).partition(" [")
        # A metric may come as percentage and as average; only the percentage fits the counter's unit.
        fits = unit.startswith(("Throughput", "MHz")) or not unit
        name = _COUNTERS.get(label.strip().lower())
        if name is not None and fits and (type_id, name) not in taken:
            taken.add((type_id, name))
            names[type_id, metric_id] = name
    return names


def read_metrics(export: Export, shift_ns: int) -> Iterator[pl.DataFrame]:
    """Yield batches for ``raw_gpu_metrics``."""
    names = counter_names(export)
    if not names or not export.has(TABLE, "timestamp", "typeId", "metricId", "value"):
        return
    lookup = pl.DataFrame(
        [(type_id, metric_id, type_id & _GPU_MASK, name) for (type_id, metric_id), name in names.items()],
        schema={"type_id": pl.Int64, "metric_id": pl.Int64, "device_id": pl.Int32, "counter": pl.String},
        orient="row",
    )
    ids = "[" + ",".join(str(metric_id) for metric_id in sorted({metric_id for _, metric_id in names})) + "]"
    condition = "timestamp is not null and metricId in (select value from json_each(?))"
    for frame in export.frames(TABLE, _COLUMNS, condition, (ids,)):
        joined = frame.join(lookup, on=["type_id", "metric_id"], how="inner", maintain_order="left")
        yield joined.select(pl.col("src_ns") - shift_ns, "device_id", "counter", "value")
