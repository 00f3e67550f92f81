"""Clocks that run too fast or too slow: an offset must hold over the whole run, or be refused."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from builders_clocks import YEAR_NS, Load, Run, S, distort, holds, read_files

VLLM_CPU = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "serving_runs" / "vllm_cpu"
LOG_TRUTH_NS = (
    int((datetime(2026, 11, 30, tzinfo=UTC) - datetime(2000, 11, 30, tzinfo=UTC)).total_seconds()) * S
)


@pytest.fixture(scope="module")
def loads() -> dict[int, Load]:
    return {duration_s: Load(duration_s=duration_s) for duration_s in (40, 300)}


@pytest.mark.parametrize("drift_ppm", [50, 200])
@pytest.mark.parametrize("duration_s", [40, 300])
def test_an_offset_covers_a_drifting_clock_at_both_ends(
    loads: dict[int, Load], duration_s: int, drift_ppm: int
) -> None:
    run = Run()
    loads[duration_s].add_log(run)
    loads[duration_s].add_client(run)
    loads[duration_s].add_scrapes(run)
    client = distort(run, "requests.jsonl", shift_ns=round(12.25 * S), drift_ppm=drift_ppm)
    log = distort(run, "server.log", shift_ns=-3600 * S, drift_ppm=-drift_ppm)
    clocks = run.align()
    assert holds(clocks["requests.jsonl"], 0, client), clocks["requests.jsonl"]
    assert holds(clocks["server.log"], YEAR_NS, log), clocks["server.log"]
    # What is stated stays of the size of what drifted.
    for name, ahead in (("requests.jsonl", client), ("server.log", log)):
        assert (clocks[name].uncertainty_ns or 0) < 60_000_000 + abs(ahead[1] - ahead[0]), clocks[name]


@pytest.mark.skipif(not VLLM_CPU.is_dir(), reason="the shared recordings are not here")
@pytest.mark.parametrize(
    ("name", "drift_ppm", "shifts_s"),
    [("kv_stress_1", 200, (7200.4, -3.1)), ("hit_but_slow", 50, (-5.2, 3599.0))],
)
def test_drifting_recordings(name: str, drift_ppm: int, shifts_s: tuple[float, float]) -> None:
    run = read_files(path for path in sorted((VLLM_CPU / name).iterdir()) if path.is_file())
    log = next(path for path in run.ids if path.startswith("server.log"))
    client = next(path for path in run.ids if path.startswith("requests.jsonl"))
    ahead = {
        path: distort(run, path, shift_ns=round(shift_s * S), drift_ppm=drift_ppm)
        for path, shift_s in zip((log, client), shifts_s, strict=True)
    }
    clocks = run.align()
    for path, truth_ns in ((log, LOG_TRUTH_NS), (client, 0)):
        assert holds(clocks[path], truth_ns, ahead[path]), (path, clocks[path], ahead[path])
        assert (clocks[path].uncertainty_ns or 0) < S
