"""The Nsight Systems reader: counts, times, privacy and damage."""

import csv
import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.builders_nsys import GEMM, UTC_NS, NsysFile, global_tid, raw_tables, read_export

from kvcliff.errors import DataGapError, InputError, UsageProblem
from kvcliff.readers import nsight_systems_export
from kvcliff.readers.base import Source
from kvcliff.readers.nsight_systems import READER

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nsight_systems"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of recordings is not there")
#: Files of the corpus with the folder of their expected answers.
EXPECTED = {
    "nsys-ai/h100_2gpu_1s.sqlite": "h100_2gpu_1s",
    "nsys-ai/mfu_2gpu_before.sqlite": "mfu_2gpu_before",
    "nsys-ai/mock.sqlite": "mock",
    "nsys-ai/healthy_1pct.sqlite": None,
    "flameox/nsight-2025.5.2.sqlite": "flameox",
    "lighttransport-gemm/profile.sqlite": "lighttransport",
}
_COPY_KIND_IDS = {1: "htod", 2: "dtoh", 8: "dtod"}


def load(path: Path, **options: str) -> duckdb.DuckDBPyConnection:
    con = raw_tables()
    read_export(con, path, options=options)
    return con


def facts(con: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], str]:
    return {
        (scope, name): value
        for scope, name, value in con.execute("select scope, name, value from raw_capture_facts").fetchall()
    }


def state(con: duckdb.DuckDBPyConnection, capability: str) -> tuple[str, str, int]:
    rows = con.execute(
        "select verdict, reason, event_count from raw_capture_diagnostics where capability = ?", [capability]
    ).fetchall()
    assert len(rows) == 1
    return rows[0]


def test_rows_do_not_depend_on_the_size_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = NsysFile()
    for number in range(7):
        trace.kernel(GEMM, 100 + 10 * number, 105 + 10 * number)
    path = trace.write(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path)) as db, db:
        # Row ids with holes and below zero, as in files that were cut out of others.
        db.execute("delete from CUPTI_ACTIVITY_KIND_KERNEL where rowid = 3")
        db.execute("update CUPTI_ACTIVITY_KIND_KERNEL set rowid = -5 where rowid = 1")
        db.execute("update CUPTI_ACTIVITY_KIND_KERNEL set rowid = 4000000000000 where rowid = 7")
    db.close()
    question = "select kernel_no, start_src_ns, correlation_id from raw_kernels order by kernel_no"
    whole = load(path).execute(question).fetchall()
    assert [row[:2] for row in whole] == [(0, 100), (1, 110), (2, 130), (3, 140), (4, 150), (5, 160)]
    for rows in (1, 2, 3, 6):
        monkeypatch.setattr(nsight_systems_export, "BATCH_ROWS", rows)
        con = load(path)
        assert con.execute(question).fetchall() == whole
        assert con.execute("select count(*) from raw_launches").fetchone() == (7,)


# ------------------------------------------------------------------------------------------- real files


@needs_corpus
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_counts_and_times_of_every_kernel_name_equal_the_official_report(name: str) -> None:
    con = load(CORPUS / name)
    ours = con.execute(
        """
        select names.name, count(*), sum(end_src_ns - start_src_ns)
        from raw_kernels as kernels
        inner join raw_kernel_names as names on kernels.kernel_id = names.kernel_id
        group by names.name
        """
    ).fetchall()
    truth: dict[str, Any] = json.loads((CORPUS / "expected" / "facts.json").read_text())[name]
    wanted = [
        (row["name"], row["count"], row["total_ns"]) for row in truth.get("kernels_by_demangled_name", [])
    ]
    assert sorted(ours) == sorted(wanted)
    folder = EXPECTED[name]
    report = CORPUS / "expected" / str(folder) / "cuda_gpu_kern_sum.csv"
    if folder is not None and report.stat().st_size:
        with report.open() as file:
            official = sorted(
                (row["Name"], int(row["Instances"]), int(row["Total Time (ns)"]))
                for row in csv.DictReader(file)
            )
        assert sorted(ours) == official


@needs_corpus
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_copied_bytes_equal_the_expected_ones(name: str) -> None:
    con = load(CORPUS / name)
    truth = json.loads((CORPUS / "expected" / "facts.json").read_text())[name]
    ours = {
        kind: (count, size)
        for kind, count, size in con.execute(
            "select kind, count(*), sum(bytes) from raw_copies where kind <> 'memset' group by kind"
        ).fetchall()
    }
    wanted: dict[str, tuple[int, int]] = {}
    for row in truth.get("memcpy", []):
        kind = _COPY_KIND_IDS[row["copyKind"]]
        count, size = wanted.get(kind, (0, 0))
        wanted[kind] = (count + row["count"], size + row["bytes"])
    assert ours == wanted


