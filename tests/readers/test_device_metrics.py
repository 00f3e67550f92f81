import json
from pathlib import Path

import pytest

from builders_metrics import CORPUS, GARBAGE, NO_CORPUS, TableSink, gzip_cut, read, source_of
from kvcliff.errors import DataGapError
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.device_metrics import READER

T = 1_896_134_400_000_000_000
MIB = float(1 << 20)
QUERY = """timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], \
clocks_event_reasons.sw_power_cap
2030/02/01 00:00:00.613, 0, NVIDIA H100, 60 %, 70000 MiB, 500.25 W, Not Active
2030/02/01 00:00:00.613, 1, NVIDIA H100, [N/A], 70001 MiB, [Not Supported], Active
"""
RELATIVE_QUERY = """time [s],uuid, clocks_event_reasons.hw_slowdown, memory.total [MiB], utilization.gpu [%]
0.5,GPU-aaaa, Not Active, 65247 MiB, 30 %
0.5,GPU-bbbb, Active, 65247 MiB, 31 %
1.5,GPU-aaaa, Not Active, 65247 MiB, 32 %
"""
DMON = """#Date       Time        gpu    pwr  mtemp     sm    mem   mclk     fb  rxpci
#YYYYMMDD   HH:MM:SS    Idx      W      C      %      %    MHz     MB   MB/s
 20300201   00:00:00      0    400      -     60     40   2619  70000     27
#Date       Time        gpu    pwr     sm
#YYYYMMDD   HH:MM:SS    Idx      W      %
 20300201   00:00:01      0    401     61
"""
CSV_DMON = """time,gpu,pwr,sm,mem,pviol,tviol,txpci
s,Idx,W,%,%,%,bool,MB/s
0.25,0,109,0,1,0,0,2
1.25,0,110,5,6,3,0,4
"""
DCGMI = """#Entity   SMACT        DRAMA        PCITX
ID
GPU 0     0.500        0.250        100
GPU 1     N/A          0.500        200
GPU 0     0.750        0.250        300
"""


def samples(sink: TableSink) -> list[tuple[object, ...]]:
    return sink.rows("raw_device_samples", "src_ns", "device_id", "counter", "value")


def test_query_with_wall_clock(tmp_path: Path) -> None:
    source = source_of(tmp_path, "smi.csv", QUERY)
    assert READER.sniff(source).score == 90
    sink, report = read(READER, source)
    at = T + 613_000_000
    assert samples(sink) == [
        (at, 0, "gpu_busy_pct", 60.0),
        (at, 0, "memory_used_bytes", 70000 * MIB),
        (at, 0, "power_w", 500.25),
        (at, 0, "throttle_sw_power_cap_flag", 0.0),
        (at, 0, "throttle_flag", 0.0),
        (at, 1, "memory_used_bytes", 70001 * MIB),
        (at, 1, "throttle_sw_power_cap_flag", 1.0),
        (at, 1, "throttle_flag", 1.0),
    ]
    assert sink.settings() == {
        ("device:0", "gpu_name"): "NVIDIA H100",
        ("device:1", "gpu_name"): "NVIDIA H100",
        ("", "device_clock"): "local",
    }
    assert (report.skipped_count, report.damage) == (0, None)
    assert report.notes == ("times are local, their zone is unknown",)


def test_given_zone_makes_wall_clock_utc(tmp_path: Path) -> None:
    sink, report = read(READER, source_of(tmp_path, "smi.csv", QUERY), ReadContext(time_zone_offset_s=-3600))
    assert samples(sink)[0][0] == T + 613_000_000 + 3_600_000_000_000
    assert sink.settings()["", "device_clock"] == "unix"
    assert report.notes == ()


