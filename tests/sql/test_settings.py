"""The settings mart: canonical facts, their provenance, and which of them count."""

import pytest

from builders_raw import Rows, build, facts, has_documented_columns, is_unique, source, table

MODEL = source(1, "config.json", "model")
LOG = source(2, "server.log", "log")
METRICS = source(3, "metrics.prom", "metrics")
TRACE = source(4, "run.sqlite", "trace")


def settings(sources: Rows, raw: Rows) -> list[tuple[object, ...]]:
    con = build("settings", {"sources": sources, "raw_settings": raw})
    assert has_documented_columns(con, "settings")
    assert is_unique(con, "settings")
    return table(
        con, "select scope, name, value, origin, is_effective from settings order by name, scope, value"
    )


def test_run_toml_beats_files_and_the_other_value_stays_visible() -> None:
    rows = settings([MODEL], [*facts(0, layers=40), *facts(1, layers=32)])
    assert rows == [("", "layers", "32", "config.json", False), ("", "layers", "40", "run.toml", True)]


def test_order_of_authority() -> None:
    raw = [
        *facts(4, num_gpu_blocks=1),
        *facts(3, num_gpu_blocks=2),
        *facts(2, num_gpu_blocks=3),
        *facts(1, num_gpu_blocks=4),
    ]
    rows = settings([MODEL, LOG, METRICS, TRACE], raw)
    assert [(row[2], row[4]) for row in rows] == [("1", False), ("2", False), ("3", False), ("4", True)]


def test_the_engine_log_is_believed_about_the_dtype_that_runs() -> None:
    rows = settings([MODEL, LOG], [*facts(1, dtype="float32"), *facts(2, dtype="bfloat16")])
    assert rows == [
        ("", "dtype", "bfloat16", "server.log", True),
        ("", "dtype", "float32", "config.json", False),
    ]


def test_equal_facts_of_ranks_stand_once() -> None:
    raw = [row for rank in range(4) for row in facts(2, scope=f"TP{rank}", line_no=10 + rank, weight_bytes=7)]
    assert settings([LOG], raw) == [("", "weight_bytes", "7", "server.log", True)]


def test_differing_ranks_keep_their_scope() -> None:
    raw = [*facts(2, scope="TP0", kv_cache_bytes=5), *facts(2, scope="TP1", kv_cache_bytes=6)]
    assert settings([LOG], raw) == [
        ("TP0", "kv_cache_bytes", "5", "server.log", True),
        ("TP1", "kv_cache_bytes", "6", "server.log", True),
    ]


def test_the_last_statement_of_a_file_counts() -> None:
    raw = [*facts(2, line_no=5, num_gpu_blocks=100), *facts(2, line_no=900, num_gpu_blocks=90)]
    assert [(row[2], row[4]) for row in settings([LOG], raw)] == [("100", False), ("90", True)]


def test_equal_facts_of_files_stand_once_with_the_better_witness() -> None:
    rows = settings([LOG, METRICS], [*facts(3, block_size=16), *facts(2, block_size=16)])
    assert rows == [("", "block_size", "16", "server.log", True)]


def test_none_is_no_fact_and_booleans_are_spelled_alike() -> None:
    raw = [*facts(2, quantization="None", enforce_eager="True", dtype=" bfloat16 ")]
    assert [(row[1], row[2]) for row in settings([LOG], raw)] == [
        ("dtype", "bfloat16"),
        ("enforce_eager", "true"),
    ]


def test_levels_enter_the_scope_only_where_they_differ() -> None:
    sources = [source(1, "8/server.log", "log", level="8"), source(2, "16/server.log", "log", level="16")]
    raw = [
        row
        for source_id, limit in ((1, 8), (2, 16))
        for row in facts(source_id, max_num_seqs=limit, block_size=16)
    ]
    assert settings(sources, raw) == [
        ("", "block_size", "16", "8/server.log", True),
        ("level=16", "max_num_seqs", "16", "16/server.log", True),
        ("level=8", "max_num_seqs", "8", "8/server.log", True),
    ]


def test_run_toml_beats_every_level() -> None:
    sources = [source(1, "8/server.log", "log", level="8"), source(2, "16/server.log", "log", level="16")]
    raw = [*facts(0, max_num_seqs=4), *facts(1, max_num_seqs=8), *facts(2, max_num_seqs=16)]
    assert [(row[0], row[2], row[4]) for row in settings(sources, raw)] == [
        ("", "4", True),
        ("level=16", "16", False),
        ("level=8", "8", False),
    ]


def test_effective_value_of_each_level() -> None:
    sources = [
        MODEL,
        source(2, "8/server.log", "log", level="8"),
        source(3, "16/server.log", "log", level="16"),
    ]
    raw = [*facts(1, layers=40), *facts(2, max_num_seqs=8), *facts(3, max_num_seqs=16)]
    con = build("int_settings_effective", {"sources": sources, "raw_settings": raw})
    assert has_documented_columns(con, "int_settings_effective")
    assert is_unique(con, "int_settings_effective")
    assert table(
        con,
        "select level, number from int_settings_effective "
        "where name = 'max_num_seqs' and level is not null order by 1",
    ) == [
        ("16", 16.0),
        ("8", 8.0),
    ]
    assert table(
        con, "select count(*) from int_settings_effective where name = 'layers' and number = 40"
    ) == [(3,)]


def test_the_model_has_one_name() -> None:
    rows = settings([MODEL, LOG], [*facts(1, model_name="tiny"), *facts(2, model="tiny")])
    assert rows == [("", "model_name", "tiny", "server.log", True)]


def test_numbers_are_numbers_and_text_is_not() -> None:
    con = build(
        "settings",
        {
            "sources": [LOG],
            "raw_settings": facts(2, gpu_memory_utilization="0.9", dtype="bfloat16", seed="inf"),
        },
    )
    assert table(con, "select name, number from settings order by name") == [
        ("dtype", None),
        ("gpu_memory_utilization", 0.9),
        ("seed", None),
    ]


def test_the_clock_of_each_file_is_its_own() -> None:
    raw = [*facts(2, log_stamp_year_known="false", series_clock="relative"), *facts(3, series_clock="unix")]
    assert settings([LOG, METRICS], raw) == [
        ("server.log", "log_stamp_year_known", "false", "server.log", True),
        ("metrics.prom", "series_clock", "unix", "metrics.prom", True),
        ("server.log", "series_clock", "relative", "server.log", True),
    ]


@pytest.mark.parametrize("model", ["stg_settings", "int_settings_ranked", "int_settings_scoped"])
def test_private_models_keep_their_headers(model: str) -> None:
    raw = [
        *facts(1, layers=8),
        *facts(2, scope="TP0", weight_bytes=7),
        *facts(2, scope="TP1", weight_bytes=8),
    ]
    con = build(model, {"sources": [MODEL, LOG], "raw_settings": raw})
    assert has_documented_columns(con, model)
    assert is_unique(con, model)