@needs_corpus
@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("nsys-ai/h100_2gpu_1s.sqlite", 1632),
        ("nsys-ai/mfu_2gpu_before.sqlite", 3986),
        ("nsys-ai/mock.sqlite", 2),
        ("flameox/nsight-2025.5.2.sqlite", 3),
        ("nsys-ai/healthy_1pct.sqlite", 0),
    ],
)
def test_kernels_pair_with_launches_of_their_own_process(name: str, pairs: int) -> None:
    con = load(CORPUS / name)
    sql = "select count(*) from raw_kernels join raw_launches using (process_id, correlation_id)"
    count = con.execute(sql).fetchone()
    assert count == (pairs,)


@needs_corpus
def test_graphs_traced_as_a_whole() -> None:
    con = load(CORPUS / "flameox" / "nsight-2025.5.2.sqlite")
    rows = con.execute(
        "select correlation_id, graph_id, graph_exec_id, end_src_ns - start_src_ns from raw_graph_launches "
        "order by 1"
    ).fetchall()
    assert rows == [(141, 1, 2, 1728), (142, 1, 2, 1376)]
    assert facts(con)["", "graph_mode"] == "graph"
    assert state(con, "graphs") == (
        "partial",
        "CUDA graphs were traced as a whole; their kernels are invisible",
        2,
    )
    assert state(con, "nvtx")[:2] == ("absent", "the process marked no NVTX ranges")


@needs_corpus
def test_a_failed_capture_says_so() -> None:
    con = load(CORPUS / "lighttransport-gemm" / "profile.sqlite")
    assert state(con, "kernels") == (
        "failed",
        "the profiler lost some CUDA events; the CUDA driver is newer than this nsys supports",
        0,
    )
    assert facts(con)["device:0", "hbm_bytes_per_s"] == "448032000000"
    assert con.execute("select value from raw_settings where name = 'hbm_bytes_per_s'").fetchall() == [
        ("448032000000",)
    ]


@needs_corpus
@pytest.mark.parametrize(
    ("version", "ranges", "marks", "open_names"),
    [
        ("2022.4.2", 225, 5, 2),
        ("2023.4.4", 224, 4, 3),
        ("2024.2.3", 224, 5, 3),
    ],
)
def test_nvtx_ranges_of_three_tool_versions(version: str, ranges: int, marks: int, open_names: int) -> None:
    con = load(CORPUS / "nvtx_samples" / version / "nvtx_demo.sqlite", nvtx_pattern=".*")
    known = facts(con)
    assert (int(known["", "nvtx_range_count"]), int(known["", "nvtx_mark_count"])) == (ranges, marks)
    assert int(known["", "nvtx_cross_thread_count"]) == 4
    assert con.execute("select count(*) from raw_nvtx_ranges where is_open").fetchone() == (open_names,)
    rows = con.execute(
        "select name, count(*) from raw_nvtx_ranges where name in ('prefill', 'decode', 'engine_step') "
        "group by 1 order by 1"
    ).fetchall()
    assert rows == [("decode", 27), ("engine_step", 36), ("prefill", 9)]


@needs_corpus
@pytest.mark.parametrize("version", ["2022.4.2", "2023.4.4", "2024.2.3"])
@pytest.mark.parametrize("name", ["utc.sqlite", "utc_normalized.sqlite"])
def test_utc_lies_between_the_stamps_taken_around_each_range(version: str, name: str) -> None:
    path = CORPUS / "nvtx_samples" / version / name
    if not path.is_file():
        pytest.skip("this version cannot normalise times")
    con = load(path, nvtx_pattern=r"utc_\d")
    epoch = int(facts(con)["", "utc_epoch_ns"])
    starts = dict(con.execute("select name, start_src_ns from raw_nvtx_ranges").fetchall())
    stamps = json.loads((path.parent / "utc_stamps.json").read_text())
    assert len(stamps) == 5
    for number, before, after, *_ in stamps:
        assert before <= epoch + starts[f"utc_{number}"] <= after


