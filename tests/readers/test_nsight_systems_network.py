"""Network adapters of a GPU trace: bytes per second by adapter, without its name."""

from pathlib import Path

import duckdb
import pytest
from tests.builders_nsys import NsysFile, raw_tables, read_export

from kvcliff.readers import nsight_systems_network as network
from kvcliff.readers.nsight_systems_tables import TABLES

NAMES = {
    0: ("IB: Bytes sent", "Number of bytes sent", "B"),
    1: ("IB: Bytes received", "Number of bytes received", "B"),
    2: ("IB: CNPs sent", "Congestion notifications", ""),
}


def export(unit: str = "B") -> NsysFile:
    file = NsysFile()
    for index, (name, description, _) in NAMES.items():
        file.add(
            "TARGET_INFO_NETWORK_METRICS",
            metricsListId=5,
            metricsIdx=index,
            name=name,
            description=description,
            unit=unit,
        )
    file.add("TARGET_INFO_NIC_INFO", GUID=77, name="mlx5_secret_host", nicId=1)
    return file


def sample(file: NsysFile, start: int, nic: int, index: int, value: int, length: int = 1_000_000) -> None:
    file.add(
        "NET_NIC_METRIC",
        start=start,
        end=start + length,
        globalId=nic,
        metricsListId=5,
        metricsIdx=index,
        value=value,
    )


def load(tmp_path: Path, file: NsysFile) -> duckdb.DuckDBPyConnection:
    con = raw_tables()
    read_export(con, file.write(tmp_path / "run.sqlite"))
    return con


def rows_of(con: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    return con.execute(
        "select src_ns, device_id, counter, value from raw_gpu_metrics order by all"
    ).fetchall()


def test_bytes_of_an_interval_become_a_rate(tmp_path: Path) -> None:
    file = export()
    sample(file, 0, 900, 0, 25_000)
    sample(file, 0, 400, 1, 1_000)
    sample(file, 1_000_000, 900, 1, 0)
    sample(file, 1_000_000, 900, 2, 3)
    sample(file, 2_000_000, 900, 0, 5, length=0)
    con = load(tmp_path, file)
    assert rows_of(con) == [
        (0, None, "nic_0_received_bytes_per_s", 1e6),
        (0, None, "nic_1_sent_bytes_per_s", 25e6),
        (1_000_000, None, "nic_1_received_bytes_per_s", 0.0),
    ]


def test_a_rate_stays_a_rate(tmp_path: Path) -> None:
    file = export(unit="B/s")
    sample(file, 0, 900, 0, 25_000)
    assert rows_of(load(tmp_path, file)) == [(0, None, "nic_0_sent_bytes_per_s", 25_000)]


@pytest.mark.parametrize("table", ["TARGET_INFO_NETWORK_METRICS", "NET_NIC_METRIC"])
def test_half_of_the_tables_gives_nothing(tmp_path: Path, table: str) -> None:
    file = export()
    sample(file, 0, 900, 0, 25_000)
    del file.rows[table]
    assert rows_of(load(tmp_path, file)) == []


def test_names_of_adapters_stay_in_the_file(tmp_path: Path) -> None:
    file = export()
    sample(file, 0, 900, 0, 25_000)
    con = load(tmp_path, file)
    for (name,) in con.execute("select table_name from duckdb_tables()").fetchall():
        assert "mlx5" not in str(con.execute(f"from {name}").fetchall())


def test_the_other_forms_bring_the_same_columns() -> None:
    assert {column.export for column in network._COLUMNS} <= set(TABLES[network.TABLE])
    assert {"metricsListId", "metricsIdx", "name", "unit"} <= set(TABLES[network.NAMES_TABLE])
