import json
from pathlib import Path

import pytest

from builders_clients import START_NS, S, aiperf_gpu_record, picked
from builders_metrics import TableSink, read, source_of
from kvcliff.readers.base import LoadReport

T0 = START_NS


def record(second: int = 0, index: int = 0, **changes: object) -> str:
    """Return one line of the file."""
    return json.dumps(aiperf_gpu_record(second, index, **changes)) + "\n"


def load(folder: Path, text: str) -> tuple[TableSink, LoadReport]:
    source = source_of(folder, "gpu_telemetry_export.jsonl", text)
    assert picked(source).name == "aiperf_gpu_telemetry"
    return read(picked(source), source)


def test_units_become_those_of_the_counters(tmp_path: Path) -> None:
    sink, report = load(tmp_path, record() + record(1, 1))
    rows = sink.rows("raw_device_samples", "src_ns", "device_id", "counter", "value")
    assert rows[:5] == [
        (T0, 0, "power_w", 350.5),
        (T0, 0, "energy_total_j", 2.5e6),
        (T0, 0, "gpu_busy_pct", 97.0),
        (T0, 0, "memory_used_bytes", 72.5e9),
        (T0, 0, "sm_active_pct", 81.25),
    ]
    assert {row[:2] for row in rows[5:]} == {(T0 + S, 1)}
    assert sink.settings() == {
        ("", "device_clock"): "unix",
        ("device:0", "gpu_name"): "NVIDIA H100 80GB HBM3",
        ("device:1", "gpu_name"): "NVIDIA H100 80GB HBM3",
    }
    assert report.skipped_count == 0


def test_names_since_0_12_mean_the_same(tmp_path: Path) -> None:
    data = {"nvidia_gpu_utilization": 97.0, "nvidia_memory_used": 72.5, "nvidia_sm_utilization": 81.25}
    text = record(telemetry_data=data, telemetry_source_url="http://localhost:9400/metrics")
    sink, _ = load(tmp_path, text)
    assert sink.rows("raw_device_samples", "counter", "value") == [
        ("gpu_busy_pct", 97.0),
        ("memory_used_bytes", 72.5e9),
        ("sm_active_pct", 81.25),
    ]


def test_the_driver_knows_no_busy_multiprocessors(tmp_path: Path) -> None:
    sink, _ = load(tmp_path, record(dcgm_url="pynvml://localhost"))
    assert ("sm_active_pct",) not in sink.rows("raw_device_samples", "counter")


def test_gpus_of_several_hosts_are_apart(tmp_path: Path) -> None:
    sink, report = load(tmp_path, record() + record(hostname="node2") + record())
    assert {device for (device,) in sink.rows("raw_device_samples", "device_id")} == {0, 1}
    assert report.notes == ("1 records repeat the time of the one before and were dropped",)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{broken\n", "line is no JSON object"),
        (record(timestamp_ns="now"), "record has no time or no GPU"),
        (record(gpu_index=-1), "record has no time or no GPU"),
        (record(2, telemetry_data={"gpu_utilization": "97"}), "value of a counter is no number"),
    ],
)
def test_what_cannot_be_read_is_counted(line: str, reason: str, tmp_path: Path) -> None:
    sink, report = load(tmp_path, record() + line + record(1))
    assert (report.skipped_count, report.first_skip_reason) == (1, reason)
    assert {at for (at,) in sink.rows("raw_device_samples", "src_ns")} == {T0, T0 + S}


def test_cut_file_gives_the_records_before_the_cut(tmp_path: Path) -> None:
    sink, report = load(tmp_path, record() + record(1)[:60])
    assert {at for (at,) in sink.rows("raw_device_samples", "src_ns")} == {T0}
    assert report.skipped_count == 1
