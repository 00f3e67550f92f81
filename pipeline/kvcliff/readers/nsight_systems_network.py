"""Traffic of network adapters of an Nsight Systems export, as counters over time."""

from collections.abc import Iterator

import polars as pl

from kvcliff.readers.nsight_systems_export import Column, Export

TABLE = "NET_NIC_METRIC"
NAMES_TABLE = "TARGET_INFO_NETWORK_METRICS"
_COLUMNS = (
    Column("src_ns", "start", pl.Int64),
    Column("end_ns", "end", pl.Int64),
    Column("nic", "globalId", pl.Int64),
    Column("list_id", "metricsListId", pl.Int64),
    Column("metric_id", "metricsIdx", pl.Int64),
    Column("value", "value", pl.Float64),
)
#: Words of a metric's name, in lower case, and what it is called here. The first one that fits counts.
_DIRECTIONS = (("received", "received_bytes_per_s"), ("sent", "sent_bytes_per_s"))
_NS_PER_S = 1e9


def _names(export: Export) -> pl.DataFrame:
    """Return the metrics to read with their counter, and whether they count bytes of an interval."""
    rows = []
    if export.has(NAMES_TABLE, "metricsListId", "metricsIdx", "name"):
        unit = "unit" if export.has(NAMES_TABLE, "unit") else "null"
        sql = f"select metricsListId, metricsIdx, name, {unit} from {NAMES_TABLE} order by 1, 2"  # noqa: S608
        for list_id, metric_id, name, unit_text in export.rows(sql):
            words = f"{name or ''} {unit_text or ''}".lower()
            counter = next((title for word, title in _DIRECTIONS if word in words and "byte" in words), None)
            if counter is not None:
                rows.append((list_id, metric_id, counter, "/s" not in words))
    return pl.DataFrame(
        rows,
        schema={"list_id": pl.Int64, "metric_id": pl.Int64, "title": pl.String, "is_count": pl.Boolean},
        orient="row",
    )


def read_network(export: Export, shift_ns: int) -> Iterator[pl.DataFrame]:
    """Yield rows for ``raw_gpu_metrics``: bytes per second of each adapter, which has no GPU.

    Adapters are numbered from 0 by their id in the export: names and addresses stay in the file.
    """
    names = _names(export)
    if not names.height or not export.has(TABLE, "start", "end", "globalId", "metricsIdx", "value"):
        return
    ids = [row[0] for row in export.rows(f"select distinct globalId from {TABLE} order by 1")]  # noqa: S608
    numbers = pl.DataFrame(
        {"nic": ids, "number": range(len(ids))}, schema={"nic": pl.Int64, "number": pl.Int64}
    )
    span = pl.col("end_ns") - pl.col("src_ns")
    for frame in export.frames(TABLE, _COLUMNS):
        joined = frame.join(names, on=["list_id", "metric_id"], how="inner", maintain_order="left").join(
            numbers, on="nic", how="inner", maintain_order="left"
        )
        rate = pl.when("is_count").then(pl.col("value") * _NS_PER_S / span).otherwise(pl.col("value"))
        timed = joined.filter(span > 0)
        yield timed.select(
            pl.col("src_ns") - shift_ns,
            pl.lit(None, pl.Int32).alias("device_id"),
            pl.format("nic_{}_{}", "number", "title").alias("counter"),
            rate.alias("value"),
        )
