"""The READMEs say what there is: commands, options, variables, exit codes, tables, findings, formats."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvcliff import __version__
from kvcliff.cli.capture_advice import CAPTURES
from kvcliff.cli.options import environment_name
from kvcliff.cli.reference import documented_options, walk_commands
from kvcliff.cli.root import EXIT_CODES, root
from kvcliff.findings import FINDINGS
from kvcliff.readers import READERS
from kvcliff.store.dictionary import stored_tables
from kvcliff.store.models import load_models

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SQL_README = (ROOT / "sql" / "README.md").read_text(encoding="utf-8")
_SHELL_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
ALL_TEXTS = (
    sorted(path for path in ROOT.glob("*.md"))
    + sorted((ROOT / "pipeline").rglob("*.md"))
    + [ROOT / "sql" / "README.md"]
)


@pytest.mark.parametrize("name", [name for name, _ in walk_commands()])
def test_command(name: str) -> None:
    assert f"| `kvcliff {name}" in README


def test_options_and_variables() -> None:
    for entry in documented_options():
        assert f"| {entry.flags} | `{entry.environment}` |" in README
    named = set(re.findall(r"KVCLIFF_[A-Z_]+", README)) - {"KVCLIFF_COMPLETE"}
    assert named == {entry.environment for entry in documented_options()}
    assert environment_name("--db") in named


@pytest.mark.parametrize(("code", "meaning"), EXIT_CODES)
def test_exit_code(code: int, meaning: str) -> None:
    assert f"| {code} | {meaning} |" in README


def test_formats_findings_and_captures() -> None:
    for reader in READERS:
        assert f"| `{reader.name}` |" in README
    for finding in FINDINGS:
        assert f"| `{finding.name}` | {finding.question} |" in README
    for capture in CAPTURES:
        assert f"\n{capture.command}\n" in README


def test_tables_and_models() -> None:
    for table in stored_tables():
        assert f"| {table.name} |" in SQL_README or f"| [{table.name}](#{table.name}) |" in SQL_README
        if table.layer in ("store", "marts"):
            section = SQL_README.split(f"\n### {table.name}\n")[1].split("\n### ")[0]
            for column in table.columns:
                assert f"| {column.name} | {column.type} |" in section, (table.name, column.name)
    for model in load_models():
        assert model.name in SQL_README


def test_the_ledger_example_is_its_output() -> None:
    chapter = README.split("\n## Without a trace: the ledger\n")[1].split("\n## ")[0]
    command, shown = re.findall(r"```\w+\n(.*?)```", chapter, re.DOTALL)
    done = CliRunner().invoke(root, shlex.split(command)[1:])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.rstrip() == shown.rstrip()


def test_commands_of_examples_exist() -> None:
    """Every command line of a chapter names a command, and options that it has."""
    commands = dict(walk_commands())
    lines = re.findall(
        r"^(?:\.venv/bin/)?(kvcliff .*)$", "\n".join(re.findall(_SHELL_BLOCK, README)), re.MULTILINE
    )
    assert len(lines) >= 6
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        name = next(name for name in (" ".join(words[:2]), words[0]) if name in commands)
        known = {flag for item in commands[name].params for flag in item.opts}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= known, line


@pytest.mark.parametrize("name", ["README.md", "sql/README.md"])
def test_generated_parts_are_up_to_date(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cogapp", "--check", "-U", name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "pipeline"), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, f"{name} is out of date: run make docs\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("path", ALL_TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        where = path.parent / file if file else path
        assert where.exists(), target
        if anchor:
            assert re.search(rf"^#+ {re.escape(anchor)}$", where.read_text(encoding="utf-8"), re.MULTILINE), (
                target
            )


def test_changelog_knows_this_version() -> None:
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_architecture_has_dated_decisions() -> None:
    text = (ROOT / "pipeline" / "kvcliff" / "README.md").read_text(encoding="utf-8")
    decisions = text.split("## Decisions")[1]
    assert len(re.findall(r"^\*\*\d{4}-\d\d-\d\d\. ", decisions, re.MULTILINE)) >= 5
