from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from builders_cli import START_NS, Moment, easy_moments, pressed_moments, write_moments
from kvcliff.errors import UsageProblem
from kvcliff.store.ingest import stage_run
from kvcliff.store.models import create_raw_tables, load_models, mart_names, raw_names
from kvcliff.store.plan import plan_run
from kvcliff.store.window import WindowRequest, parse_time
from kvcliff.store.window_cut import cut_to_window
from kvcliff.store.window_rules import TRIMMED_MARTS, WINDOW_RULES

S = 1_000_000_000
SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
CORPUS = SAMPLES.parents[1] / "shared" / "corpus" / "serving_runs"
#: Scrapes of the builder: one every half second, stamped at its end.
SCRAPE_NS = 2_000_000


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def request(start: str | None, end: str | None) -> WindowRequest:
    return WindowRequest(*(parse_time(text, 0) if text is not None else None for text in (start, end)))


def stage(
    con: duckdb.DuckDBPyConnection, folder: Path, start: str | None = None, end: str | None = None
) -> None:
    window = request(start, end) if (start, end) != (None, None) else None
    stage_run(con, plan_run(folder, window=window))


def marts(con: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[object, ...]]]:
    return {name: con.execute(f"select * from temp.{name} order by all").fetchall() for name in mart_names()}


def test_every_raw_table_has_one_rule() -> None:
    assert sorted(rule.table for rule in WINDOW_RULES) == list(raw_names())


def test_rules_name_columns_of_their_tables() -> None:
    columns = {model.name: {column.name for column in model.columns} for model in load_models()}
    for rule in WINDOW_RULES:
        assert {*rule.series} <= columns[rule.table]
        if rule.start is not None and rule.start.isidentifier():
            assert {rule.start, rule.end or rule.start} <= columns[rule.table]
        timed = {name for name in columns[rule.table] if name.endswith("src_ns")}
        assert not timed or rule.start is not None or rule.kind in ("always", "whole")
    for mart, _ in TRIMMED_MARTS:
        assert mart in mart_names()


def test_a_window_around_everything_changes_no_mart(con: duckdb.DuckDBPyConnection) -> None:
    for story in ("cpu_hog", "gpu_story"):
        stage(con, SAMPLES / story)
        whole = marts(con)
        # A moment long before and one long after the run.
        stage(con, SAMPLES / story, "2001-09-10T00:00:00Z", "2100-01-01T00:00:00Z")
        cut = marts(con)
        assert [name for name in whole if repr(whole[name]) != repr(cut[name])] == []


