"""What the figure of a sweep draws and says; the drawn texts stand as comments in the SVG."""

import pytest

from builders_marts import add_rows, add_run, empty_marts
from kvcliff.findings.run_time import RunTime, read_run_time
from kvcliff.report.knee_figure import knee_figure


@pytest.fixture
def con():
    con = empty_marts()
    add_run(con)
    return con


def _levels(con, *loads, **marks):
    """Add levels; ``marks`` are further columns of single loads (``at_8={...}``)."""
    for place_no, load in enumerate(loads, start=1):
        row = {
            "level": f"c{load}", "load_kind": "concurrency", "load": float(load), "place_no": place_no,
            "tokens_per_s": 100.0 * load, "itl_p50_ms": 20.0 + load, "itl_p99_ms": 30.0 + load,
            "is_knee": False, "is_saturation": False, "is_client_late": False,
        }  # fmt: skip
        add_rows(con, "concurrency_knee", {**row, **marks.get(f"at_{load}", {})})


def _draw(con):
    run_time: RunTime = read_run_time(con)
    return knee_figure(con, run_time, "night-1")


def _texts(drawn) -> set[str]:
    lines = [line.strip() for line in drawn.svg.decode().splitlines()]
    return {line.removeprefix("<!-- ").removesuffix(" -->") for line in lines if line.startswith("<!-- ")}


def test_one_level_has_no_figure(con):
    assert _draw(con) is None
    _levels(con, 1)
    assert _draw(con) is None


def test_knee_and_saturation_are_named_with_their_range(con):
    _levels(
        con, 1, 2, 4, 8, 16, at_4={"knee_min_load": 3.5, "knee_max_load": 6.25}, at_8={"is_saturation": True}
    )
    drawn = _draw(con)
    assert {"tokens/s", "ITL p99", "ITL p50", "knee", "saturation", "requests at once"} <= _texts(drawn)
    assert "between 3.5 and 6.25: between levels throughput is not known" in drawn.caption
    assert "saturation at 8" in drawn.caption


def test_what_is_not_claimed_or_not_recorded_is_not_drawn(con):
    _levels(con, 1, 2, 4)
    drawn = _draw(con)
    assert not {"knee", "saturation", "KV occupancy (max)", "L2 hits of SM reads", "DRAM use"} & _texts(drawn)
    assert drawn.caption.endswith("Neither a knee nor a saturation is claimed.")


def test_shares_are_drawn_where_one_is_known(con):
    _levels(con, 1, 2, at_2={"read_hit_ratio": 0.4, "l2_reuse": "present", "dram_use_ratio": 0.9})
    assert {"L2 hits of SM reads", "DRAM use"} <= _texts(_draw(con))


def test_hits_from_flushed_caches_are_no_curve(con):
    _levels(con, 1, 2, at_2={"read_hit_ratio": 0.4, "l2_reuse": "flushed"})
    assert "L2 hits of SM reads" not in _texts(_draw(con))


def test_request_rates_are_named(con):
    rate = {"load_kind": "request rate"}
    _levels(con, 1, 2, at_1=rate, at_2=rate)
    assert "requests per second asked for" in _texts(_draw(con))


def test_same_levels_same_bytes(con):
    _levels(con, 1, 2, 4, 8, 16, at_4={"is_knee": True})
    assert _draw(con).svg == _draw(con).svg


def test_several_sweeps_have_a_curve_each(con):
    _levels(con, 1, 2, 4, at_1={"sweep": "bf16"}, at_2={"sweep": "bf16"}, at_4={"sweep": "bf16"})
    _levels(con, 1, 2, 4, **{f"at_{load}": {"sweep": "fp8", "level": f"f{load}"} for load in (1, 2, 4)})
    drawn = _draw(con)
    assert {"bf16", "fp8"} <= _texts(drawn)
    assert "fp8: neither a knee nor a saturation is claimed." in drawn.caption
