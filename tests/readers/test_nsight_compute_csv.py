import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders_ncu import (
    CORPUS,
    DETAILS,
    NO_CORPUS,
    RAW,
    TableSink,
    details_page,
    identity,
    page,
    raw_page,
    read,
)
from kvcliff.readers import pick_reader
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.nsight_compute_csv import READER
from kvcliff.readers.nsight_compute_labels import metric_name

SPEED = "GPU Speed Of Light Throughput"
MEMORY = "Memory Workload Analysis"
EXPORTS = (
    sorted(path.name for path in (CORPUS / "expected").glob("*.csv") if "session" not in path.name)
    if CORPUS.is_dir()
    else []
)
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)


def write(folder: Path, text: str | bytes, name: str = "decode.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def values_of(folder: Path, text: str) -> dict[str, float | None]:
    return read(READER, write(folder, text))[0].metrics()


def test_details_page_in_base_units(tmp_path: Path) -> None:
    text = details_page(
        [
            (0, SPEED, "Memory Throughput", "%", "64.83"),
            (0, MEMORY, "Memory Throughput", "Gbyte/second", "47.91"),
            (0, SPEED, "Duration", "usecond", "431.65"),
            (0, SPEED, "DRAM Frequency", "cycle/nsecond", "6.23"),
            (0, "Launch Statistics", "Driver Shared Memory Per Block", "Kbyte/block", "1.02"),
            (0, "New Section", "New Label", "Mfoo", "3.50"),
        ]
    )
    sink, report = read(READER, write(tmp_path, text))
    assert sink.metrics() == {
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 64.83,
        "dram__bytes.sum.per_second": pytest.approx(47.91e9),
        "gpu__time_duration.sum": pytest.approx(431_650),
        "dram__cycles_elapsed.avg.per_second": pytest.approx(6.23e9),
        "launch__shared_mem_per_block_driver": pytest.approx(1020),
        "New Section/New Label": 3.5,
    }
    units = {row["metric"]: row["unit"] for row in sink.rows("raw_counter_values")}
    assert units["dram__cycles_elapsed.avg.per_second"] == "hz"
    assert units["New Section/New Label"] == "Mfoo"
    (kernel,) = sink.rows("raw_counter_kernels")
    assert (kernel["short_name"], kernel["device_id"], kernel["compute_capability"]) == (
        "decode_kernel",
        0,
        "9.0",
    )
    assert (kernel["grid_x"], kernel["block_x"], kernel["launch_count"]) == (256, 128, 1)
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())
    assert sink.session()["page"] == "details"
    assert sink.session()["has_options"] is False


@pytest.mark.parametrize(
    ("duration", "unit"), [("1.50", "us"), ("1.50", "usecond"), ("1500", "ns"), ("0.0015", "ms")]
)
def test_both_generations_of_units(tmp_path: Path, duration: str, unit: str) -> None:
    metrics = values_of(tmp_path, details_page([(0, SPEED, "Duration", unit, duration)]))
    assert metrics == {"gpu__time_duration.sum": pytest.approx(1500)}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("431.65", "477523.09", "567961"), (431.65, 477523.09, 567961)),
        (("431.65", "477,523.09", "567,961"), (431.65, 477523.09, 567961)),
        (("431,65", "477.523,09", "567.961"), (431.65, 477523.09, 567961)),
        (("431,65", "477 523,09", "567 961"), (431.65, 477523.09, 567961)),
        (("431,65", "477\u00a0523,09", "567\u202f961"), (431.65, 477523.09, 567961)),
        (("431.65", "477\u2019523.09", "567\u2019961"), (431.65, 477523.09, 567961)),
        (("431,65", "477'523,09", "567'961"), (431.65, 477523.09, 567961)),
        (("431.65", "4,77,523.09", "5,67,961"), (431.65, 477523.09, 567961)),
    ],
)
def test_locales_of_details_pages(
    tmp_path: Path, cells: tuple[str, ...], expected: tuple[float, ...]
) -> None:
    labels = ("Duration", "SM Active Cycles", "Elapsed Cycles")
    text = details_page([(0, SPEED, label, "", cell) for label, cell in zip(labels, cells, strict=True)])
    assert list(values_of(tmp_path, text).values()) == list(expected)


