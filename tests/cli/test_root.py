import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from builders_cli import Invoke, command_line, process_environment, run_command
from kvcliff.cli.reference import walk_commands
from kvcliff.cli.root import EXIT_CODES, root
from kvcliff.errors import KvcliffError


def test_help_loads_no_engine(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from kvcliff.cli.root import root\n"
        "root.main(['--help'], standalone_mode=False)\n"
        "heavy = {'duckdb', 'polars', 'matplotlib', 'rich', 'nvtx', 'jinja2', 'pyarrow', 'numpy'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))\n"
    )
    line = command_line()
    done = subprocess.run(
        [line[0], "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=process_environment(),
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_help_answers_at_once(tmp_path: Path) -> None:
    best_s = 9.0
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_command("--help", cwd=tmp_path)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best_s = min(best_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # Near 0.1 s of processor time; with the engines loaded it is 0.5 s.
    assert best_s < 0.3


def test_commands_stand_in_the_order_of_a_day(invoke: Invoke) -> None:
    listed = [
        line.split()[0]
        for line in invoke("--help").stdout.split("Commands:")[1].split("\n\n")[0].split("\n  ")[1:]
    ]
    assert listed == [
        *("diagnose", "ingest", "report", "compare", "nightly", "ledger", "inspect", "export", "howto"),
        *("runs", "sql", "formats", "doctor"),
    ]


@pytest.mark.parametrize(
    ("name", "command"), list(walk_commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_help_ends_with_an_example(name: str, command: click.Command, invoke: Invoke) -> None:
    result = invoke(*name.split(), "--help")
    assert result.exit_code == 0
    example = result.stdout.split("Example:\n")[1]
    assert f"kvcliff {name}" in example or "kvcliff" in example
    assert example.rstrip().count("\n\n") == 0
    assert result.stderr == ""


def test_version(invoke: Invoke) -> None:
    assert invoke("--version").stdout == "kvcliff, version 0.1.0\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("diagnose",),
        ("diagnose", "--nonsense", "x"),
        ("diagnose", "x", "--format", "xml"),
        ("runs", "prune", "--newest", "0"),
        ("sql", "list", "surplus"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_2(arguments: tuple[str, ...], invoke: Invoke) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("  hint: see: kvcliff")
    assert len(lines) == 2


def test_wrong_usage_in_json(invoke: Invoke) -> None:
    result = invoke("sql", "run", "--format", "json")
    assert result.exit_code == 2
    assert result.stderr == ""
    envelope = json.loads(result.stdout)
    assert envelope["command"] == "sql run"
    assert envelope["status"] == "error"
    assert envelope["data"] is None
    assert envelope["errors"][0]["code"] == "usage"


def test_a_group_alone_shows_its_help(invoke: Invoke) -> None:
    result = invoke("runs")
    assert result.exit_code == 2
    assert "Usage: kvcliff runs" in result.stderr


def test_the_package_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kvcliff", "--version"],
        cwd=tmp_path,
        env=process_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, run_command("--version", cwd=tmp_path).stdout)


def test_a_bug_is_a_sentence_and_exit_70(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvcliff.readers.READERS", (None,))
    result = invoke("formats")
    assert result.exit_code == 70
    assert result.stdout == ""
    assert result.stderr.startswith(
        "error: kvcliff failed on something it did not expect (AttributeError in formats_cmd.py:"
    )
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("as_variable", [True, False])
def test_debug_prints_the_traceback(
    as_variable: bool, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvcliff.readers.READERS", (None,))
    flags = () if as_variable else ("--debug",)
    result = invoke(*flags, "formats", env={"KVCLIFF_DEBUG": "1"} if as_variable else {})
    assert result.exit_code == 70
    assert "Traceback (most recent call last)" in result.stderr


@pytest.mark.parametrize(
    ("error", "exit_code", "code"),
    [
        (MemoryError(), 1, "out_of_memory"),
        (OSError(28, "No space left on device", "runs.duckdb"), 1, "system_error"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("Query interrupted"), 130, "interrupted"),
        (RuntimeError("something else"), 70, "internal_error"),
        (click.FileError("runs.toml", "is odd"), 1, "tool_error"),
    ],
)
def test_other_errors(
    error: BaseException,
    exit_code: int,
    code: str,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("kvcliff.store.plan.plan_run", fail)
    result = invoke("inspect", tmp_path, "--format", "json")
    assert result.exit_code == exit_code
    assert json.loads(result.stdout)["errors"][0]["code"] == code


def test_every_error_class_has_a_documented_exit_code() -> None:
    def family(kind: type[KvcliffError]) -> list[type[KvcliffError]]:
        return [kind, *(item for sub in kind.__subclasses__() for item in family(sub))]

    documented = {code for code, _ in EXIT_CODES}
    assert {kind.exit_code for kind in family(KvcliffError)} <= documented


@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "0"}, False),
    ],
)
def test_colour(environment: dict[str, str], is_coloured: bool, invoke: Invoke) -> None:
    result = invoke("inspect", "absent", env=environment)
    assert ("\x1b[" in result.stderr) == is_coloured
    # The word is there with and without colour.
    assert "error:" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(shell: str, tmp_path: Path) -> None:
    script = run_command(cwd=tmp_path, environment={"_KVCLIFF_COMPLETE": f"{shell}_source"})
    assert "_KVCLIFF_COMPLETE" in script.stdout


def test_completion_offers_commands(tmp_path: Path) -> None:
    words = {"_KVCLIFF_COMPLETE": "bash_complete", "COMP_WORDS": "kvcliff d", "COMP_CWORD": "1"}
    assert run_command(cwd=tmp_path, environment=words).stdout.splitlines() == [
        "plain,diagnose",
        "plain,doctor",
    ]


def test_reader_of_the_output_goes_away(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command_line("diagnose", "--help"),
        cwd=tmp_path,
        env=process_environment({"PYTHONUNBUFFERED": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        process.stdout.close()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors == ""


def test_interrupt_ends_with_130(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command_line("--debug", "sql", "run", "-"),
        cwd=tmp_path,
        env=process_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert output == ""
    assert errors == "\nerror: interrupted; nothing of an unfinished run was stored\n"


def test_root_has_no_surprises() -> None:
    assert {parameter.name for parameter in root.params} == {"debug", "version"}
