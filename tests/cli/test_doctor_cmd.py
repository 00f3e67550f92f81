import json
from pathlib import Path

import pytest

from builders_cli import Invoke


def test_a_healthy_installation(invoke: Invoke) -> None:
    result = invoke("doctor", "--format", "json")
    envelope = json.loads(result.stdout)
    states = {check["name"]: check["state"] for check in envelope["data"]["checks"]}
    assert result.exit_code == 0, envelope
    assert states["sql models"] == states["nvtx"] == states["temporary folder"] == "ok"
    assert states["database"] == "absent"
    assert envelope["status"] == "ok"


def test_text_is_one_line_a_check(invoke: Invoke) -> None:
    lines = invoke("doctor").stdout.splitlines()
    assert lines[0].split() == ["check", "state", "detail"]
    assert [line.split()[0] for line in lines[2:5]] == ["kvcliff", "python", "duckdb"]


@pytest.mark.parametrize("content", [b"not a database at all", b"\x00" * 5000])
def test_a_broken_database_is_exit_1(content: bytes, invoke: Invoke) -> None:
    Path("kvcliff.duckdb").write_bytes(content)
    result = invoke("doctor", "--format", "json")
    assert result.exit_code == 1
    envelope = json.loads(result.stdout)
    assert envelope["status"] == "error"
    assert envelope["errors"][0]["message"].startswith("database: ")


def test_missing_sql_is_exit_1(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise FileNotFoundError("no sql folder")

    monkeypatch.setattr("kvcliff.store.checks.create_raw_tables", fail)
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "FileNotFoundError: no sql folder" in result.stdout


def test_optional_tools_may_be_absent(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    result = invoke("doctor", "--format", "json")
    states = {check["name"]: check["state"] for check in json.loads(result.stdout)["data"]["checks"]}
    assert (states["nsys"], states["ncu"]) == ("absent", "absent")
    assert result.exit_code == 0
