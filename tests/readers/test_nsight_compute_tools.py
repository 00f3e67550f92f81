"""The reader of reports against the vendor's own tools, where somebody has installed them; never required."""

import importlib
import math
import shutil
import subprocess
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
NCU = shutil.which("ncu")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS),
    pytest.mark.parametrize("name", REPORTS),
]


def _values(sink: TableSink) -> dict[tuple[object, object], float | None]:
    return {(row["kernel_no"], row["metric"]): row["value"] for row in sink.rows("raw_counter_values")}  # type: ignore[misc]


@pytest.mark.skipif(NCU is None, reason="ncu is not on the PATH")
def test_raw_page_of_the_tool(name: str, tmp_path: Path) -> None:
    ours, _ = read(REPORT_READER, CORPUS / name)
    command = [str(NCU), "--import", str(CORPUS / name), "--csv", "--page", "raw"]
    done = subprocess.run(command, capture_output=True, check=True, env={"LC_ALL": "C"})
    page = tmp_path / "raw.csv"
    page.write_bytes(done.stdout)
    theirs, _ = read(CSV_READER, page)
    expected, found = _values(theirs), _values(ours)
    assert expected
    for key, value in expected.items():
        if value is not None:
            # The page prints six decimals of a number in a scaled unit.
            assert math.isclose(found[key] or 0.0, value, rel_tol=1e-5, abs_tol=1e-6), key


@pytest.mark.skipif(find_spec("ncu_report") is None, reason="ncu-report is not installed")
def test_library_of_the_tool(name: str) -> None:
    ours, _ = read(REPORT_READER, CORPUS / name)
    found = _values(ours)
    library: Any = importlib.import_module("ncu_report")
    actions = [action for group in library.load_report(str(CORPUS / name)) for action in group]
    assert len(actions) == len(ours.rows("raw_counter_kernels"))
    for number, action in enumerate(actions):
        for metric in action.metric_names():
            key = (number, metric)
            if key not in found or not action[metric].has_value():
                continue
            value = action[metric].value()
            if isinstance(value, int | float) and math.isfinite(value):
                assert found[key] == pytest.approx(float(value), rel=1e-12), key
