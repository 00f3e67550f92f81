"""Every form of an Nsight Systems export gives the rows of its SQLite form; others are refused in words."""

import gzip
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.builders_kineto import KeptRows
from tests.builders_nsys import GEMM, NsysFile, global_pid
from tests.builders_nsys_forms import to_arrowdir, to_arrows, to_parquetdir

from kvcliff.errors import InputError
from kvcliff.readers import (
    nsight_systems_activity,
    nsight_systems_metrics,
    nsight_systems_nvtx,
    nsight_systems_tables,
    pick_reader,
)
from kvcliff.readers.base import LoadReport, ReadContext, Source
from kvcliff.readers.nsight_systems import READER
from kvcliff.readers.nsight_systems_export import Column
from kvcliff.readers.nsight_systems_tables import TABLES

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nsight_systems"
SAMPLES = CORPUS / "nvtx_samples"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of recordings is not there")
CONVERT: dict[str, Callable[[Path, Path], Path]] = {
    "run_pqtdir": to_parquetdir,
    "run_arwdir": to_arrowdir,
    "run.arrows": to_arrows,
}


def load(path: Path) -> tuple[dict[str, pl.DataFrame], LoadReport]:
    source = Source(path, path.name, is_dir=path.is_dir())
    reader, sniff = pick_reader(source)
    assert reader is READER
    assert sniff.score >= 60
    kept = KeptRows()
    report = READER.load(source, kept, ReadContext())
    return {table: pl.concat(frames) for table, frames in kept.frames.items()}, report


def assert_same(path: Path, other: Path) -> None:
    ours, report = load(path)
    theirs, other_report = load(other)
    assert theirs.keys() == ours.keys()
    for table, frame in ours.items():
        assert_frame_equal(theirs[table], frame)
    assert other_report == report


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as error:
        load(path)
    return error.value