@needs_corpus
@pytest.mark.parametrize(
    "path",
    sorted(CORPUS.glob("*/*.sqlite")) + sorted(CORPUS.glob("*/*/*.sqlite")),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_no_secret_enters_a_raw_table(path: Path) -> None:
    con = load(path)
    for table in READER.tables:
        assert "SCRUBBED-CANARY" not in str(con.execute(f"select * from {table}").fetchall())


@needs_corpus
def test_a_pseudo_process_id_is_not_negative() -> None:
    con = load(CORPUS / "nvtx_samples" / "2024.2.3" / "nvtx_demo.sqlite")
    assert con.execute("select min(process_id) > 0 from raw_nvtx_ranges").fetchone() == (True,)


# ------------------------------------------------------------------------------------------- recognition


def test_sniff_knows_an_export_by_its_tables(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 100, 200)
    path = file.write(tmp_path / "anything.bin")
    sniff = READER.sniff(Source(path, path.name))
    assert sniff.score >= 90
    assert "CUPTI_ACTIVITY_KIND_KERNEL" in sniff.reason


def test_sniff_leaves_other_databases_and_texts_alone(tmp_path: Path) -> None:
    other = tmp_path / "app.sqlite"
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("create table StringIds (id integer, value text)")
    db.close()
    (tmp_path / "notes.txt").write_text("CUPTI_ACTIVITY_KIND_KERNEL NVTX_EVENTS")
    for name in ("app.sqlite", "notes.txt"):
        assert READER.sniff(Source(tmp_path / name, name)).score == 0
    assert READER.sniff(Source(tmp_path, "folder", is_dir=True)).score == 0


def test_a_compressed_export_is_read(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 100, 200)
    plain = file.write(tmp_path / "run.sqlite")
    packed = tmp_path / "run.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert READER.sniff(Source(packed, packed.name)).score >= 80
    assert load(packed).execute("select count(*) from raw_kernels").fetchone() == (1,)


def test_a_name_with_special_characters_is_read(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 100, 200)
    path = file.write(tmp_path / "run #1 50%?.sqlite")
    assert load(path).execute("select count(*) from raw_kernels").fetchone() == (1,)


def test_a_report_that_was_not_exported_is_refused_with_the_command(tmp_path: Path) -> None:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 2025@6@1@190-abc v0." + bytes(4000))
    assert READER.sniff(Source(path, path.name)).score > 0
    with pytest.raises(InputError) as error:
        load(path)
    assert "run.nsys-rep" in error.value.message
    assert "nsys export -t sqlite" in str(error.value.hint)


# ------------------------------------------------------------------------------------------- damage


def big_file(tmp_path: Path) -> Path:
    file = NsysFile()
    for number in range(2000):
        file.kernel(f"kernel_{number % 7}", 1000 * number, 1000 * number + 500)
    return file.write(tmp_path / "run.sqlite")


@pytest.mark.parametrize("keep", [50, 3000, 0.3, 0.99])
def test_a_cut_file_is_refused_by_name(tmp_path: Path, keep: float) -> None:
    path = big_file(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep if keep >= 1 else len(data) * keep)])
    with pytest.raises(InputError) as error:
        load(path)
    assert "run.sqlite" in error.value.message
    assert error.value.hint


def test_a_file_with_garbage_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = big_file(tmp_path)
    data = bytearray(path.read_bytes())
    for at in range(4096 * 2, len(data), 4096):
        data[at : at + 200] = bytes([0xA5]) * 200
    path.write_bytes(bytes(data))
    with pytest.raises(InputError) as error:
        load(path)
    assert "run.sqlite" in error.value.message


def test_garbage_after_the_magic_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"SQLite format 3\x00" + bytes(range(256)) * 100)
    with pytest.raises(InputError):
        load(path)


def test_a_cut_compressed_file_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / "run.sqlite.gz"
    data = gzip.compress(big_file(tmp_path).read_bytes())
    packed.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="cut"):
        load(packed)


def test_values_of_impossible_types_are_refused(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 100, 200)
    file.kernel(GEMM, 300, 400, gridX=1 << 40)
    with pytest.raises(InputError, match=r"run\.sqlite"):
        load(file.write(tmp_path / "run.sqlite"))


def test_an_unknown_schema_generation_is_refused(tmp_path: Path) -> None:
    file = NsysFile(schema="4.0.0")
    file.kernel(GEMM, 100, 200)
    with pytest.raises(DataGapError) as error:
        load(file.write(tmp_path / "run.sqlite"))
    assert "4.0.0" in error.value.message


# ------------------------------------------------------------------------------------------- meaning