def test_counters_change_over_the_edge_as_in_the_whole_run(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    folder = write_moments(tmp_path / "pressed", pressed_moments())
    stage(con, folder)
    sql = """
        select * from (
            select
                ts_ns, gen_tokens, preemption_total - lag(preemption_total) over (order by ts_ns)
            from int_kv_samples
        ) where ts_ns >= ? order by ts_ns
    """
    low_ns = START_NS + 39 * S + SCRAPE_NS
    whole = con.execute(sql, [low_ns]).fetchall()
    stage(con, folder, "+39s", None)
    assert con.execute(sql, [low_ns]).fetchall() == whole
    assert (len(whole), whole[0]) == (22, (low_ns, 100.0, 1.0))
    # The first sample of the window counts from the one before it, which stays out of the marts.
    assert con.execute("select min(ts_ns) from int_kv_samples").fetchone() == (low_ns - S // 2,)
    assert con.execute("select min(ts_ns) from kv_occupancy").fetchone() == (low_ns,)
    # 100 tokens every half second, at the edge too; the bucket over it has none, since it holds a part.
    rates = con.execute("select distinct tokens_per_s from token_latency where tokens_per_s is not null")
    assert rates.fetchall() == [(200.0,)]


def test_an_edge_on_a_sample_takes_it_in(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    folder = write_moments(tmp_path / "easy", easy_moments())
    # The run begins with the end of its first scrape: whole seconds after it are on samples.
    stage(con, folder, "+5s", "+10s")
    rows = con.execute("select count(*), min(ts_ns), max(ts_ns) from kv_occupancy").fetchone()
    begin = START_NS + SCRAPE_NS
    assert rows == (11, begin + 5 * S, begin + 10 * S)
    assert con.execute("select started_at_ns, ended_at_ns, name from runs").fetchone() == (
        begin + 5 * S,
        begin + 10 * S,
        "easy@window",
    )


def test_nothing_before_the_begin_of_the_run(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    folder = write_moments(tmp_path / "easy", easy_moments())
    stage(con, folder, None, "+5s")
    assert con.execute("select count(*), max(ts_ns) from kv_occupancy").fetchone() == (
        11,
        START_NS + SCRAPE_NS + 5 * S,
    )


def test_a_counter_that_began_anew_gives_no_negative_change(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    moments = (*(Moment(preemptions=50) for _ in range(20)), *(Moment(preemptions=1) for _ in range(20)))
    stage(con, write_moments(tmp_path / "reset", moments), "+9.7s", None)
    assert con.execute("select count(*) from kv_occupancy").fetchone() == (20,)
    assert con.execute("select count(*) from engine_events where event_count < 0").fetchone() == (0,)
    assert con.execute("select count(*) from int_kv_samples where gen_tokens < 0").fetchone() == (0,)


def test_the_swap_point_keeps_its_time_in_a_window(con: duckdb.DuckDBPyConnection) -> None:
    sql = "select class, at_ns, error_ns, mechanism, e_proof from swap_points"
    stage(con, SAMPLES / "kv_stress")
    whole = con.execute(sql).fetchall()
    stage(con, SAMPLES / "kv_stress", "18:49:55", "18:50:35")
    assert con.execute(sql).fetchall() == whole
    assert whole[0][0] == "confirmed"
    assert abs(whole[0][1] - 1_796_064_598_140_000_000) <= whole[0][2]
    # A window that begins at the first action itself: still found, and the truth within its error.
    stage(con, SAMPLES / "kv_stress", "1796064598.140", "18:50:35")
    ((kind, at_ns, error_ns, mechanism, proof),) = con.execute(sql).fetchall()
    assert (kind, mechanism, proof) == ("confirmed", "recompute", "counter")
    assert abs(at_ns - 1_796_064_598_140_000_000) <= error_ns
    # Before it nothing is found.
    stage(con, SAMPLES / "kv_stress", "18:49:35", "18:49:55")
    assert con.execute(sql).fetchall() == []
    assert con.execute("select count(*) from engine_events where kind = 'preempt'").fetchone() == (0,)


def test_requests_over_the_edges_count_where_things_happened(con: duckdb.DuckDBPyConnection) -> None:
    low, high = 1_796_064_595 * S, 1_796_064_635 * S
    stage(con, SAMPLES / "kv_stress")
    sql = """
        select
            count(*),
            count(*) filter (where first_token_ns between $low and $high and ttft_ms > 0),
            count(*) filter (where end_ns between $low and $high and e2e_ms > 0),
            count(*) filter (where first_token_ns is null),
            count(*) filter (where end_ns is null)
        from requests where arrival_ns <= $high and end_ns >= $low or end_ns is null
    """
    served, first, ended, _, _ = con.execute(sql, {"low": low, "high": high}).fetchone() or ()
    stage(con, SAMPLES / "kv_stress", "18:49:55", "18:50:35")
    cut = con.execute(sql, {"low": low, "high": high}).fetchone()
    assert cut == (served, first, ended, served - first, served - ended)
    assert 0 < served - ended < served
    assert con.execute("select count(*) from requests where is_error").fetchone() == (0,)
    # Tokens of the window only; a stream's last one before it only tells since when it was silent.
    (tokens,) = con.execute("select sum(token_count) from token_latency").fetchone() or ()
    stage(con, SAMPLES / "kv_stress")
    (expected,) = (
        con.execute(
            "select sum(tokens) from int_token_arrivals where ts_ns between ? and ?", [low, high]
        ).fetchone()
        or ()
    )
    assert tokens == expected


def test_a_hole_and_a_time_outside_are_refused(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    folder = write_moments(tmp_path / "hole", easy_moments())
    text = (folder / "metrics.prom").read_text()
    later = text.replace(str(START_NS)[:10], str(int(str(START_NS)[:10]) + 600))
    (folder / "metrics.prom").write_text(text + later)
    with pytest.raises(UsageProblem, match="no row of the run lies in the window"):
        stage(con, folder, "+60s", "+70s")
    with pytest.raises(UsageProblem, match="lies outside the run, which is"):
        stage(con, folder, "+2h", "+3h")


def test_a_hole_of_a_log_is_refused(con: duckdb.DuckDBPyConnection) -> None:
    lines = [{"line_no": number, "src_ns": number * S, "engine": "0"} for number in (1, 2, 90, 91)]
    _rows(con, {"raw_log_stats": lines})
    with pytest.raises(UsageProblem, match="no row of the run lies in the window"):
        cut_to_window(con, request("+10s", "+20s"), utc_known=False)


def test_a_run_without_times_is_refused(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    folder = tmp_path / "shape"
    folder.mkdir()
    (folder / "config.json").write_bytes((SAMPLES / "kv_stress" / "config.json").read_bytes())
    with pytest.raises(UsageProblem, match="a window needs times"):
        stage(con, folder, "+1s", None)


def test_files_say_how_much_of_them_lies_in_the_window(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    stage(con, write_moments(tmp_path / "easy", easy_moments()), "+5s", "+10s")
    # 40 scrapes of 5 series; 11 lie inside and one before.
    assert con.execute("select notes from sources").fetchall() == [("72 of 240 rows belong to the window",)]


def _rows(con: duckdb.DuckDBPyConnection, tables: dict[str, list[dict[str, object]]]) -> None:
    """Fill fresh raw tables, all of one source whose clock is 1,000 s behind the run clock."""
    create_raw_tables(con)
    con.execute("create or replace temp table sources as select 1 as source_id, null::varchar as notes")
    con.execute(
        "create or replace temp table clocks as select 1 as source_id, 1000000000000 as offset_ns, "
        "0::bigint as uncertainty_ns"
    )
    for table, rows in tables.items():
        for row in rows:
            names = ", ".join(row)
            marks = ", ".join("?" * len(row))
            con.execute(f"insert into temp.{table} (source_id, {names}) values (1, {marks})", [*row.values()])


def test_gpu_work_keeps_its_calls_and_ranges(con: duckdb.DuckDBPyConnection) -> None:
    span = "start_src_ns", "end_src_ns"
    kernels = [
        {"kernel_no": number, "process_id": 7, "correlation_id": number, span[0]: number * S, span[1]: end}
        for number, end in ((1, 2 * S), (10, 11 * S), (11, 12 * S), (20, 21 * S), (22, 23 * S))
    ]
    # Each kernel was launched two seconds before it ran, from a range of half a second around the call.
    launches = [
        {
            "process_id": 7, "correlation_id": kernel["kernel_no"],
            span[0]: int(str(kernel[span[0]])) - 2 * S, span[1]: int(str(kernel[span[0]])) - 2 * S + 1000,
        }
        for kernel in kernels
    ]  # fmt: skip
    ranges = [
        {"range_no": number, span[0]: int(str(call[span[0]])) - 1000, span[1]: int(str(call[span[1]])) + 1000}
        for number, call in enumerate(launches)
    ]
    graphs = [
        {"graph_launch_no": number, "process_id": 7, "correlation_id": correlation, span[0]: 0, span[1]: 0}
        for number, correlation in ((0, 1), (1, 20))
    ]
    names = [{"kernel_id": 1, "name": "k"}]
    _rows(con, {"raw_kernels": kernels, "raw_launches": launches, "raw_nvtx_ranges": ranges,
                "raw_graph_launches": graphs, "raw_kernel_names": names})  # fmt: skip
    # The run begins with a range 1 µs before -1 s: the window is 10.5 s to 20.5 s on the file's own clock.
    cut_to_window(con, request("+11.500001s", "+21.500001s"), utc_known=False)
    kept = con.execute("select list(kernel_no order by kernel_no) from raw_kernels").fetchone()
    assert kept == ([10, 11, 20],)
    kept = con.execute("select list(correlation_id order by correlation_id) from raw_launches").fetchone()
    assert kept == ([10, 11, 20, 22],)
    kept = con.execute("select list(range_no order by range_no) from raw_nvtx_ranges").fetchone()
    assert kept == ([1, 2, 3, 4],)
    assert con.execute("select graph_launch_no from raw_graph_launches").fetchall() == [(1,)]
    assert con.execute("select count(*) from raw_kernel_names").fetchone() == (1,)


def test_running_totals_of_a_log_become_changes(con: duckdb.DuckDBPyConnection) -> None:
    events = [
        {"line_no": number, "src_ns": number * S, "engine": "0", "kind": "preempt", "cumulative_count": total}
        for number, total in ((1, 40), (2, 51), (3, 53))
    ]
    _rows(con, {"raw_log_events": events})
    cut_to_window(con, request("+1s", None), utc_known=False)
    rows = con.execute("select line_no, event_count from raw_log_events order by line_no").fetchall()
    assert rows == [(2, 11), (3, 2)]


def test_sums_of_a_file_stay_only_with_all_of_it(con: duckdb.DuckDBPyConnection) -> None:
    requests = [
        {"request_no": number, "submit_src_ns": number * S, "done_src_ns": (number + 1) * S}
        for number in range(10)
    ]
    totals = [{"load_no": 0, "name": "median_itl_ms", "value": 12.5}]
    for start, count in (("+0s", 1), ("+2s", 0)):
        _rows(con, {"raw_client_requests": requests, "raw_client_summary": totals})
        cut_to_window(con, request(start, "+30s"), utc_known=False)
        assert con.execute("select count(*) from raw_client_summary").fetchone() == (count,)


def test_state_is_kept_by_series(con: duckdb.DuckDBPyConnection) -> None:
    lines = [
        {"line_no": number, "src_ns": number * S, "engine": engine, "running_count": number}
        for number, engine in ((1, "0"), (2, "1"), (3, "0"), (4, "0"), (5, "1"), (6, "0"))
    ]
    _rows(con, {"raw_log_stats": lines})
    cut_to_window(con, request("+3.5s", "+4.5s"), utc_known=False)
    # Of each engine the last line before, and what lies inside.
    assert con.execute("select list(line_no order by line_no) from raw_log_stats").fetchone() == ([2, 4, 5],)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the recorded runs beside the repository")
def test_recorded_runs_keep_their_swap_point_in_a_window(con: duckdb.DuckDBPyConnection) -> None:
    sql = "select class, at_ns, error_ns from swap_points order by at_ns limit 1"
    for name in ("kv_stress_1", "kv_stress_2"):
        stage(con, CORPUS / "vllm_cpu" / name)
        ((kind, at_ns, error_ns),) = con.execute(sql).fetchall()
        start, end = (f"{at_ns // S + offset}" for offset in (-5, 20))
        stage(con, CORPUS / "vllm_cpu" / name, start, end)
        ((cut_kind, cut_ns, _),) = con.execute(sql).fetchall()
        assert cut_kind == kind == "confirmed"
        assert abs(cut_ns - at_ns) <= error_ns