def test_raw_page_mixes_two_number_formats(tmp_path: Path) -> None:
    text = raw_page(
        ["gpu__time_duration.sum", "launch__thread_count", "launch__waves_per_multiprocessor"],
        ["usecond", "thread", ""],
        [("52.576000", "4.194.304", "1,60"), ("1152.576000", "4.096", "12,80")],
    )
    sink, _ = read(READER, write(tmp_path, text))
    assert sink.metrics(0) == {
        "gpu__time_duration.sum": 52_576,
        "launch__thread_count": 4_194_304,
        "launch__waves_per_multiprocessor": 1.6,
    }
    assert sink.metrics(1)["launch__thread_count"] == 4096
    assert sink.metrics(1)["gpu__time_duration.sum"] == pytest.approx(1_152_576)


def test_raw_page_without_units_is_read_in_base_units_and_said(tmp_path: Path) -> None:
    text = raw_page(["gpu__time_duration.sum", "lts__t_sector_hit_rate.pct"], ["", ""], [("1500.0", "5.3")])
    lines = text.splitlines(keepends=True)
    sink, report = read(READER, write(tmp_path, "".join((lines[0], *lines[2:]))))
    assert sink.metrics() == {"gpu__time_duration.sum": 1500, "lts__t_sector_hit_rate.pct": 5.3}
    assert {row["unit"] for row in sink.rows("raw_counter_values")} == {"ns", "%"}
    assert "no row of units" in report.notes[0]


def test_lone_comma_is_said(tmp_path: Path) -> None:
    text = details_page([(0, SPEED, "Elapsed Cycles", "cycle", "1,234")])
    sink, report = read(READER, write(tmp_path, text))
    assert sink.metrics() == {"gpc__cycles_elapsed.max": 1234}
    assert "LC_ALL=C" in report.notes[0]


def test_why_there_is_no_value(tmp_path: Path) -> None:
    names = ["dram__bytes.sum", "lts__t_sectors.sum", "launch__func_cache_config", "sm__cycles_active.avg"]
    rows = [("nan", "no data", "CachePreferNone", ""), ("-nan", "12.000000", "CachePreferL1", "1,2,3")]
    sink, report = read(READER, write(tmp_path, raw_page(names, ["byte", "sector", "", "cycle"], rows)))
    found = {(row["kernel_no"], row["metric"]): row["quality"] for row in sink.rows("raw_counter_values")}
    assert found == {
        (0, "dram__bytes.sum"): "nan",
        (1, "dram__bytes.sum"): "nan",
        (0, "lts__t_sectors.sum"): "no_data",
        (1, "lts__t_sectors.sum"): None,
        (0, "launch__func_cache_config"): "text",
        (1, "launch__func_cache_config"): "text",
        (1, "sm__cycles_active.avg"): None,
    }
    assert report.skipped_count == 0
    text = details_page([(0, SPEED, "Duration", "us", "n/a"), (0, SPEED, "L2 Hit Rate", "%", "1.2.3")])
    sink, report = read(READER, write(tmp_path, text))
    assert {row["quality"] for row in sink.rows("raw_counter_values")} == {"not_available", "unreadable"}
    assert report.skipped_count == 1
    assert report.first_skip_reason is not None


def test_noise_and_appended_runs(tmp_path: Path) -> None:
    rows = [(0, SPEED, "Duration", "us", "1.00"), (1, SPEED, "Duration", "us", "2.00")]
    noise = '==PROF== Connected to process 7 (/home/someone/app)\n2208,"a, b",5608\nloss: 3.1, "x"\n'
    text = noise + details_page(rows) + '==PROF== Disconnected\n"done", 3\n' + noise + details_page(rows)
    sink, report = read(READER, write(tmp_path, text, "bench.log"))
    kernels = sink.rows("raw_counter_kernels")
    assert [(row["kernel_no"], row["profile_id"]) for row in kernels] == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert [sink.metrics(number)["gpu__time_duration.sum"] for number in range(4)] == [1000, 2000, 1000, 2000]
    assert report.notes == ("2 runs of the profiler are appended to each other",)