def full_export() -> NsysFile:
    file = NsysFile()
    file.gpu()
    file.meta("CAPTURE_EVENT_TYPE", "Cuda", "META_DATA_CAPTURE")
    file.meta("ENVIRONMENT", "SCRUBBED-CANARY", "META_DATA_CAPTURE")
    file.add("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=0, pid=500)
    file.range("execute_context_0(0)_generation_8(8)", 1000, 9000, int64Value=-5)
    file.kernel(GEMM, 2000, 2500, graphNodeId=-7, gridX=4)
    file.kernel("other<1>", 2600, 2700, globalPid=global_pid(501) | (0xFE << 56) - (1 << 64))
    file.copy(3000, 3100, 4096, 1)
    file.graph(4000, 5000)
    file.add(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        start=5100,
        end=5200,
        deviceId=0,
        streamId=7,
        correlationId=None,
        globalPid=global_pid(500),
        memKind=2,
        bytes=10,
    )
    file.add("TARGET_INFO_GPU_METRICS", typeId=256, metricId=3, metricName="SMs Active [Throughput %]")
    file.add("GPU_METRICS", timestamp=2000, typeId=256, metricId=3, value=55)
    file.add("DIAGNOSTIC_EVENT", timestamp=1, text="Reached the size limit on recording trace events")
    file.add("ANALYSIS_DETAILS", duration=10_000)
    return file


@needs_corpus
@pytest.mark.parametrize(
    ("version", "form"),
    [
        ("2022.4.2", "nvtx_demo.arrows"),
        ("2024.2.3", "nvtx_demo.arrows"),
        ("2024.2.3", "nvtx_demo_arwdir"),
        ("2024.2.3", "nvtx_demo_pqtdir"),
    ],
)
def test_real_exports_of_every_form_give_identical_rows(version: str, form: str) -> None:
    assert_same(SAMPLES / version / "nvtx_demo.sqlite", SAMPLES / version / form)


@needs_corpus
def test_the_folder_of_2023_lacks_only_what_the_capture_was_asked_for() -> None:
    ours, _ = load(SAMPLES / "2023.4.4" / "nvtx_demo.sqlite")
    theirs, _ = load(SAMPLES / "2023.4.4" / "nvtx_demo_pqtdir")
    assert_frame_equal(theirs["raw_nvtx_ranges"], ours["raw_nvtx_ranges"])
    missing = set(ours["raw_capture_facts"].rows()) - set(theirs["raw_capture_facts"].rows())
    assert missing == {("", "requested_duration_ms", "322")}
    kernels = theirs["raw_capture_diagnostics"].row(by_predicate=pl.col("capability") == "kernels")
    assert kernels[1] == "absent"


@needs_corpus
@pytest.mark.parametrize("form", sorted(CONVERT))
@pytest.mark.parametrize(
    "name",
    [
        "nsys-ai/h100_2gpu_1s.sqlite",
        "nsys-ai/mfu_2gpu_before.sqlite",
        "nsys-ai/healthy_1pct.sqlite",
        "flameox/nsight-2025.5.2.sqlite",
        "lighttransport-gemm/profile.sqlite",
    ],
)
def test_real_gpu_captures_give_the_same_rows_in_every_form(tmp_path: Path, name: str, form: str) -> None:
    assert_same(CORPUS / name, CONVERT[form](CORPUS / name, tmp_path / form))


@pytest.mark.parametrize("form", sorted(CONVERT))
def test_every_table_that_is_read_comes_over(tmp_path: Path, form: str) -> None:
    path = full_export().write(tmp_path / "run.sqlite")
    assert_same(path, CONVERT[form](path, tmp_path / form))
    frames, _ = load(path)
    assert {"raw_kernels", "raw_copies", "raw_gpu_metrics", "raw_graph_launches"} <= frames.keys()


def test_texts_as_bytes_and_compressed_files(tmp_path: Path) -> None:
    path = full_export().write(tmp_path / "run.sqlite")
    arrows = to_arrows(path, tmp_path / "run.arrows", as_bytes=True)
    assert_same(path, arrows)
    packed = tmp_path / "packed.arrows.gz"
    packed.write_bytes(gzip.compress(arrows.read_bytes()))
    assert_same(path, packed)


def test_the_list_of_columns_knows_all_that_is_read() -> None:
    """A column that only the SQLite form offered would be missing silently in the others."""
    activity, known = nsight_systems_activity, TABLES
    for table, columns in (
        (activity.KERNELS, activity._KERNEL_COLUMNS),
        (activity.GRAPHS, activity._GRAPH_COLUMNS),
        (activity.COPIES, activity._COPY_COLUMNS),
        (activity.SETS, activity._SET_COLUMNS),
        (activity.CALLS, activity._CALL_COLUMNS),
        (nsight_systems_metrics.TABLE, nsight_systems_metrics._COLUMNS),
    ):
        wanted = {column.export for column in columns if isinstance(column, Column)}
        assert wanted <= set(known[table]), table
    assert set(nsight_systems_nvtx._FIXED_COLUMNS) | {"text", "textId"} <= set(known["NVTX_EVENTS"])


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
def test_a_cut_arrow_file_is_refused_by_name(tmp_path: Path, cut: float) -> None:
    data = to_arrows(full_export().write(tmp_path / "run.sqlite"), tmp_path / "run.arrows").read_bytes()
    path = tmp_path / "cut.arrows"
    path.write_bytes(data[: int(len(data) * cut)])
    error = refusal(path)
    assert "cut.arrows is damaged" in error.message
    assert "nsys export" in (error.hint or "")


@pytest.mark.parametrize("form", ["run_pqtdir", "run_arwdir"])
@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"PAR1" + b"\x00" * 60 + b"PAR1", b"\xff\xff\xff\xff\x08\0\0\0"]
)
def test_a_damaged_file_of_a_folder_is_named(tmp_path: Path, form: str, content: bytes) -> None:
    folder = CONVERT[form](full_export().write(tmp_path / "run.sqlite"), tmp_path / form)
    (victim,) = folder.glob("CUPTI_ACTIVITY_KIND_KERNEL.*")
    victim.write_bytes(content)
    assert f"{form}/{victim.name} is damaged" in refusal(folder).message


# ------------------------------------------------------------------------------------------- reports


def test_a_text_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = full_export().write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update StringIds set value = zeroblob(70000000) where id = 1")
    assert refusal(path).message == (
        "run.sqlite is a damaged SQLite export: it holds a text of more than 64 MiB"
    )


def test_texts_that_would_fill_the_disk_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = to_parquetdir(full_export().write(tmp_path / "run.sqlite"), tmp_path / "run_pqtdir")
    texts = pl.DataFrame({"id": range(1, 1001), "value": "x" * 10_000})
    texts.write_parquet(folder / "StringIds.parquet")
    assert (folder / "StringIds.parquet").stat().st_size < 50_000
    assert load(folder)[1].row_count > 0
    monkeypatch.setattr(nsight_systems_tables, "_MOST_TEXT_BYTES", 9 << 20)
    assert refusal(folder).message == (
        "run_pqtdir/StringIds.parquet is damaged: its texts take more than 9 MiB"
    )


def report_file(folder: Path, version: str = "2025@6@1@190-256v0") -> Path:
    path = folder / "run.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report " + version.encode() + b".\n\x00\x01")
    return path


