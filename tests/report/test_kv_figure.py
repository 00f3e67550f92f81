"""What the figure draws and names; the drawn texts stand as comments in the SVG."""

from builders_marts import START, S, add_rows, add_run, empty_marts, kv_row, latency_row, swap_point
from kvcliff.report.content import build_content
from kvcliff.report.kv_figure import kv_figure


def _texts(con) -> set[str]:
    content = build_content(con, "night-1")
    drawn = kv_figure(con, content.run_time, content.run.name)
    lines = [line.strip() for line in drawn.svg.decode().splitlines()]
    return {
        line.removeprefix("<!-- ").removesuffix(" -->")
        for line in lines
        if line.startswith("<!-- ") and line.endswith(" -->")
    }


def _run(*kv_rows, **latency):
    con = empty_marts()
    add_run(con)
    add_rows(con, "kv_occupancy", *(kv_rows or [kv_row(second, 0.5) for second in range(5)]))
    for second in range(5):
        add_rows(con, "token_latency", latency_row(second, 20.0, 30.0, **latency))
    return con


def test_latency_is_drawn_when_it_is_known():
    texts = _texts(_run())
    assert {"ITL p50", "ITL p99", "ITL (ms, log)", "running", "waiting"} <= texts
    assert "tokens/s" not in texts


def test_throughput_stands_in_for_latency_that_nobody_recorded():
    texts = _texts(_run(itl_p50_ms=None, itl_p99_ms=None))
    assert "tokens/s" in texts
    assert "(no ITL recorded)" in texts
    assert "ITL (ms, log)" not in texts


def test_without_any_pace_its_panel_is_left_out():
    con = empty_marts()
    add_run(con)
    add_rows(con, "kv_occupancy", kv_row(0, 0.5), kv_row(1, 0.6))
    texts = _texts(con)
    assert "KV occupancy" in texts
    assert not {"tokens/s", "ITL (ms, log)"} & texts


def test_the_legend_names_only_what_is_drawn():
    idle = [kv_row(second, 0.5) for second in range(3)] + [kv_row(s, 0.0, tier="host") for s in range(3)]
    assert "host tier" not in _texts(_run(*idle))
    assert "engine action" not in _texts(_run(*idle))
    used = [*idle, kv_row(4, 0.2, tier="host")]
    assert {"host tier", "KV occupancy (HBM)"} <= _texts(_run(*used))


def test_an_action_beyond_the_curves_is_not_named():
    con = _run()
    event = {"replica_id": "0", "kind": "preempt", "proof": "counter", "event_count": 1}
    add_rows(con, "engine_events", {**event, "ts_ns": START + 500 * S})
    assert "engine action" not in _texts(con)
    add_rows(con, "engine_events", {**event, "ts_ns": START + 2 * S})
    assert "engine action" in _texts(con)


def test_swap_points_that_crowd_are_numbered_as_one():
    con = _run()
    for number in range(3):
        at_ns = START + 2 * S + number * S // 100
        add_rows(con, "swap_points", swap_point(swap_point_id=number + 1, at_ns=at_ns, error_ns=0))
    assert "1-3" in _texts(con)