def test_rules_are_no_metrics_but_tell_waves(tmp_path: Path) -> None:
    rule = "This kernel grid is too small, resulting in only 0.5 full waves across all SMs.\nLook elsewhere"
    one_line = rule.replace("\n", " ")
    body = [
        (*identity(0), SPEED, "Duration", "us", "3.00", "", "", "", "", ""),
        (*identity(0), "SpeedOfLight", "", "", "", "SOLBottleneck", "OPT", one_line, "", ""),
        (*identity(1), SPEED, "Duration", "us", "3.00", "", "", "", "", ""),
        (*identity(1), "Occupancy", "", "", "", "Occupancy", "ERR", "bad\nthing", "", ""),
        (*identity(1), "Launch", "Waves Per SM", "", "1.60", "", "", "", "", ""),
        (*identity(1), "SpeedOfLight", "", "", "", "SOLBottleneck", "OPT", one_line, "", ""),
    ]
    sink, report = read(READER, write(tmp_path, page(DETAILS, body)))
    waves = [
        (row["kernel_no"], row["value"], row["quality"])
        for row in sink.rows("raw_counter_values")
        if row["metric"] == "launch__waves_per_multiprocessor"
    ]
    assert sorted(waves) == [(0, 0.5, "rule"), (1, 1.6, None)]
    assert len(sink.rows("raw_counter_values")) == 4
    assert report.skipped_count == 0


