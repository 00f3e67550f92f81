"""CPU time and memory of 100 MB of Nsight Compute counters: raw page and report, read alone and ingested.

``make bench`` runs it. Each figure is of a child process of its own.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.benchmarks.bench_diagnose import COMMAND, run_child
from tests.builders_ncu import CORPUS, NO_CORPUS, RAW
from tests.builders_ncu_sweep import Counted

SIZE_BYTES = 100_000_000
#: A full report has some three hundred metrics for each kernel; most are read by nobody but kept.
METRIC_COUNT = 300
READER_CPU_S = 2.5
READER_MIB = 400
INGEST_CPU_S = 6.0
INGEST_MIB = 900
_READ = """
import sys
from pathlib import Path
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.nsight_compute_csv import READER

class Nothing:
    def append(self, table, frame):
        return frame.height

path = Path(sys.argv[1])
print(READER.load(Source(path, path.name), Nothing(), ReadContext()).row_count)
"""


def lines() -> Iterator[str]:
    """Yield the header, the units and then rows of kernels without end."""
    known = {name: value for name, value in Counted(fabric_pct=20.0).metrics.items() if value is not None}
    fillers = [f"smsp__inst_executed_pipe_{number}.sum" for number in range(METRIC_COUNT - len(known))]
    yield _line([*RAW, *known, *fillers])
    yield _line([""] * (len(RAW) + METRIC_COUNT))
    number = 0
    while True:
        name = f"void kernel_{number % 40}<float>(Params)"
        place = (
            str(number),
            "7",
            "python",
            "127.0.0.1",
            name,
            "1",
            "7",
            "(128, 1, 1)",
            "(1, 400, 1)",
            "0",
            "8.0",
        )
        filled = (f"{number % 1000}.{index:06d}" for index in range(len(fillers)))
        yield _line([*place, *(f"{value:.6f}" for value in known.values()), *filled])
        number += 1


def _line(cells: list[str]) -> str:
    return ",".join(f'"{cell}"' for cell in cells) + "\n"


@pytest.fixture(scope="module")
def raw_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counters") / "decode.raw.csv"
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for line in lines():
            written += file.write(line)
            if written >= SIZE_BYTES:
                break
    return path


@pytest.mark.benchmark
def test_reader_alone(raw_page: Path, tmp_path: Path) -> None:
    usage = run_child([sys.executable, "-c", _READ, raw_page], tmp_path)
    print(f"\nraw page of 100 MB, reader alone: {usage.cpu_s:.2f} s CPU, peak {usage.peak_mib} MiB")
    assert usage.cpu_s <= READER_CPU_S
    assert usage.peak_mib <= READER_MIB


@pytest.mark.benchmark
def test_ingest(raw_page: Path, tmp_path: Path) -> None:
    usage = run_child([COMMAND, "ingest", raw_page, "--db", tmp_path / "runs.duckdb"], tmp_path)
    size_mb = (tmp_path / "runs.duckdb").stat().st_size / 1e6
    print(
        f"\nraw page of 100 MB, ingest: {usage.cpu_s:.2f} s CPU, peak {usage.peak_mib} MiB, "
        f"stored file {size_mb:.0f} MB"
    )
    assert usage.cpu_s <= INGEST_CPU_S
    assert usage.peak_mib <= INGEST_MIB


_READ_REPORT = _READ.replace("nsight_compute_csv", "nsight_compute_report")
RECORDED = CORPUS / "ESMM-Research/a10g_roofline_c4.ncu-rep"
REPORT_CPU_S = 2.5
REPORT_MIB = 400


@pytest.mark.benchmark
@pytest.mark.skipif(not RECORDED.is_file(), reason=NO_CORPUS)
def test_report_alone(tmp_path: Path) -> None:
    """A recorded report whose blocks follow each other again and again: values among sources and rules."""
    data = RECORDED.read_bytes()
    start = 8 + int.from_bytes(data[4:8], "little")
    path = tmp_path / "decode.ncu-rep"
    path.write_bytes(data[:start] + data[start:] * (SIZE_BYTES // (len(data) - start) + 1))
    usage = run_child([sys.executable, "-c", _READ_REPORT, path], tmp_path)
    print(f"\nreport of 100 MB, reader alone: {usage.cpu_s:.2f} s CPU, peak {usage.peak_mib} MiB")
    assert usage.cpu_s <= REPORT_CPU_S
    assert usage.peak_mib <= REPORT_MIB
