"""The tutorial of the readers' README holds: its grammar, put into the registry, passes its own test."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "pipeline" / "kvcliff" / "readers" / "README.md").read_text(encoding="utf-8")
CHAPTER = TEXT.split("\n## Add a log producer\n")[1].split("\n## ")[0]


def test_the_example_works_as_it_stands(tmp_path: Path) -> None:
    grammar, test = re.findall(r"```python\n(.*?)```", CHAPTER, re.DOTALL)
    source = tmp_path / "pipeline"
    shutil.copytree(ROOT / "pipeline", source, ignore=shutil.ignore_patterns("__pycache__"))
    lines = source / "kvcliff" / "readers" / "lines"
    (lines / "ember.py").write_text(grammar, encoding="utf-8")
    with (lines / "__init__.py").open("a", encoding="utf-8") as registry:
        registry.write("from kvcliff.readers.lines.ember import EMBER\nGRAMMARS = (*GRAMMARS, EMBER)\n")
    (tmp_path / "test_lines_ember.py").write_text(test, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-W",
            "error",
            "--rootdir",
            ".",
            ".",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{source}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