def test_normalised_times_are_shifted_back_once(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, UTC_NS + 100, UTC_NS + 200)
    file.range("prefill", UTC_NS + 50, UTC_NS + 300)
    file.graph(0, 0, launched=UTC_NS + 60)
    file.meta("EXPORT_CONFIG_TIME_SHIFT", str(UTC_NS))
    con = load(file.write(tmp_path / "run.sqlite"))
    assert con.execute("select start_src_ns, end_src_ns from raw_kernels").fetchall() == [(100, 200)]
    assert con.execute("select start_src_ns from raw_nvtx_ranges").fetchall() == [(50,)]
    assert con.execute("select start_src_ns, end_src_ns from raw_graph_launches").fetchall() == [(0, 0)]
    assert facts(con)["", "utc_epoch_ns"] == str(UTC_NS)


def test_only_launching_calls_are_kept(tmp_path: Path) -> None:
    file = NsysFile()
    for name in (
        "cudaEventQuery_v3020",
        "cuLaunchKernelEx",
        "cudaLaunchKernelExC_v11060",
        "cudaLaunchHostFunc_v10000",
    ):
        file.launch(100, name=name)
    file.graph_launch(200)
    file.copy(300, 400, 64, 1)
    con = load(file.write(tmp_path / "run.sqlite"))
    rows = con.execute("select call, count(*) from raw_launches group by call order by call").fetchall()
    assert rows == [("copy", 1), ("graph", 1), ("kernel", 2)]


def test_a_call_that_two_apis_report_counts_once(tmp_path: Path) -> None:
    file = NsysFile()
    first = file.launch(100)
    file.launch(110, name="cuLaunchKernel")
    file.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][-1]["correlationId"] = first
    con = load(file.write(tmp_path / "run.sqlite"))
    assert con.execute("select correlation_id, start_src_ns from raw_launches").fetchall() == [(first, 100)]


def test_graph_node_kernels_keep_their_node(tmp_path: Path) -> None:
    file = NsysFile()
    launch = file.graph_launch(50)
    file.kernel(GEMM, 100, 200, correlationId=launch, graphNodeId=-5)
    file.kernel(GEMM, 300, 400, correlationId=launch, graphNodeId=8)
    file.meta("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node", "META_DATA_CAPTURE")
    con = load(file.write(tmp_path / "run.sqlite"))
    assert con.execute("select graph_node_id from raw_kernels order by kernel_no").fetchall() == [
        (2**64 - 5,),
        (8,),
    ]
    assert facts(con)["", "graph_mode"] == "node"
    assert state(con, "graphs")[0] == "present"


def test_graph_launches_without_visible_work_are_a_failed_capture(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 100, 200)
    file.graph_launch(300)
    con = load(file.write(tmp_path / "run.sqlite"))
    assert state(con, "graphs") == ("failed", "CUDA graphs were launched but their work is not visible", 1)


def test_devices_are_numbered_as_the_host_does(tmp_path: Path) -> None:
    file = NsysFile()
    for pid, gpu in ((500, 2), (501, 3)):
        file.kernel(GEMM, 100, 200, pid=pid)
        file.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=pid)
    con = load(file.write(tmp_path / "run.sqlite"))
    assert con.execute("select device_id from raw_kernels order by kernel_no").fetchall() == [(2,), (3,)]


def test_ranges_of_unknown_text_stay_in_the_file(tmp_path: Path) -> None:
    file = NsysFile()
    secret = "user said: my password is hunter2"
    file.range(secret, 0, 50)
    file.range(secret, 0, 50, inline=True)
    file.range("gpu_model_runner: " + secret, 0, 50, inline=True)
    file.range("execute_context_1(5)_generation_0(0)" + secret, 0, 50)
    file.range("execute_context_1(5)_generation_0(0)", 60, 90)
    file.range("gpu_model_runner: forward", 60, 80, inline=True)
    file.kernel(GEMM, 100, 200)
    con = load(file.write(tmp_path / "run.sqlite"))
    names = [name for (name,) in con.execute("select name from raw_nvtx_ranges order by name").fetchall()]
    assert names == ["execute_context_1(5)_generation_0(0)", "gpu_model_runner: forward"]
    assert facts(con)["", "nvtx_range_count"] == "6"
    for table in READER.tables:
        assert "hunter2" not in str(con.execute(f"select * from {table}").fetchall())


