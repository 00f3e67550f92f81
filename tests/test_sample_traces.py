"""The sample traces are untouched, each tells its story, and reports/ holds what the code renders today."""

import hashlib
import json
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).parent.parent
TRACES = ROOT / "sample_traces"
STORIES = tuple(sorted(path.name for path in TRACES.iterdir() if path.is_dir()))
#: First preemption by the scheduler's own record, unix ns (see sample_traces/*/README.md).
FIRST_PREEMPTION_NS = {"kv_stress": 1796064598140097100}
PNG_TOLERANCE = 0.02


@pytest.fixture
def diagnosed(diagnosed_stories: Path) -> Path:
    """Every story diagnosed into one store, its report beside it."""
    return diagnosed_stories


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(folder / "runs.duckdb"), read_only=True) as con:
        return con.execute(query).fetchall()


def test_there_are_a_gpu_story_and_at_least_four_recorded_ones() -> None:
    assert "gpu_story" in STORIES
    assert len(STORIES) >= 5


def test_nothing_in_sample_traces_was_edited() -> None:
    listed = {}
    for line in (TRACES / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, name = line.split("  ", 1)
        listed[name] = digest
    present = {
        path.relative_to(TRACES).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in TRACES.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }
    assert present == listed


@pytest.mark.parametrize("story", STORIES)
def test_a_story_is_small_and_says_how_it_was_made(story: str) -> None:
    size = sum(path.stat().st_size for path in (TRACES / story).rglob("*") if path.is_file())
    assert size < 3_000_000
    text = (TRACES / story / "README.md").read_text(encoding="utf-8")
    assert "**Truth**" in text
    assert "**A right report**" in text


def test_kv_stress_names_its_swap_point_within_its_error_bar(diagnosed: Path) -> None:
    found = rows(
        diagnosed,
        "select class, mechanism, at_ns, error_ns, action_count from swap_points"
        " where run_id like 'kv_stress-%' order by at_ns",
    )
    assert len(found) == 1
    kind, mechanism, at_ns, error_ns, actions = found[0]
    assert (kind, mechanism, actions) == ("confirmed", "recompute", 42)
    assert abs(at_ns - FIRST_PREEMPTION_NS["kv_stress"]) <= error_ns < 200_000_000


@pytest.mark.parametrize("story", STORIES)
def test_ledgers_of_a_story_balance(diagnosed: Path, story: str) -> None:
    off = rows(
        diagnosed,
        f"""
        select level, replica_id, tier from capacity_ledger where run_id like '{story}-%'
        group by all
        having
            coalesce(sum(bytes) filter (where is_part), 0)
            <> coalesce(max(bytes) filter (where line = 'total'), 0)
            or coalesce(sum(tokens) filter (where is_part), 0)
            <> coalesce(max(tokens) filter (where line = 'total'), 0)
            or abs(coalesce(sum(share) filter (where is_part), 1) - 1) > 1e-9
        """,
    )
    assert off == []
    times = rows(
        diagnosed,
        f"""
        select
            sum(time_ms) filter (where line in ('achievable', 'collectives', 'gpu_idle', 'unexplained'))
            - max(time_ms) filter (where line = 'measured')
        from bandwidth_ledger where run_id like '{story}-%'
        group by level, replica_id, step_class
        having count(*) filter (where line = 'unexplained') > 0
        """,
    )
    assert all(abs(difference) < 1e-6 for (difference,) in times if isinstance(difference, float))


def test_hit_but_slow_opens_with_the_contradiction(diagnosed: Path) -> None:
    report = json.loads((diagnosed / "hit_but_slow" / "report.json").read_text(encoding="utf-8"))
    assert report["verdict"]["finding"] == "hit_but_slow"
    assert "95 %" in report["verdict"]["sentence"]
    hits = rows(
        diagnosed,
        "select sum(hit_tokens) / sum(lookup_tokens) from cache_hits"
        " where run_id like 'hit_but_slow-%' and tier = 'hbm'",
    )
    assert hits[0][0] == pytest.approx(0.947, abs=0.001)


@pytest.mark.parametrize("story", ["steady", "cpu_hog"])
def test_controls_have_no_swap_point(diagnosed: Path, story: str) -> None:
    assert rows(diagnosed, f"select count(*) from swap_points where run_id like '{story}-%'") == [(0,)]


def test_cpu_hog_is_a_jump_that_is_not_kv(diagnosed: Path) -> None:
    causes = rows(diagnosed, "select cause from latency_jumps where run_id like 'cpu_hog-%'")
    assert causes == [("cpu",)]


def test_gpu_story_brings_its_four_clocks_together(diagnosed: Path) -> None:
    clocks = {
        str(path): (offset, uncertainty)
        for path, offset, uncertainty in rows(
            diagnosed,
            "select path, offset_ns, uncertainty_ns from clocks join sources using (run_id, source_id)"
            " where run_id like 'gpu_story-%'",
        )
    }
    for name, shift_s in (("metrics.prom.xz", 12.25), ("requests.jsonl.gz", -3.1)):
        offset, uncertainty = clocks[name]
        assert abs(offset + shift_s * 1e9) <= uncertainty < 200_000_000
    hours_and_rest = (clocks["server.log.gz"][0] + 7200.4e9) % (86_400 * 10**9)
    assert min(hours_and_rest, 86_400 * 10**9 - hours_and_rest) <= clocks["server.log.gz"][1]


def test_gpu_story_joins_its_swap_point_with_the_copies(diagnosed: Path) -> None:
    points = rows(
        diagnosed,
        "select class, mechanism, evidence from swap_points where run_id like 'gpu_story-%'",
    )
    assert [point[:2] for point in points] == [("confirmed", "swap")]
    assert "copies_out (copies)" in str(points[0][2])
    moved = rows(
        diagnosed,
        "select kind, sum(bytes) from transfers where run_id like 'gpu_story-%' and is_kv_swap group by kind"
        " order by kind",
    )
    assert moved == [("dtoh", 1457520640), ("htod", 1457520640)]


def test_a_synthetic_run_says_so(diagnosed: Path) -> None:
    assert "ynthetic" in (diagnosed / "gpu_story" / "report.md").read_text(encoding="utf-8")[:1500]


@pytest.mark.parametrize("story", STORIES)
def test_reports_are_what_the_code_renders(diagnosed: Path, story: str) -> None:
    kept, new = ROOT / "reports" / story, diagnosed / story
    names = sorted(str(path.relative_to(new)) for path in new.rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file())
    for name in names:
        if name.endswith(".png"):
            size_bytes = (kept / name).stat().st_size
            assert abs(size_bytes - (new / name).stat().st_size) <= PNG_TOLERANCE * size_bytes
        else:
            assert (kept / name).read_bytes() == (new / name).read_bytes(), f"run make report ({kept / name})"


@pytest.mark.parametrize("story", STORIES)
def test_rules_hold_in_every_story(diagnosed: Path, story: str) -> None:
    out_of_range = rows(
        diagnosed,
        f"select count(*) from kv_occupancy where run_id like '{story}-%' and used_ratio not between 0 and 1",
    )
    assert out_of_range == [(0,)]
    backwards = rows(
        diagnosed,
        f"select count(*) from swap_points where run_id like '{story}-%'"
        " and (end_ns < at_ns or pressure_at_ns > at_ns or error_ns < 0)",
    )
    assert backwards == [(0,)]
