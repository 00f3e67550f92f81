import json
import struct
from pathlib import Path

import pytest

from builders_ncu import CORPUS, NO_CORPUS, kernel, message, read, report
from kvcliff.errors import InputError
from kvcliff.readers import pick_reader
from kvcliff.readers.base import Source
from kvcliff.readers.nsight_compute_report import READER

RECORDED = ("a10g_basic_nan_c6", "a10g_roofline_c4", "rtx2080ti_basic_c2", "gtx1660ti_basic_c4")
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
DURATION = "gpu__time_duration.sum"


def write(folder: Path, data: bytes, name: str = "decode.ncu-rep") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_values_kernels_and_session(tmp_path: Path) -> None:
    first = kernel(
        {DURATION: 1500.0, "lts__t_sectors.sum": None, "launch__func_cache_config": "CachePreferNone"},
        ranges=("step", "My own prompt", "decode_batch"),
        is_locked=True,
    )
    second = kernel(
        {
            DURATION: float("nan"),
            "launch__device_id": 1.0,
            "device__attribute_l2_cache_size": 52428800.0,
            "device__attribute_display_name": "NVIDIA H100",
        },
        name="void ns::gemm<int, 4>(int)",
    )
    path = write(tmp_path, report([first, second]))
    assert pick_reader(Source(path, path.name))[0] is READER
    sink, loaded = read(READER, path)
    rows = sink.rows("raw_counter_kernels")
    assert [(row["short_name"], row["nvtx_path"], row["is_clock_locked"]) for row in rows] == [
        ("decode_kernel", "step/decode_batch", True),
        ("gemm", None, False),
    ]
    assert (rows[0]["grid_x"], rows[0]["block_x"], rows[0]["stream_id"]) == (256, 128, 7)
    assert rows[1]["device_id"] == 1
    found = {
        (row["kernel_no"], row["metric"]): (row["value"], row["unit"], row["quality"])
        for row in sink.rows("raw_counter_values")
    }
    assert found == {
        (0, DURATION): (1500.0, "ns", None),
        (0, "lts__t_sectors.sum"): (None, "sector", "no_data"),
        (0, "launch__func_cache_config"): (None, "", "text"),
        (1, DURATION): (None, "ns", "nan"),
        (1, "launch__device_id"): (1.0, "", None),
    }
    assert [(row["device_id"], row["attribute"], row["text"], row["value"]) for row in sink.devices()] == [
        (1, "l2_cache_size", None, 52428800.0),
        (1, "display_name", "NVIDIA H100", None),
    ]
    session = sink.session()
    assert (session["cache_control"], session["clock_control"], session["replay_mode"]) == (
        "all",
        "base",
        "kernel",
    )
    assert (session["metric_set"], session["tool_version"], session["has_options"]) == (
        "full",
        "2025.1.0.0",
        True,
    )
    assert (session["read_kernel_count"], session["stated_kernel_count"]) == (2, 2)
    assert (loaded.damage, loaded.notes) == (None, ())


def test_nothing_private_is_kept(tmp_path: Path) -> None:
    sink, _ = read(READER, write(tmp_path, report([kernel({DURATION: 1.0})])))
    text = str([frame.rows() for frames in sink.frames.values() for frame in frames])
    assert not any(word in text for word in ("secret", "10.1.2.3", "/opt", "./app", "home"))


def test_ranges_are_results_too(tmp_path: Path) -> None:
    step = kernel({DURATION: 5e6}, ranges=("decode_batch",), scope="range")
    sink, _ = read(READER, write(tmp_path, report([step])))
    (row,) = sink.rows("raw_counter_kernels")
    assert (row["scope"], row["name"], row["nvtx_path"], row["grid_x"]) == ("range", "", "decode_batch", None)
    assert sink.metrics() == {DURATION: 5e6}


def test_unknown_settings_are_said(tmp_path: Path) -> None:
    sink, loaded = read(READER, write(tmp_path, report([kernel({DURATION: 1.0})], command_line=None)))
    assert sink.session()["has_options"] is False
    assert sink.session()["cache_control"] is None
    assert "does not say how it was collected" in loaded.notes[0]


def test_every_cut_gives_the_results_before_it(tmp_path: Path) -> None:
    whole = report([kernel({DURATION: float(number)}) for number in range(4)])
    one = len(report([kernel({DURATION: 0.0})]))
    counts = []
    for end in range(20, len(whole) - 1, 17):
        path = write(tmp_path, whole[:end])
        try:
            sink, loaded = read(READER, path)
        except InputError:
            assert end < one
            continue
        count = len(sink.rows("raw_counter_kernels"))
        counts.append(count)
        assert loaded.damage is None or f"{count} of at least" in loaded.damage
        assert [sink.metrics(number)[DURATION] for number in range(count)] == [float(n) for n in range(count)]
    assert counts == sorted(counts)
    assert set(counts) == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "header"),
        (b"NVR\x00", "header"),
        (b'"ID","Process ID"\n', "begins with other bytes"),
        (report([kernel({DURATION: 1.0})], version=9), "version 9"),
        (report([kernel({DURATION: 1.0})], magic=b"NVX\x00"), "begins with other bytes"),
        (b"NVR\x00" + struct.pack("<I", 2) + message((1, 7)) + b"\xff" * 40, "before its first result"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        read(READER, write(tmp_path, data))
    assert error.value.hint


def test_flipped_bytes_are_no_crash(tmp_path: Path) -> None:
    whole = report([kernel({DURATION: 1.0, "dram__bytes.sum": 2.0}, ranges=("a",)) for _ in range(2)])
    for place in range(0, len(whole), 3):
        data = bytearray(whole)
        data[place] ^= 0xFF
        try:
            read(READER, write(tmp_path, bytes(data)))
        except InputError:
            continue


@needs_corpus
@pytest.mark.parametrize("name", RECORDED)
def test_all_values_of_recorded_reports(name: str) -> None:
    (path,) = CORPUS.glob(f"*/{name}.ncu-rep")
    sink, loaded = read(READER, path)
    kernels = json.loads((CORPUS / "expected" / f"{name}.metrics.json").read_text())
    assert loaded.damage is None
    assert [row["name"] for row in sink.rows("raw_counter_kernels")] == [item["name"] for item in kernels]
    units = {row["metric"]: row["unit"] for row in sink.rows("raw_counter_values")}
    for number, item in enumerate(kernels):
        metrics = sink.metrics(number)
        for metric, expected in item["metrics"].items():
            if metric.startswith("breakdown:"):
                continue
            stated = expected["value"]
            assert metrics.get(metric) == (stated if isinstance(stated, int | float) else None), metric
            assert metric.startswith("device__") or units[metric] == expected["unit"], metric


@needs_corpus
def test_recorded_cut_report() -> None:
    sink, loaded = read(READER, CORPUS / "cuda_learning_mojo/gtx1660ti_truncated_70000.ncu-rep")
    assert len(sink.rows("raw_counter_kernels")) == 2
    assert loaded.damage == "the file is cut: 2 of at least 3 profiled kernels can be read"
    assert [sink.metrics(number)[DURATION] for number in range(2)] == [1600, 1472]