def test_query_with_relative_clock_numbers_gpus_by_appearance_and_drops_their_ids(tmp_path: Path) -> None:
    sink, _ = read(READER, source_of(tmp_path, "smi.csv", RELATIVE_QUERY))
    busy = [row for row in samples(sink) if row[2] == "gpu_busy_pct"]
    assert busy == [
        (500_000_000, 0, "gpu_busy_pct", 30.0),
        (500_000_000, 1, "gpu_busy_pct", 31.0),
        (1_500_000_000, 0, "gpu_busy_pct", 32.0),
    ]
    assert sink.settings()["", "device_clock"] == "relative"
    assert sink.settings()["device:1", "gpu_memory_bytes"] == "68416438272"
    assert not any("GPU-" in str(sink.frame(table).to_dicts()) for table in sink.tables())


def test_dmon_with_date_and_columns_that_change(tmp_path: Path) -> None:
    source = source_of(tmp_path, "dmon.txt", DMON)
    assert READER.sniff(source).score == 90
    sink, report = read(READER, source)
    assert samples(sink) == [
        (T, 0, "power_w", 400.0),
        (T, 0, "gpu_busy_pct", 60.0),
        (T, 0, "mem_busy_pct", 40.0),
        (T, 0, "mem_clock_mhz", 2619.0),
        (T, 0, "memory_used_bytes", 70000 * MIB),
        (T, 0, "rx_pcie_bytes_per_s", 27e6),
        (T + 10**9, 0, "power_w", 401.0),
        (T + 10**9, 0, "gpu_busy_pct", 61.0),
    ]
    assert report.skipped_count == 0


def test_dmon_as_csv_with_relative_clock(tmp_path: Path) -> None:
    sink, report = read(READER, source_of(tmp_path, "dmon.csv", CSV_DMON))
    late = [row[2:] for row in samples(sink) if row[0] == 1_250_000_000]
    assert late == [
        ("power_w", 110.0),
        ("gpu_busy_pct", 5.0),
        ("mem_busy_pct", 6.0),
        ("power_violation_pct", 3.0),
        ("thermal_violation_flag", 0.0),
        ("tx_pcie_bytes_per_s", 4e6),
        ("throttle_flag", 1.0),
    ]
    assert sink.settings() == {("", "device_clock"): "relative"}
    assert report.skipped_count == 0


def test_tables_without_times_need_a_stated_interval(tmp_path: Path) -> None:
    source = source_of(tmp_path, "dcgmi.txt", DCGMI)
    with pytest.raises(DataGapError, match="no time column") as problem:
        read(READER, source)
    assert "interval_ms" in str(problem.value.hint)
    sink, report = read(READER, source, ReadContext(options={"interval_ms": "500"}))
    assert samples(sink) == [
        (0, 0, "sm_active_pct", 50.0),
        (0, 0, "dram_active_pct", 25.0),
        (0, 0, "tx_pcie_bytes_per_s", 100.0),
        (0, 1, "dram_active_pct", 50.0),
        (0, 1, "tx_pcie_bytes_per_s", 200.0),
        (500_000_000, 0, "sm_active_pct", 75.0),
        (500_000_000, 0, "dram_active_pct", 25.0),
        (500_000_000, 0, "tx_pcie_bytes_per_s", 300.0),
    ]
    assert sink.settings() == {("", "device_clock"): "relative"}
    assert report.skipped_count == 0


def test_rows_of_one_second_are_not_doubled(tmp_path: Path) -> None:
    text = DMON.split("#Date")[1]
    text = "#Date" + text + " 20300201   00:00:00      0    999      -     60     40   2619  70000     27\n"
    sink, report = read(READER, source_of(tmp_path, "dmon.txt", text))
    assert len(samples(sink)) == 6
    assert "1 rows repeat the time of the row before and were dropped" in report.notes