def test_old_details_without_sizes(tmp_path: Path) -> None:
    header = (*DETAILS[:5], "Kernel Time", "Context", "Stream", *DETAILS[11:18])
    row = (*identity(0)[:5], "2022-May-10 20:02:12", "1", "7", SPEED, "Memory [%]", "%", "97.49")
    sink, _ = read(READER, write(tmp_path, page(header, [row], is_short=True)))
    assert sink.metrics() == {"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 97.49}
    (kernel,) = sink.rows("raw_counter_kernels")
    assert (kernel["device_id"], kernel["grid_x"], kernel["compute_capability"]) == (None, None, None)


def test_body_items_and_names(tmp_path: Path) -> None:
    header = (*DETAILS[:12], "Body Item Label", *DETAILS[12:])
    rows = [
        (*identity(0), SPEED, "", "DRAM Frequency", "cycle/nsecond", "6.23"),
        (*identity(0), SPEED, "Roofline", "DRAM Frequency", "cycle/nsecond", "6.23"),
        (*identity(0), SPEED, "Roofline", "Peak Work", "inst", "20480"),
        (*identity(0), SPEED, "", "L2 Hit (lts__t_sector_hit_rate.pct)", "%", "62.10"),
    ]
    assert values_of(tmp_path, page(header, rows, is_short=True)) == {
        "dram__cycles_elapsed.avg.per_second": 6.23e9,
        f"{SPEED}/Roofline/Peak Work": 20480,
        "lts__t_sector_hit_rate.pct": 62.1,
    }


def test_nvtx_columns(tmp_path: Path) -> None:
    header = (
        *RAW[:4],
        "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
        "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
        *RAW[4:],
        "gpu__time_duration.sum",
    )
    stack = (
        '129325  "<default domain>:step:none:none:RGB:0xff:ASCII:step"  "vllm:decode_batch:none:none:x:y:z:w"'
    )
    kernel = identity(0)
    row = (
        *kernel[:4],
        stack,
        '"1:<default domain>:warmup:none" "2:<default domain>:Tell me a secret:none"',
        *kernel[4:],
        "3.000000",
    )
    sink, _ = read(READER, write(tmp_path, page(header, [("",) * len(header), row])))
    assert [item["nvtx_path"] for item in sink.rows("raw_counter_kernels")] == ["step/decode_batch/warmup"]


def test_summary_page_is_a_mean(tmp_path: Path) -> None:
    header = (
        *("Process ID", "Process Name", "Host Name", "Device Id", "Kernel Name", "Block Size", "Grid Size"),
        *("Invocations", "Section Name", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"),
    )
    start = ("7", "python", "127.0.0.1", "1", "k(int)", "256", "80")
    rows = [
        (*start, "12", SPEED, "gpu__time_duration.sum", "usecond", "1.0", "3.0", "2.000000"),
        (*start, "12", SPEED, "lts__t_sector_hit_rate.pct", "%", "1.0", "3.0", "2.000000"),
    ]
    sink, _ = read(READER, write(tmp_path, page(header, rows)))
    (kernel,) = sink.rows("raw_counter_kernels")
    assert (kernel["launch_count"], kernel["device_id"], kernel["grid_x"], kernel["grid_y"]) == (12, 1, 80, 1)
    assert sink.metrics() == {"gpu__time_duration.sum": 2000, "lts__t_sector_hit_rate.pct": 2}
    assert {row["quality"] for row in sink.rows("raw_counter_values")} == {"mean"}


def test_copy_out_of_the_gui_has_units_in_its_header(tmp_path: Path) -> None:
    text = (
        '\ufeff"ID","Function Name","Device Name","Block Size [block]","gpu__time_duration.sum [ms]"\n'
        '"0","decode","NVIDIA H100","128, 1, 1","1.5"\n'
    )
    sink, _ = read(READER, write(tmp_path, text))
    assert sink.metrics() == {"gpu__time_duration.sum": 1_500_000}
    assert sink.rows("raw_counter_kernels")[0]["name"] == "decode"


def test_session_page_keeps_options_and_versions_only(tmp_path: Path) -> None:
    text = (
        'Launch Settings\n"Launch Attribute","Value"\n"Profiler Command Line",'
        '"/opt/ncu --cache-control none --clock-control=none --replay-mode app-range -c 60 --set full -o s '
        '/home/me/app --cache-control all --api-key=XYZ"\n\nSession Info\n"Session Attribute","Value"\n'
        '"Host Name","secret-host"\n"Nsight Compute Target","2025.1.0.0 (build 1)"\n"CUDA Version","12.8"\n'
    )
    path = write(tmp_path, text, "decode.session.csv")
    assert READER.sniff(Source(path, path.name)).score == 95
    sink, report = read(READER, path)
    row = sink.session()
    assert (row["cache_control"], row["clock_control"], row["replay_mode"]) == ("none", "none", "app-range")
    assert (row["metric_set"], row["launch_count"], row["tool_version"]) == ("full", 60, "2025.1.0.0")
    assert report.row_count == 1
    assert not any(word in str(sink.frames) for word in ("secret", "home", "XYZ", "ncu "))


@pytest.mark.parametrize(
    "error",
    [
        "ERR_NVGPUCTRPERM - The user has no permission",
        "Profiling failed because a driver resource was unavailable. Ensure that no other tool is active",
    ],
)
def test_refused_counters(tmp_path: Path, error: str) -> None:
    text = f"==PROF== Connected to process 1 (/x)\n==ERROR== {error}\n"
    path = write(tmp_path, text, "ncu.log")
    assert READER.sniff(Source(path, path.name)).score == 90
    sink, report = read(READER, path)
    assert sink.session()["is_refused"] is True
    assert "ERR_NVGPUCTRPERM" in report.notes[0]


def test_no_path_host_or_process_is_kept(tmp_path: Path) -> None:
    text = "==PROF== Connected to process 7 (/home/secret/app)\n" + details_page(
        [(0, SPEED, "Duration", "us", "1.00")]
    )
    text = text.replace("127.0.0.1", "secret-host").replace("python", "secret-app")
    sink, _ = read(READER, write(tmp_path, text))
    assert "secret" not in str([frame.rows() for frames in sink.frames.values() for frame in frames])


def test_cut_file_gives_the_rows_before_the_cut(tmp_path: Path) -> None:
    rows = [(0, SPEED, "Duration", "us", "1.00"), (0, SPEED, "DRAM Throughput", "%", "50.00")]
    text = details_page(rows)
    sink, report = read(READER, write(tmp_path, text[: text.index("DRAM Thr") + 5]))
    assert sink.metrics() == {"gpu__time_duration.sum": 1000}
    assert report.damage == "the file ends inside a row"
    assert sink.session()["is_cut"] is True
    raw = raw_page(["gpu__time_duration.sum", "dram__bytes.sum"], ["us", "byte"], [("1.0", "2.0")] * 2)
    sink, report = read(READER, write(tmp_path, raw.rstrip()[:-6]))
    assert len(sink.rows("raw_counter_kernels")) == 1
    assert report.damage == "the file ends inside a row"


def test_a_broken_line_costs_no_other(tmp_path: Path) -> None:
    rows = [(number, SPEED, "Duration", "us", f"{number}.00") for number in range(4)]
    text = details_page(rows).replace('"python"', '"pyt"hon" ', 1)
    sink, report = read(READER, write(tmp_path, text))
    assert [row["profile_id"] for row in sink.rows("raw_counter_kernels")] == [1, 2, 3]
    assert [sink.metrics(number)["gpu__time_duration.sum"] for number in range(3)] == [1000, 2000, 3000]
    assert report.skipped_count == 1
    text = details_page(rows).replace('"python"', '"python"x', 1)
    sink, report = read(READER, write(tmp_path, text))
    assert len(sink.rows("raw_counter_kernels")) == 3
    assert report.skipped_count == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff\x00",
        b'"ID","Kernel Name"\n',
        b"\xff\xfe" * 50,
        b'"ID","Kernel Name","a__b"\n"0"\n"x\n',
    ],
)
def test_garbage_is_no_crash(tmp_path: Path, data: bytes) -> None:
    sink, report = read(READER, write(tmp_path, data))
    assert sink.rows("raw_counter_kernels") == []
    assert report.row_count == 0


