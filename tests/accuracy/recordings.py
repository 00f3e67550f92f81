"""Recorded runs with independently known preemptions, and cut-down copies of them."""

import csv
import gzip
import json
import lzma
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "serving_runs"
WHY_SKIPPED = "the recordings of serving runs (../shared/corpus/serving_runs) are not here"
SCRAPE_MARK = "# scrape start_unix_ns="


@dataclass(frozen=True)
class Recording:
    """A recorded run and what truly happened in it.

    Attributes:
        name: set and run.
        folder: its files.
        preemptions_ns: true times; of ``memory_gap`` the first one only.
        preemption_count: true number.
        relative_to: file on whose own clock the times are, ``None`` for unix time.
        clock_bounds_ns: bounds of offset(``relative_to``) - offset(server.log).
        resolution_ns: how much earlier than stated a preemption can have been (truth sampled once a second).
    """

    name: str
    folder: Path
    preemptions_ns: tuple[int, ...]
    preemption_count: int
    relative_to: str | None = None
    clock_bounds_ns: tuple[int, int] | None = None
    resolution_ns: int = 0

    @property
    def is_quiet(self) -> bool:
        """Return whether nothing was ever preempted."""
        return self.preemption_count == 0

    @property
    def is_scored(self) -> bool:
        """Return whether it has enough preemptions to be a swap point: one or two are a corner case."""
        return self.preemption_count >= 3


def vllm_cpu() -> tuple[Recording, ...]:
    """Return the recordings whose scheduler wrote down every preemption."""
    root = ROOT / "vllm_cpu"
    found = []
    for truth in sorted((root / "truth").iterdir()):
        times = tuple(_scheduler_preemptions(truth))
        found.append(Recording(f"vllm_cpu/{truth.name}", root / truth.name, times, len(times)))
    return tuple(found)


def memory_gap() -> tuple[Recording, ...]:
    """Return the recordings of a V0 engine on a GPU; truth is on the clock of the scraped series."""
    root = ROOT / "memory_gap"
    bounds = {row["dir"]: row for row in _rows(root / "clock_truth.csv")}
    found = []
    for row in _rows(root / "truth.csv"):
        first = row["t_first_preempt_s"]
        bound = bounds[row["dir"]]
        found.append(
            Recording(
                name=f"memory_gap/{row['dir'].removeprefix('background__')}",
                folder=root / row["dir"],
                preemptions_ns=(_ns(first),) if first else (),
                preemption_count=int(row["preempt_total"] or 0),
                relative_to="engine_metrics.csv",
                clock_bounds_ns=(
                    _ns(bound["csv_zero_on_log_clock_lo_s"]),
                    _ns(bound["csv_zero_on_log_clock_hi_s"]),
                ),
                resolution_ns=1_000_000_000,
            )
        )
    return tuple(found)


def recording(name: str) -> Recording:
    """Return one recording by its name."""
    known = vllm_cpu() if name.startswith("vllm_cpu/") else memory_gap()
    return next(item for item in known if item.name == name)


def all_files(folder: Path, scratch: Path) -> Path:
    """Return the run as it was recorded."""
    del scratch
    return folder


def log_alone(folder: Path, scratch: Path) -> Path:
    """Return a copy that holds the server's log only."""
    return _copied(folder, scratch, lambda name: name.startswith("server.log"))


def statistics_alone(every: int) -> Callable[[Path, Path], Path]:
    """Return a function that copies the log with every n-th statistics line and without a line a step."""

    def thin(folder: Path, scratch: Path) -> Path:
        target = log_alone(folder, scratch)
        for path in sorted(target.iterdir()):
            data = path.read_bytes()
            lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines(keepends=True)
            path.unlink()
            statistics = count()
            kept = (
                line
                for line in lines
                if b"Iteration(" not in line
                and (b"Avg generation" not in line or next(statistics) % every == 0)
            )
            (target / "server.log").write_bytes(b"".join(kept))
        return target

    return thin


def scrapes_alone(folder: Path, scratch: Path) -> Path:
    """Return a copy that holds the scrapes only."""
    return _copied(folder, scratch, lambda name: name == "metrics.prom.xz")


def scrapes_thinned(every: int) -> Callable[[Path, Path], Path]:
    """Return a function that makes a copy with every n-th scrape and nothing else."""

    def thin(folder: Path, scratch: Path) -> Path:
        text = lzma.decompress((folder / "metrics.prom.xz").read_bytes()).decode()
        head, *scrapes = text.split(SCRAPE_MARK)
        target = scratch / folder.name
        target.mkdir()
        (target / "metrics.prom").write_text(head + "".join(SCRAPE_MARK + part for part in scrapes[::every]))
        return target

    return thin


def without_counter(folder: Path, scratch: Path) -> Path:
    """Return a copy without preemption counter and preemption lines: only gauges can show a swap point."""
    target = _copied(folder, scratch, lambda _: True)
    series = target / "engine_metrics.csv"
    rows = list(csv.reader(series.read_text().splitlines()))
    kept = [index for index, name in enumerate(rows[0]) if "preempt" not in name]
    with series.open("w", newline="") as out:
        csv.writer(out).writerows([[row[index] for index in kept] for row in rows])
    log = target / "server.log"
    lines = log.read_text(errors="replace").splitlines(keepends=True)
    log.write_text("".join(line for line in lines if "is preempted by" not in line))
    return target


def _copied(folder: Path, scratch: Path, is_kept: Callable[[str], bool]) -> Path:
    target = scratch / folder.name
    target.mkdir()
    for path in sorted(folder.iterdir()):
        if path.is_file() and is_kept(path.name):
            shutil.copy(path, target / path.name)
    return target


def _scheduler_preemptions(truth: Path) -> Iterator[int]:
    path = next(path for path in sorted(truth.iterdir()) if path.name.startswith("truth_sched"))
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            event = json.loads(line) if line.strip() else {}
            if event.get("ev") == "preempt":
                yield int(event["t_ns"])


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as rows:
        return list(csv.DictReader(rows))


def _ns(seconds: str) -> int:
    whole, _, part = seconds.partition(".")
    return int(whole) * 1_000_000_000 + int(part.ljust(9, "0")[:9])
