"""The reader of PyTorch profiler traces: exact times, launches, copies, annotations, damage, privacy."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders_kineto import BASE_NS, H100, PID, KinetoFile, load_kineto

from kvcliff.errors import InputError, UsageProblem
from kvcliff.readers import pick_reader
from kvcliff.readers.base import Source

RUN = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "serving_runs" / "vllm_cpu" / "kineto"
needs_corpus = pytest.mark.skipif(not RUN.is_dir(), reason="the corpus of recordings is not there")
STATE = ("capability", "verdict", "event_count")


def gpu_trace() -> KinetoFile:
    file = KinetoFile()
    file.annotation("execute_context_0(0)_generation_8(8)", "5203721870638.740", "172237.364")
    file.annotation("my prompt is secret", "5203721870639.000", "1")
    file.event("cpu_op", "aten::mm", "5203721870640.000", "9", args={"Input Dims": [[1, 2], []]})
    first = file.launch("cudaLaunchKernel", "5203721870641.001")
    copy = file.launch("cudaMemcpyAsync", "5203721870650.5")
    fill = file.launch("cudaMemsetAsync", "5203721870655")
    file.launch("cudaStreamSynchronize", "5203721870660")
    graph = file.launch("cudaGraphLaunch", "5203721870670")
    file.gpu(
        "kernel", "void gemv<int>(float)", "5203721870700.123", "10.5", correlation=first, grid=[3, 1, 1]
    )
    file.gpu(
        "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "5203721870720", "2", correlation=copy, bytes=4096
    )
    file.gpu("gpu_memset", "Memset (Device)", "5203721870730", "1.25", correlation=fill, bytes=64)
    for node in (11, 12):
        file.gpu(
            "kernel",
            "nccl",
            f"52037218707{node + 40}",
            "1",
            correlation=graph,
            stream=9,
            **{"graph node id": node},
        )
    file.event(
        "gpu_user_annotation", "execute_context_0(0)_generation_8(8)", "5203721870700", "60", pid=0, tid=7
    )
    return file


def test_kernels_launches_and_copies_with_exact_times(tmp_path: Path) -> None:
    rows, report = load_kineto(gpu_trace().write(tmp_path / "rank0.pt.trace.json.gz"))
    start = 5_203_721_870_700_123
    columns = (
        "kernel_no",
        "device_id",
        "process_id",
        "stream_id",
        "correlation_id",
        "grid_x",
        "graph_node_id",
    )
    assert rows.rows("raw_kernels", *columns, "start_src_ns", "end_src_ns") == [
        (0, 0, PID, 7, 1, 3, None, start, start + 10_500),
        (1, 0, PID, 9, 5, None, 11, 5_203_721_870_751_000, 5_203_721_870_752_000),
        (2, 0, PID, 9, 5, None, 12, 5_203_721_870_752_000, 5_203_721_870_753_000),
    ]
    assert rows.rows("raw_kernel_names", "kernel_id", "name", "short_name") == [
        (0, "void gemv<int>(float)", "gemv"),
        (1, "nccl", "nccl"),
    ]
    assert rows.rows("raw_launches", "process_id", "thread_id", "correlation_id", "call", "start_src_ns") == [
        (PID, PID, 1, "kernel", 5_203_721_870_641_001),
        (PID, PID, 2, "copy", 5_203_721_870_650_500),
        (PID, PID, 3, "set", 5_203_721_870_655_000),
        (PID, PID, 4, "sync", 5_203_721_870_660_000),
        (PID, PID, 5, "graph", 5_203_721_870_670_000),
    ]
    assert rows.rows("raw_copies", "copy_no", "kind", "source_memory", "target_memory", "bytes") == [
        (0, "htod", "pinned", "device", 4096),
        (1, "memset", None, "device", 64),
    ]
    assert rows.rows("raw_capture_diagnostics", *STATE) == [
        ("kernels", "present", 3),
        ("graphs", "present", 2),
        ("nvtx", "present", 1),
    ]
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())


def test_annotations_of_the_allow_list_only(tmp_path: Path) -> None:
    rows, _ = load_kineto(gpu_trace().write(tmp_path / "t.json"))
    columns = ("process_id", "thread_id", "name", "start_src_ns", "end_src_ns")
    assert rows.rows("raw_nvtx_ranges", *columns) == [
        (
            PID,
            PID,
            "execute_context_0(0)_generation_8(8)",
            5_203_721_870_638_740,
            5_203_721_870_638_740 + 172_237_364,
        )
    ]
    stored = "".join(str(frame.rows()) for frames in rows.frames.values() for frame in frames)
    assert "secret" not in stored


def test_facts_of_the_capture_and_of_its_gpus(tmp_path: Path) -> None:
    rows, _ = load_kineto(gpu_trace().write(tmp_path / "t.json"))
    facts = {
        (scope, name): value
        for scope, name, value in rows.rows("raw_capture_facts", "scope", "name", "value")
    }
    assert facts["", "utc_epoch_ns"] == str(BASE_NS)
    assert (facts["", "rank"], facts["", "world_size"]) == ("0", "2")
    assert facts["device:0", "gpu_name"] == H100["name"]
    assert facts["device:0", "compute_capability"] == "9.0"
    assert ("device:0", "gpu_memory_bytes", "84929347584") in rows.rows(
        "raw_settings", "scope", "name", "value"
    )


def test_a_trace_without_base_time_counts_from_1970(tmp_path: Path) -> None:
    file = KinetoFile(base_ns=None)
    file.annotation("step[DECODE bs=8 toks=8]", "1700000000000000.25", "1000")
    rows, report = load_kineto(file.write(tmp_path / "t.json"))
    assert rows.rows("raw_nvtx_ranges", "name", "start_src_ns") == [
        ("step[DECODE bs=8 toks=8]", 1_700_000_000_000_000_250)
    ]
    assert ("", "utc_epoch_ns", "0") in rows.rows("raw_capture_facts", "scope", "name", "value")
    assert "the trace does not state its start in UTC" not in report.notes
    file = KinetoFile(base_ns=None)
    file.annotation("prefill", "12.5", "1000")
    _, report = load_kineto(file.write(tmp_path / "t.json"))
    assert "the trace does not state its start in UTC" in report.notes


@pytest.mark.parametrize(
    ("devices", "calls", "verdict"),
    [((), 0, "not_traced"), ((H100,), 0, "absent"), ((H100,), 1, "failed")],
)
def test_no_kernels_are_never_taken_for_an_idle_gpu(
    tmp_path: Path, devices: tuple[dict[str, object], ...], calls: int, verdict: str
) -> None:
    file = KinetoFile(devices=devices)
    file.annotation("execute_context_1(9)_generation_0(0)", "10", "5")
    for _ in range(calls):
        file.launch("cudaLaunchKernel", "11")
    rows, report = load_kineto(file.write(tmp_path / "t.json"))
    assert rows.rows("raw_capture_diagnostics", *STATE)[0] == ("kernels", verdict, 0)
    assert any(note.startswith("kernels: ") for note in report.notes)


@pytest.mark.parametrize(("late", "verdict", "until_ns"), [(1, "present", None), (9, "partial", 1_005_000)])
def test_gpu_work_that_stops_before_the_launches_do(
    tmp_path: Path, late: int, verdict: str, until_ns: int | None
) -> None:
    file = KinetoFile()
    for number in range(91):
        file.launch("cudaLaunchKernel", f"{number}")
        file.gpu("kernel", "k", "1000", "5", correlation=number + 1)
    for number in range(late):
        file.launch("cudaLaunchKernel", f"{2000 + number}")
    rows, report = load_kineto(file.write(tmp_path / "t.json"))
    states = rows.rows("raw_capture_diagnostics", "capability", "verdict", "data_until_src_ns")
    assert states[0] == ("kernels", verdict, until_ns)
    said = (
        "kernels: the profiler stopped recording the GPU; GPU work after 0.001 s of the capture is missing",
    )
    assert report.notes == (() if until_ns is None else said)


def test_a_merged_trace_keeps_its_ranks_apart(tmp_path: Path) -> None:
    file = KinetoFile()
    for rank in ("TP00", "TP01"):
        file.correlation = 0
        launch = file.launch("cudaLaunchKernel", "10", pid=f"[{rank}] 77")
        file.event(
            "kernel",
            "k",
            "20",
            "1",
            pid=f"[{rank}] 0",
            tid=7,
            args={"device": 0, "stream": 7, "correlation": launch},
        )
    rows, report = load_kineto(file.write(tmp_path / "t.json"))
    kernels = rows.rows("raw_kernels", "process_id", "correlation_id")
    assert kernels == rows.rows("raw_launches", "process_id", "correlation_id")
    assert len(set(kernels)) == 2
    assert "the trace is merged from 2 processes" in report.notes


@pytest.mark.parametrize("spaces", [None, 1])
def test_other_layouts_of_the_same_events(tmp_path: Path, spaces: int | None) -> None:
    file = gpu_trace()
    events = [{**event, "ts": float(event["ts"]), "dur": float(event["dur"])} for event in file.events]
    path = tmp_path / "t.json"
    # Keys in another order and the array first: what a tool that merged traces writes.
    whole = {
        "traceEvents": events,
        "schemaVersion": 1,
        "deviceProperties": [H100],
        "baseTimeNanoseconds": BASE_NS,
    }
    path.write_text(json.dumps(whole, indent=spaces))
    rows, report = load_kineto(path)
    assert len(rows.rows("raw_kernels", "kernel_no")) == 3
    assert ("", "utc_epoch_ns", str(BASE_NS)) in rows.rows("raw_capture_facts", "scope", "name", "value")
    assert (report.skipped_count, report.damage) == (0, None)
    path.write_text(json.dumps(events, indent=spaces))
    rows, report = load_kineto(path)
    assert len(rows.rows("raw_kernels", "kernel_no")) == 3
    assert (report.skipped_count, report.damage) == (0, None)


def test_many_blocks_lose_no_event(tmp_path: Path) -> None:
    file = KinetoFile()
    for number in range(40_000):
        file.gpu("kernel", f"k{number % 7}", f"{number}.5", "0.25", correlation=number, note="}, {" * 10)
    rows, report = load_kineto(file.write(tmp_path / "t.json"))
    assert rows.rows("raw_kernels", "start_src_ns") == [(number * 1000 + 500,) for number in range(40_000)]
    assert (report.skipped_count, report.damage) == (0, None)


def test_a_cut_trace_gives_the_events_before_the_cut(tmp_path: Path) -> None:
    whole = gpu_trace().text().encode()
    path = tmp_path / "t.json"
    path.write_bytes(whole[: whole.index(b"Memcpy HtoD")])
    rows, report = load_kineto(path)
    assert len(rows.rows("raw_kernels", "kernel_no")) == 1
    assert len(rows.rows("raw_launches", "call")) == 5
    assert report.damage == "the trace ends inside its events"
    assert rows.rows("raw_capture_diagnostics", *STATE)[0] == ("kernels", "partial", 1)
    cut = gpu_trace().write(tmp_path / "t.json.gz")
    cut.write_bytes(cut.read_bytes()[:-200])
    _, report = load_kineto(cut)
    assert report.damage is not None
    path.write_bytes(whole[: whole.index(b'"cat": "kernel"')])
    rows, _ = load_kineto(path)
    assert rows.rows("raw_capture_diagnostics", *STATE)[0] == ("kernels", "failed", 0)


def test_bad_events_cost_themselves_only(tmp_path: Path) -> None:
    text = gpu_trace().text()
    path = tmp_path / "t.json"
    path.write_text(text.replace('"dur": 10.5', '"dur": nan').replace('"ts": 5203721870720', '"ts": "soon"'))
    rows, report = load_kineto(path)
    assert len(rows.rows("raw_kernels", "kernel_no")) == 2
    assert len(rows.rows("raw_copies", "copy_no")) == 1
    assert report.skipped_count == 2
    path.write_bytes(text.replace("aten::mm", "aten::\xe9").encode("latin-1"))
    rows, report = load_kineto(path)
    assert len(rows.rows("raw_kernels", "kernel_no")) == 3


@pytest.mark.parametrize(
    "garbage", [b'{"traceEvents": [', b'{"traceEvents": []}', b'{"traceEvents": [{]}}', b"[", b"[]"]
)
def test_garbage_is_damage_or_nothing(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(garbage)
    try:
        rows, _ = load_kineto(path)
    except InputError:
        return
    assert rows.rows("raw_kernels", "kernel_no") == []


_PIECES = (
    '"',
    "{",
    "}",
    "[",
    "]",
    ",",
    "\n",
    "nan",
    "1e999",
    "-1",
    "\x00",
    "null",
    "9" * 30,
    "},\n  {",
    "\\",
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 60), st.sampled_from(_PIECES)), min_size=1, max_size=5)
)
def test_edited_traces_give_rows_or_an_input_error(
    tmp_path: Path, edits: list[tuple[float, int, str]]
) -> None:
    text = gpu_trace().text()
    for place, length, piece in edits:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + length :]
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    try:
        rows, report = load_kineto(path)
    except InputError:
        return
    assert len(rows.rows("raw_kernels", "kernel_no")) <= 3
    stored = "".join(str(frame.rows()) for frames in rows.frames.values() for frame in frames)
    assert "secret" not in stored + str(report)


def test_a_pattern_of_run_toml_adds_texts(tmp_path: Path) -> None:
    path = gpu_trace().write(tmp_path / "t.json")
    rows, _ = load_kineto(path, nvtx_pattern="my .*")
    assert len(rows.rows("raw_nvtx_ranges", "name")) == 2
    with pytest.raises(UsageProblem):
        load_kineto(path, nvtx_pattern="(")


def test_recognised_by_content(tmp_path: Path) -> None:
    path = gpu_trace().write(tmp_path / "anything.gz")
    reader, sniff = pick_reader(Source(path, path.name))
    assert reader is not None
    assert (reader.name, sniff.score) == ("kineto", 95)


@needs_corpus
def test_the_real_cpu_trace_of_vllm() -> None:
    (path,) = (RUN / "trace").glob("rank0.*.gz")
    rows, report = load_kineto(path)
    assert len(rows.rows("raw_nvtx_ranges", "name")) == 196
    steps = [name for (name,) in rows.rows("raw_nvtx_ranges", "name") if name.startswith("execute_context_")]
    assert len(steps) == 26
    assert rows.rows("raw_nvtx_ranges", "name", "start_src_ns", "end_src_ns")[0] == (
        "execute_context_1(256)_generation_0(0)",
        5_203_721_870_638_740,
        5_203_722_042_876_104,
    )
    assert rows.rows("raw_capture_diagnostics", *STATE)[0] == ("kernels", "not_traced", 0)
    assert (report.skipped_count, report.damage) == (0, None)
    assert report.notes == ("kernels: the profiler recorded CPU operators only; no GPU was there to trace",)