_WHOLE = (
    details_page([(number, SPEED, "Duration", "us", f"{number}.00") for number in range(3)])
    + raw_page(["gpu__time_duration.sum", "dram__bytes.sum"], ["us", "Mbyte"], [("1.000000", "2.000000")] * 2)
).encode()
_EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 60),
        st.sampled_from((b'"', b"\n", b",", b"\r", b"\x00", b"\xff", b"==", b'"ID",', b'"9","', b"1,234")),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(edits=_EDITS)
def test_broken_bytes_are_no_crash(tmp_path: Path, edits: list[tuple[float, int, bytes]]) -> None:
    data = _WHOLE
    for share, cut, piece in edits:
        place = int(share * len(data))
        data = data[:place] + piece + data[place + cut :]
    sink, report = read(READER, write(tmp_path, data))
    assert report.row_count == sum(frame.height for frames in sink.frames.values() for frame in frames)


@pytest.mark.parametrize(
    "text",
    [
        "time [s],vllm:num_requests_running\n0.5,3\n",
        "timestamp, index, utilization.gpu [%]\n2030/01/01 00:00:00.000, 0, 5 %\n",
        '"Time (%)","Total Time (ns)","Instances","Name"\n"50.0","100","2","k"\n',
        "ID,request_latency,output_tokens\n1,2,3\n",
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,Kernel Name\n1,2,3,4,5,6,k\n",
        '"Kernel Name","k"\n"Address","Source","Live Registers"\n"0x1","MOV","2"\n',
    ],
)
def test_other_csvs_are_not_claimed(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    assert READER.sniff(Source(path, path.name)).score == 0


def test_other_readers_leave_it_alone(tmp_path: Path) -> None:
    for text in (
        details_page([(0, SPEED, "Duration", "us", "1.00")]),
        raw_page(["gpu__time_duration.sum"], ["us"], [("1.0",)]),
    ):
        path = write(tmp_path, text, "metrics.csv")
        assert pick_reader(Source(path, path.name))[0] is READER


def _tolerance(name: str) -> tuple[float, float]:
    """Return relative and absolute tolerance of the digits that a page prints."""
    two_digits = name.partition(".")[2].startswith(("details", "raw_base")) or (
        "summary" in name and "2024" in name
    )
    # A raw page has six decimals of the column's unit: of seconds, when the longest kernel took one.
    return (6e-3, 5.1e-3) if two_digits else (3e-5, 6e-7)


@needs_corpus
@pytest.mark.parametrize("name", EXPORTS)
def test_every_dialect_gives_the_values_of_the_report(name: str) -> None:
    sink, report = read(READER, CORPUS / "expected" / name)
    kernels = json.loads((CORPUS / "expected" / f"{name.split('.')[0]}.metrics.json").read_text())
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())
    assert len(sink.rows("raw_counter_kernels")) == len(kernels)
    names = [kernel["name"] for kernel in kernels]
    checked = 0
    for row in sink.rows("raw_counter_kernels"):
        expected = kernels[names.index(row["name"]) if "summary" in name else row["kernel_no"]]
        assert row["name"] == expected["name"]
        for metric, value in sink.metrics(row["kernel_no"]).items():  # type: ignore[arg-type]
            checked += _check(name, metric, value, expected["metrics"].get(metric))
    assert checked >= len(kernels) * 9


