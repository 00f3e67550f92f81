"""Imports stand at the top and go one way; Click lives in the command line only."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from kvcliff.findings import FINDINGS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "pipeline" / "kvcliff"
MODULES = sorted(PACKAGE.rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _imports(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def _imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in _imports(tree):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        else:
            names.update(alias.name for alias in node.names)
    return names


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_stand_at_the_top(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = [
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in _imports(function)
    ]
    if path.parent.name == "cli" and path.name.endswith("_cmd.py"):
        return
    assert [ast.unparse(node) for node in inside] == []


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_click_lives_in_the_command_line(path: Path) -> None:
    if path.parent.name == "cli":
        return
    names = _imported(ast.parse(path.read_text(encoding="utf-8")))
    assert not {name for name in names if name.split(".")[0] == "click"}


@pytest.mark.parametrize("path", sorted((PACKAGE / "cli").glob("*_cmd.py")), ids=_name)
def test_commands_import_no_engine_at_the_top(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = {
        name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        )
    }
    working = {
        "kvcliff.store",
        "kvcliff.readers",
        "kvcliff.findings",
        "kvcliff.report",
        "kvcliff.clocks.align",
        "kvcliff.timing",
    }
    assert not {name for name in top if ".".join(name.split(".")[:2]) in working}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_modules_begin_with_one_sentence(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text, f"{_name(path)} does not say what is in it"


def test_findings_do_not_import_each_other() -> None:
    modules = {finding.name for finding in FINDINGS}
    for name in sorted(modules):
        names = _imported(ast.parse((PACKAGE / "findings" / f"{name}.py").read_text(encoding="utf-8")))
        others = {name.split(".")[2] for name in names if name.startswith("kvcliff.findings.")}
        assert not others & modules, name


def test_every_finding_stands_in_the_contract() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = configuration["tool"]["importlinter"]["contracts"]
    listed = {name for item in contracts if item["type"] == "independence" for name in item["modules"]}
    assert listed == {f"kvcliff.findings.{finding.name}" for finding in FINDINGS}


def test_layers() -> None:
    tool = shutil.which("lint-imports", path=str(Path(ROOT / ".venv" / "bin"))) or shutil.which(
        "lint-imports"
    )
    if tool is None:
        pytest.skip("import-linter is not installed")
    done = subprocess.run(
        [tool],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "pipeline"), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stdout


def test_every_foreign_import_is_a_declared_dependency() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = {
        re.split(r"[<>=\[ ]", line)[0].replace("-", "_") for line in document["project"]["dependencies"]
    }
    packages = metadata.packages_distributions()
    for path in MODULES:
        roots = {name.split(".")[0] for name in _imported(ast.parse(path.read_text(encoding="utf-8")))}
        # _typeshed exists for type checkers only.
        foreign = roots - set(sys.stdlib_module_names) - {"kvcliff", "_typeshed"}
        owners = {
            name: {owner.replace("-", "_").lower() for owner in packages.get(name, [])} for name in foreign
        }
        assert not {name for name, names in owners.items() if not names & declared}, path.name