def fake_nsys(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an ``nsys`` on PATH that runs a shell script; ``$7`` is the file to write, ``$8`` the report."""
    tool = folder / "bin" / "nsys"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")


VERSION_2026 = (
    'if [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version 2026.1.1.63-x"; exit 0; fi\n'
)
COMMAND = "nsys export -t sqlite -f true -o run.sqlite run.nsys-rep"


def test_a_report_without_nsys_names_version_and_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refusal(report_file(tmp_path))
    assert "it needs nsys 2025.6.1 or newer, which is not on PATH" in error.message
    assert COMMAND in error.message
    assert error.hint == COMMAND
    old = refusal(report_file(tmp_path, "1"))
    assert "it needs nsys 2022.4 or newer" in old.message


def test_a_report_is_exported_when_nsys_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = full_export().write(tmp_path / "made.sqlite")
    fake_nsys(tmp_path, f'{VERSION_2026}test -f "$8" && cp "{path}" "$7"', monkeypatch)
    assert_same(path, report_file(tmp_path))


def test_an_older_nsys_is_not_asked_to_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nsys(tmp_path, VERSION_2026.replace("2026.1.1", "2024.2.3") + "exit 9", monkeypatch)
    assert refusal(report_file(tmp_path)).message == (
        f"run.nsys-rep needs nsys 2025.6.1 or newer to be exported; nsys 2024.2.3 is on PATH ({COMMAND})"
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "Exportation error: Report was created in version (X), newer than your current version (Y)",
            "it needs",
        ),
        ("Section Table Reference magic number mismatch. /home/secret", "it is damaged"),
    ],
)
def test_what_nsys_says_is_told_by_its_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, why: str
) -> None:
    fake_nsys(tmp_path, f"{VERSION_2026}echo '{said}' >&2; exit 1", monkeypatch)
    error = refusal(report_file(tmp_path))
    assert f"nsys could not export run.nsys-rep: {why}" in error.message
    assert "secret" not in error.message


@needs_corpus
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("2024.2.3/nvtx_demo.head.nsys-rep", "it needs nsys 2024.2.3 or newer"),
        ("2023.4.4/nvtx_demo.head.nsys-rep", "it needs nsys 2023.4.4 or newer"),
        ("2022.4.2/nvtx_demo.head.nsys-rep", "it needs nsys 2022.4 or newer"),
        ("2023.4.4/nvtx_demo.h5", "writes missing values as 0"),
        ("2024.2.3/nvtx_demo.h5", "writes missing values as 0"),
        ("2024.2.3/nvtx_demo.json", "an Nsight Systems JSON export that holds the profiler's own events"),
        ("2024.2.3/nvtx_demo.txt", "an Nsight Systems text export that holds the profiler's own events"),
        ("2024.2.3/nvtx_demo.info.json", "the header of an Nsight Systems report without any event"),
    ],
)
def test_other_forms_are_refused_in_words(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refusal(SAMPLES / name)
    assert words in error.message
    assert "nsys export -t sqlite" in (error.hint or "")


def test_an_unfinished_capture_says_how_it_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "run.qdstrm"
    path.write_bytes(b"\x01\x00\x02" * 50)
    error = refusal(path)
    assert "killed before nsys was done" in error.message
    assert "QdstrmImporter" in (error.hint or "")


def test_foreign_folders_and_files_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "other_pqtdir"
    folder.mkdir()
    (folder / "users.parquet").write_bytes(b"PAR1")
    assert pick_reader(Source(folder, folder.name, is_dir=True))[0] is None
    path = tmp_path / "x.arrow"
    path.write_bytes(b"\xff\xff\xff\xff" + b"\x00" * 100)
    assert pick_reader(Source(path, path.name))[0] is None


def test_a_capped_capture_says_from_when_on_data_are_missing(tmp_path: Path) -> None:
    frames, report = load(full_export().write(tmp_path / "run.sqlite"))
    row = frames["raw_capture_diagnostics"].row(by_predicate=pl.col("capability") == "kernels", named=True)
    assert (row["verdict"], row["data_until_src_ns"]) == ("partial", 5000)
    said = "kernels: the trace reached its size limit; GPU work after 0.000 s of the capture is missing"
    assert said in report.notes


def test_an_export_that_does_not_say_what_was_traced_is_no_failed_capture(tmp_path: Path) -> None:
    file = NsysFile()
    file.range("prefill", 10, 20)
    frames, _ = load(file.write(tmp_path / "run.sqlite"))
    states = frames["raw_capture_diagnostics"]
    assert states.row(by_predicate=pl.col("capability") == "kernels")[1] == "absent"
    file.launch(15)
    frames, _ = load(file.write(tmp_path / "run.sqlite"))
    states = frames["raw_capture_diagnostics"]
    assert states.row(by_predicate=pl.col("capability") == "kernels")[1] == "failed"


def test_processes_without_kernels_beside_those_with_are_counted(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel(GEMM, 100, 200, pid=500)
    for pid in (501, 502):
        file.launch(150, pid=pid)
    file.launch(150, pid=503, name="cudaMemcpyAsync_v3020")
    frames, report = load(file.write(tmp_path / "run.sqlite"))
    state = frames["raw_capture_diagnostics"].row(by_predicate=pl.col("capability") == "processes")
    assert state[1:4] == ("partial", "2 of 3 processes launched kernels of which the trace shows none", 2)
    assert any(note.startswith("processes: 2 of 3") for note in report.notes)