def _check(name: str, metric: str, value: float | None, expected: dict[str, object] | None) -> int:
    """Compare one value; return how many were compared."""
    if expected is None:
        # Labels without a known name, and what is printed as 0 for a failed kernel.
        assert "/" in metric or not value, metric
        return 0
    stated = expected["value"]
    if stated is None or isinstance(stated, str):
        # The exporting tool prints nan of a failed kernel as 0 for some metrics.
        assert value is None or (stated == "nan" and value == 0), metric
        return 0
    assert value is not None, metric
    relative, absolute = _tolerance(name)
    if metric == "launch__waves_per_multiprocessor":
        absolute = 5.1e-3
    assert math.isclose(value, float(str(stated)), rel_tol=relative, abs_tol=absolute), metric
    return 1


@needs_corpus
def test_recorded_csvs() -> None:
    files = json.loads((CORPUS / "expected/csv_values.json").read_text())
    for name, expected in files.items():
        sink, report = read(READER, CORPUS / name)
        assert (report.skipped_count, report.damage) == (0, None), name
        kernels = {str(row["profile_id"]): row["kernel_no"] for row in sink.rows("raw_counter_kernels")}
        assert len(kernels) == expected["kernels"]
        for row in expected["rows"]:
            value = _value_of(sink, kernels[row["id"]], row)  # type: ignore[arg-type]
            if row["value"] is None:
                assert value is None
            else:
                scale = 1e9 if row["unit"] == "s" else 1
                assert value == pytest.approx(row["value"] * scale, rel=1e-9), (name, row)


def _value_of(sink: TableSink, kernel_no: int, row: dict[str, str]) -> float | None:
    metrics = sink.metrics(kernel_no)
    name = metric_name(row["section"], row["metric"])
    if name in metrics:
        return metrics[name]
    (found,) = {value for metric, value in metrics.items() if metric.endswith("/" + row["metric"])}
    return found


@pytest.mark.benchmark
def test_speed_of_a_large_raw_page(tmp_path: Path) -> None:
    names = [f"lts__t_sectors_part{number}.sum" for number in range(300)]
    cells = tuple(f"{number * 1.5:.6f}" for number in range(300))
    row = raw_page(names, ["sector"] * 300, [cells])
    lines = row.splitlines(keepends=True)
    path = tmp_path / "big.csv"
    with path.open("w") as file:
        file.writelines(lines[:2])
        for number in range(100_000_000 // len(lines[2])):
            file.write(f'"{number}"' + lines[2][3:])

    class Counter:
        def append(self, table: str, frame: object) -> int:
            return frame.height  # type: ignore[attr-defined, no-any-return]

    start = time.process_time()
    READER.load(Source(path, path.name), Counter(), ReadContext())
    assert time.process_time() - start < 2.5
