import json
import zipfile
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from builders_cli import Invoke


def test_both_at_once(stored: Invoke) -> None:
    result = stored("export", "easy", "--bundle", "out/easy.zip", "--perfetto", "easy.pftrace")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0].startswith("easy.pftrace: ")
    assert "wrote out/easy.zip" in result.stderr.splitlines()
    assert {"report.md", "manifest.json", "marts/kv_occupancy.parquet"} <= set(
        zipfile.ZipFile("out/easy.zip").namelist()
    )
    trace = Trace.FromString(Path("easy.pftrace").read_bytes())
    names = {packet.track_descriptor.name for packet in trace.packet}
    assert {"kvcliff: easy", "KV occupancy (HBM)", "waiting"} <= names


def test_a_bundle_does_not_name_the_run(stored: Invoke) -> None:
    stored("export", "easy", "--bundle", "b.zip")
    with zipfile.ZipFile("b.zip") as archive:
        texts = {
            name: archive.read(name) for name in archive.namelist() if not name.endswith((".parquet", ".png"))
        }
    assert not [name for name, data in texts.items() if b"easy" in data or b"metrics.prom.xz" in data]


def test_json_envelope(stored: Invoke) -> None:
    result = stored("export", "easy", "--perfetto", "a.pftrace", "--format", "json")
    data = json.loads(result.stdout)["data"]
    assert data["run_id"].startswith("easy-")
    assert data["perfetto"]["clock"] == "run"
    assert data["perfetto"]["event_count"] > 100
    assert "bundle" not in data


@pytest.mark.parametrize("flag", ["--bundle", "--perfetto"])
def test_a_file_that_is_there_is_kept(stored: Invoke, flag: str) -> None:
    Path("x").write_text("mine")
    refused = stored("export", "easy", flag, "x")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: x is there already")
    assert Path("x").read_text() == "mine"
    assert stored("export", "easy", flag, "x", "--force").exit_code == 0


@pytest.mark.parametrize("flag", ["--bundle", "--perfetto"])
def test_dash_writes_the_bytes_to_standard_output(stored: Invoke, flag: str) -> None:
    stored("export", "easy", flag, "x")
    result = stored("export", "easy", flag, "-")
    assert result.stdout_bytes == Path("x").read_bytes()


def test_nothing_asked_for(stored: Invoke) -> None:
    result = stored("export", "easy")
    assert result.exit_code == 2
    assert "--bundle FILE.zip" in result.stderr


def test_two_things_in_one_place(stored: Invoke) -> None:
    assert stored("export", "easy", "--bundle", "-", "--perfetto", "-").exit_code == 2


def test_an_unknown_run(stored: Invoke) -> None:
    result = stored("export", "nobody", "--bundle", "x.zip")
    assert result.exit_code == 2
    assert not Path("x.zip").exists()


def test_a_clock_that_the_run_does_not_have(stored: Invoke) -> None:
    result = stored("export", "easy", "--perfetto", "x", "--clock", "trace")
    assert result.exit_code == 4
    assert "the run holds no GPU trace" in result.stderr
    assert not Path("x").exists()


def test_a_place_that_cannot_be_written(stored: Invoke) -> None:
    Path("file").write_text("x")
    result = stored("export", "easy", "--bundle", "file/below.zip")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-2].startswith("error: cannot write file/below.zip")
