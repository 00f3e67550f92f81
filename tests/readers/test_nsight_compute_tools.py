"""The reader of reports against the vendor's own tools; stand-ins of both show that the comparison compares.

The stand-ins answer with exports and values that were made with the vendor's tools beforehand. The tools
themselves were never installed where these tests were written: with them the marked tests run.
"""

import importlib
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from builders_ncu import CORPUS, NO_CORPUS, TableSink, read
from kvcliff.readers.nsight_compute_csv import READER as CSV_READER
from kvcliff.readers.nsight_compute_report import READER as REPORT_READER

REPORTS = (
    "ESMM-Research/a10g_basic_nan_c6.ncu-rep",
    "ESMM-Research/a10g_roofline_c4.ncu-rep",
    "cudaCode/rtx2080ti_basic_c2.ncu-rep",
    "cuda_learning_mojo/gtx1660ti_basic_c4.ncu-rep",
)
_WAVES = "launch__waves_per_multiprocessor"
NCU = shutil.which("ncu")
pytestmark = [
    pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS),
    pytest.mark.parametrize("name", REPORTS),
]
#: Prints the export of the imported report, as the tool does, with its notes on another stream.
_STAND_IN = """#!{python}
import sys
from pathlib import Path

options = sys.argv[1:]
assert options[2:] == ["--csv", "--page", "raw"] and options[0] == "--import", options
print("==PROF== imported", file=sys.stderr)
sys.stdout.write((Path({expected!r}) / (Path(options[1]).stem + ".raw.ncu2024.1.csv")).read_text())
"""


def _values(sink: TableSink) -> dict[tuple[object, object], float | None]:
    return {(row["kernel_no"], row["metric"]): row["value"] for row in sink.rows("raw_counter_values")}  # type: ignore[misc]


def compare_with_tool(tool: Path, name: str, folder: Path) -> tuple[int, list[object]]:
    """Return how many values the tool's raw page has in common with our reader, and which differ."""
    ours, _ = read(REPORT_READER, CORPUS / name)
    command = [str(tool), "--import", str(CORPUS / name), "--csv", "--page", "raw"]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "LC_ALL": "C"})
    page = folder / "raw.csv"
    page.write_bytes(done.stdout)
    theirs, _ = read(CSV_READER, page)
    found = _values(ours)
    stated = {key: value for key, value in _values(theirs).items() if value is not None}
    # The page prints six decimals of a number in a scaled unit, of waves two; and 0 for some counters of a
    # failed kernel.
    differing = [
        key
        for key, value in stated.items()
        if not math.isclose(
            found[key] or 0.0, value, rel_tol=3e-5, abs_tol=5.1e-3 if key[1] == _WAVES else 1e-6
        )
    ]
    return len(stated), differing


def compare_with_library(library: Any, name: str) -> tuple[int, list[object]]:
    """Return how many values the library has in common with our reader, and which differ."""
    ours, _ = read(REPORT_READER, CORPUS / name)
    found = _values(ours)
    actions = [action for group in library.load_report(str(CORPUS / name)) for action in group]
    assert len(actions) == len(ours.rows("raw_counter_kernels"))
    count, differing = 0, []
    for number, action in enumerate(actions):
        for metric in action.metric_names():
            key = (number, metric)
            if key not in found or not action[metric].has_value():
                continue
            value = action[metric].value()
            if isinstance(value, int | float) and math.isfinite(value):
                count += 1
                if not math.isclose(found[key] or 0.0, float(value), rel_tol=1e-12):
                    differing.append(key)
    return count, differing


@pytest.mark.integration
@pytest.mark.skipif(NCU is None, reason="ncu is not on the PATH")
def test_raw_page_of_the_tool(name: str, tmp_path: Path) -> None:
    count, differing = compare_with_tool(Path(str(NCU)), name, tmp_path)
    assert (count > 0, differing) == (True, [])


@pytest.mark.integration
@pytest.mark.skipif(find_spec("ncu_report") is None, reason="ncu-report is not installed")
def test_library_of_the_tool(name: str) -> None:
    count, differing = compare_with_library(importlib.import_module("ncu_report"), name)
    assert (count > 0, differing) == (True, [])


def _stand_in(folder: Path, expected: Path) -> Path:
    """Return an executable that answers as the tool does."""
    tool = folder / "ncu"
    tool.write_text(_STAND_IN.format(python=sys.executable, expected=str(expected)), encoding="utf-8")
    tool.chmod(0o755)
    return tool


def test_comparison_with_a_stand_in_of_the_tool(name: str, tmp_path: Path) -> None:
    count, differing = compare_with_tool(_stand_in(tmp_path, CORPUS / "expected"), name, tmp_path)
    assert count > 200
    assert differing == []


def test_comparison_finds_a_wrong_page(name: str, tmp_path: Path) -> None:
    export = f"{Path(name).stem}.raw.ncu2024.1.csv"
    text = (CORPUS / "expected" / export).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    (tmp_path / export).write_text("".join((*lines[:2], lines[3], lines[2], *lines[4:])), encoding="utf-8")
    _, differing = compare_with_tool(_stand_in(tmp_path, tmp_path), name, tmp_path)
    assert differing


@dataclass(frozen=True)
class _Metric:
    """A metric of the stand-in library."""

    stated: float | str | None

    def has_value(self) -> bool:
        return self.stated is not None

    def value(self) -> float | str:
        """Return the value; without one 0.0, as the library does."""
        return float("nan") if self.stated == "nan" else 0.0 if self.stated is None else self.stated


class _Action(dict[str, _Metric]):
    """A kernel of the stand-in library."""

    def metric_names(self) -> Iterator[str]:
        return iter(self)


@dataclass(frozen=True)
class _Library:
    """Answers as the library does, from values that it gave before; one metric can be made wrong."""

    error: Mapping[str, float]

    def load_report(self, path: str) -> list[list[_Action]]:
        stated = json.loads((CORPUS / "expected" / f"{Path(path).stem}.metrics.json").read_text("utf-8"))
        return [
            [
                _Action(
                    {
                        metric: _Metric(self.error.get(metric, entry["value"]))
                        for metric, entry in kernel["metrics"].items()
                    }
                )
                for kernel in stated
            ]
        ]


def test_comparison_with_a_stand_in_of_the_library(name: str) -> None:
    count, differing = compare_with_library(_Library({}), name)
    assert count > 200
    assert differing == []
    _, differing = compare_with_library(_Library({"profiler__replayer_passes": 77.0}), name)
    assert {key[1] for key in differing} == {"profiler__replayer_passes"}  # type: ignore[index]