def test_ragged_rows_and_bad_cells(tmp_path: Path) -> None:
    text = QUERY + "2030/02/01 00:00:01.613, 0, x\nlater, 0, x, 1 %, 2 MiB, 3 W, Active\n"
    text += "2030/02/01 00:00:02.613, 0, x, many, 2 MiB, 3 W, Active\n"
    _, report = read(READER, source_of(tmp_path, "smi.csv", text))
    assert report.skipped_count == 3
    assert report.first_skip_reason == "row has more or fewer cells than the header"


def test_cut_files(tmp_path: Path) -> None:
    sink, report = read(READER, source_of(tmp_path, "smi.csv", RELATIVE_QUERY[:-12]))
    assert report.damage == "the file ends inside a row"
    assert {row[0] for row in samples(sink)} == {500_000_000}
    rows = "".join(f"{step}.5,GPU-a, Not Active, 65247 MiB, {step % 99} %\n" for step in range(5000))
    text = RELATIVE_QUERY.splitlines(keepends=True)[0] + rows
    sink, report = read(READER, source_of(tmp_path, "smi.csv.gz", gzip_cut(text.encode(), 0.5)))
    assert report.damage is not None
    assert report.skipped_count == 0
    assert 1000 < len({row[0] for row in samples(sink)}) < 5000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        GARBAGE,
        "time [s],gpu_cache_usage_perc,num_requests_running\n0.1,0.5,3\n",
        "Endpoint,Type,Metric,Unit,avg\n",
        "INFO 01-01 00:00:00 gpu mem sm\n",
        "name,mem\nx,1\n",
    ],
)
def test_foreign_files_are_refused_and_do_no_harm(tmp_path: Path, content: bytes | str) -> None:
    source = source_of(tmp_path, "x.csv", content)
    assert READER.sniff(source).score == 0
    _, report = read(READER, source)
    assert report.row_count == 0


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "gpu_nvidia_smi_query.csv",
            {
                "util_pct": ("gpu_busy_pct", 1),
                "mem_used_mib": ("memory_used_bytes", MIB),
                "power_w": ("power_w", 1),
            },
        ),
        (
            "gpu_nvidia_smi_dmon.txt",
            {
                "sm_pct": ("gpu_busy_pct", 1),
                "mem_pct": ("mem_busy_pct", 1),
                "fb_mib": ("memory_used_bytes", MIB),
                "mem_temp_c": ("memory_temperature_c", 1),
                "sm_clock_mhz": ("sm_clock_mhz", 1),
            },
        ),
        (
            "gpu_dcgmi_dmon.txt",
            {
                "sm_active": ("sm_active_pct", 100),
                "dram_active": ("dram_active_pct", 100),
                "pcie_tx_bytes_s": ("tx_pcie_bytes_per_s", 1),
            },
        ),
    ],
)
def test_generated_tables_give_the_expected_values(name: str, fields: dict[str, tuple[str, float]]) -> None:
    path = CORPUS / "serving_lines" / name
    stem = name.rsplit(".", 1)[0]
    rows = [json.loads(line) for line in (path.parent / f"{stem}.expected.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row.get("kind") == "row"]
    sink, report = read(READER, Source(path, name), ReadContext(options={"interval_ms": "1000"}))
    assert report.skipped_count == 0
    frame = sink.frame("raw_device_samples")
    for field, (counter, factor) in fields.items():
        expected = [(row["gpu"], row[field] * factor) for row in rows if row[field] is not None]
        assert frame.filter(frame["counter"] == counter).select("device_id", "value").rows() == expected


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_only_gpu_tables_of_the_corpus_are_claimed() -> None:
    paths = [path for path in sorted(CORPUS.rglob("*")) if path.suffix in {".csv", ".txt", ".log", ".prom"}]
    claimed = {path.name for path in paths if READER.sniff(Source(path, path.name)).score}
    assert claimed == {
        "gpu_dcgmi_dmon.txt",
        "gpu_nvidia_smi_dmon.txt",
        "gpu_nvidia_smi_query.csv",
        "nvidia_smi_dmon.csv",
        "nvidia_smi_query.csv",
    }
