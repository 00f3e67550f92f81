"""Generated GPU traces with and without step labels, and their phases against the generator's truth."""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import duckdb
from tests.builders_nsys import trace_marts

GENERATOR = Path(__file__).resolve().parents[3] / "shared" / "tools" / "make_nsys_sqlite.py"
WHY_SKIPPED = "the generator of traces (../shared/tools/make_nsys_sqlite.py) is not here"
#: From this confidence on a phase is acted upon (threshold phase_confidence_min).
SURE = 0.8
_LOAD = ("--rate", "0.4", "--prompt", "300", "--output", "150", "--kv-tokens", "9000", "--steps", "160")
_SIZE = ("--kernels-per-step", "40", "--nvtx-per-step", "5")
#: What the honest union stands for.
_UNION = "answers.phase = 'prefill_or_mixed' and truth.phase in ('prefill', 'mixed')"
_CELL_SQL = f"""
select
    truth.phase,
    answers.phase,
    answers.evidence,
    answers.confidence >= {SURE},
    not (truth.phase = answers.phase or ({_UNION})),
    (truth.phase = 'decode') = (answers.phase = 'decode') and answers.phase <> 'other',
    count(*),
    sum(answers.end_ns - answers.start_ns)
from truth
inner join raw_kernels as raw
    on
        truth.device_id = raw.device_id
        and truth.start_ns = raw.start_src_ns
        and truth.correlation_id = raw.correlation_id
inner join kernel_phases as answers on raw.kernel_no = answers.kernel_no
group by all
order by all
"""


@dataclass(frozen=True)
class Trace:
    """One way to serve and to record.

    Attributes:
        title: name in the table.
        options: options of the generator.
    """

    title: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """Kernels of one true phase with one answer.

    Attributes:
        truth: true phase.
        phase: answer.
        evidence: what the answer rests on.
        is_sure: whether it would be acted upon.
        is_wrong: neither the true phase nor a union that holds it.
        is_split_right: decode is told from the rest.
        kernel_count: kernels.
        gpu_time_ns: their time.
    """

    truth: str
    phase: str
    evidence: str
    is_sure: bool
    is_wrong: bool
    is_split_right: bool
    kernel_count: int
    gpu_time_ns: int


@dataclass(frozen=True)
class PhaseScore:
    """What became of the kernels of one trace."""

    title: str
    cells: tuple[Cell, ...]

    def share(self, cells: Iterable[Cell]) -> float:
        """Return the share of the visible GPU time that the cells hold."""
        return sum(cell.gpu_time_ns for cell in cells) / sum(cell.gpu_time_ns for cell in self.cells)

    @property
    def split_right_ratio(self) -> float:
        """Share of the time whose decode or not-decode is right."""
        return self.share(cell for cell in self.cells if cell.is_split_right)

    @property
    def exact_ratio(self) -> float:
        """Share of the time with exactly the true phase."""
        return self.share(cell for cell in self.cells if cell.truth == cell.phase)

    @property
    def sure_ratio(self) -> float:
        """Share of the time whose phase is acted upon."""
        return self.share(cell for cell in self.cells if cell.is_sure)

    @property
    def wrong_sure_count(self) -> int:
        """Kernels with a wrong phase that would be acted upon."""
        return sum(cell.kernel_count for cell in self.cells if cell.is_wrong and cell.is_sure)


def traces() -> tuple[Trace, ...]:
    """Return every schema, way to trace graphs, attention backend and number of GPUs, and some with swap."""
    found = []
    for schema, graph, attention, gpus in product(
        ("2024.2", "2026.2"), ("node", "graph", "off"), ("fa2", "fa3", "flashinfer"), ("1", "2")
    ):
        options = ("--schema", schema, "--graph", graph, "--attention", attention, "--gpus", gpus)
        found.append(Trace(f"{schema} {graph} {attention} {gpus} GPU", options))
    for graph, attention in product(("node", "graph"), ("fa2", "flashinfer")):
        options = ("--graph", graph, "--attention", attention, "--preempt-mode", "swap", "--overlap", "0.5")
        found.append(Trace(f"2024.2 {graph} {attention} 1 GPU, swap", options))
    return tuple(found)


def score(trace: Trace, folder: Path, *, is_labelled: bool) -> PhaseScore:
    """Generate a trace, build its marts and return its score.

    Args:
        trace: what to generate.
        folder: where to write.
        is_labelled: keep the step labels.
    """
    path = folder / "trace.sqlite"
    labels = () if is_labelled else ("--no-nvtx",)
    command = [sys.executable, str(GENERATOR), str(path), *_LOAD, *_SIZE, *trace.options, *labels]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    truth = json.loads(Path(f"{path}.truth.json").read_text())
    con = trace_marts(path, offset_ns=truth["session_start_utc_ns"])
    con.read_parquet(f"{path}.kernels.truth.parquet").create_view("truth")
    result = PhaseScore(trace.title, _cells(con))
    visible = con.execute("select count(*) from truth").fetchone()
    assert visible == (sum(cell.kernel_count for cell in result.cells),)
    return result


def _cells(con: duckdb.DuckDBPyConnection) -> tuple[Cell, ...]:
    return tuple(Cell(*row) for row in con.execute(_CELL_SQL).fetchall())


def table(scores: Iterable[PhaseScore]) -> str:
    """Return one line a trace."""
    lines = [
        "| trace | decode or not | exact phase | acted upon | of these wrong |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {item.title} | {item.split_right_ratio:.2%} | {item.exact_ratio:.2%} | {item.sure_ratio:.2%} "
        f"| {item.wrong_sure_count} |"
        for item in scores
    ]
    return "\n".join(lines)


def confusion(scores: Iterable[PhaseScore]) -> str:
    """Return kernels of every true phase by answer, over all traces."""
    cells = [cell for item in scores for cell in item.cells]
    answers = ("prefill", "decode", "mixed", "prefill_or_mixed", "other")
    lines = [f"| truth | {' | '.join(answers)} |", "|---|" + "---|" * len(answers)]
    for truth in ("prefill", "decode", "mixed"):
        counts = [
            sum(cell.kernel_count for cell in cells if (cell.truth, cell.phase) == (truth, answer))
            for answer in answers
        ]
        lines.append(f"| {truth} | {' | '.join(str(count) for count in counts)} |")
    return "\n".join(lines)