def test_a_pattern_of_the_run_file_keeps_further_texts(tmp_path: Path) -> None:
    file = NsysFile()
    file.range("my stage 7", 0, 50)
    file.range("my stage x", 0, 50)
    path = file.write(tmp_path / "run.sqlite")
    con = load(path, nvtx_pattern=r"my stage \d")
    assert con.execute("select name from raw_nvtx_ranges").fetchall() == [("my stage 7",)]
    with pytest.raises(UsageProblem):
        load(path, nvtx_pattern="(")


def test_domains_open_ranges_and_payloads(tmp_path: Path) -> None:
    file = NsysFile()
    create = {"start": -5, "end": None, "eventType": 75, "domainId": 3, "globalTid": global_tid(500, 1)}
    file.add("NVTX_EVENTS", text="kvcliff", **create)
    file.range("decode", 10, 20, domainId=3, int64Value=7)
    file.range("prefill", 30, None)
    file.range("mixed", 40, 45, pid=501, domainId=3)
    file.range("decode", 50, 90, domainId=9, endGlobalTid=global_tid(500, 2))
    file.kernel(GEMM, 100, 200)
    con = load(file.write(tmp_path / "run.sqlite"))
    rows = con.execute(
        "select name, domain, payload, is_open, end_thread_id, end_src_ns from raw_nvtx_ranges "
        "order by range_no"
    ).fetchall()
    assert rows == [
        ("decode", "kvcliff", 7, False, None, 20),
        ("prefill", "", None, True, None, 200),
        ("mixed", "kvcliff", None, False, None, 45),
        ("decode", "domain#9", None, False, 2, 90),
    ]


def test_metadata_of_other_keys_is_not_read(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 100, 200)
    file.meta("PROCESS_0:ENVIRONMENT_VARIABLE", "TOKEN=hunter2", "META_DATA_CAPTURE")
    file.meta("EXPORT_USER", "hunter2")
    file.meta("EXPORT_PRODUCT_VERSION", "2025.1 hunter2")
    file.gpu(name="hunter2'; drop table\n")
    con = load(file.write(tmp_path / "run.sqlite"))
    for table in READER.tables:
        assert "hunter2" not in str(con.execute(f"select * from {table}").fetchall())


def test_gpu_facts_are_also_settings(tmp_path: Path) -> None:
    file = NsysFile()
    file.gpu(1)
    file.gpu(0, name="NVIDIA RTX 3090", memoryBandwidth=936_096_000_000)
    con = load(file.write(tmp_path / "run.sqlite"))
    rows = con.execute(
        "select scope, value from raw_settings where name = 'gpu_name' order by scope"
    ).fetchall()
    assert rows == [("device:0", "NVIDIA RTX 3090"), ("device:1", "NVIDIA H100 80GB HBM3")]
    assert facts(con)["device:0", "hbm_bytes_per_s"] == "936096000000"


def test_gpu_metrics_get_known_names_and_devices(tmp_path: Path) -> None:
    file = NsysFile()
    names = {
        1: "DRAM Read Bandwidth [Throughput %]",
        2: "SMs Active [Throughput %]",
        3: "GPC Clock Frequency [MHz]",
        4: "Odd [x]",
    }
    for device in (0, 1):
        source = VM_SOURCE | device
        for metric, name in names.items():
            file.add("TARGET_INFO_GPU_METRICS", typeId=source, metricId=metric, metricName=name)
            file.add("GPU_METRICS", timestamp=100, typeId=source, metricId=metric, value=10 * metric + device)
    file.add("GPU_METRICS", timestamp=None, typeId=VM_SOURCE, metricId=1, value=99)
    con = load(file.write(tmp_path / "run.sqlite"))
    rows = con.execute("select device_id, counter, value from raw_gpu_metrics order by 1, 2").fetchall()
    assert rows == [
        (0, "dram_read_pct", 10.0),
        (0, "gpc_clock_hz", 30.0),
        (0, "sm_active_pct", 20.0),
        (1, "dram_read_pct", 11.0),
        (1, "gpc_clock_hz", 31.0),
        (1, "sm_active_pct", 21.0),
    ]


VM_SOURCE = (1 << 48) | (2 << 32) | (1 << 8)


@needs_corpus
def test_a_minimal_hand_made_file_loads_with_reduced_capability() -> None:
    con = load(CORPUS / "nsys-ai" / "healthy_1pct.sqlite")
    assert con.execute("select count(*), count(process_id) from raw_kernels").fetchone() == (400, 0)
    assert con.execute("select min(start_src_ns) from raw_launches").fetchone() == (-3000,)
    assert state(con, "kernels")[0] == "partial"
