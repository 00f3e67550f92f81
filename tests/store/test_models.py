"""The SQL model graph: headers, dependencies and the order of building."""

import pytest

from kvcliff.store.models import ModelError, load_models, parse_header, tables_read

HEADER = """-- what:  Things.
-- grain: one row per thing
-- key:   thing_id
-- columns:
--   thing_id  BIGINT  the thing,
--                     in words
-- notes: first
--        second
select 1
"""


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("select * from raw_things", {"raw_things"}),
        ("select * from a\nasof inner join b\n    on a.x >= b.x", {"a", "b"}),
        ("with c as (\n\n    select * from a\n\n)\n\nselect * from c", {"a"}),
        ("with c as materialized (select * from a), d as (select * from c) select * from d", {"a"}),
        ("select * from a left join b on a.x is not distinct from steps.x", {"a", "b"}),
        ("select * from range(3) -- from nowhere", set()),
        ("select 'from b', 'it''s from c' from a", {"a"}),
        ("select * from (select * from a) as inner_rows", {"a"}),
    ],
)
def test_tables_that_a_select_reads(sql: str, tables: set[str]) -> None:
    assert tables_read(sql) == tables


def test_a_header_is_read_with_its_continued_lines() -> None:
    fields, columns = parse_header("things", HEADER)
    assert fields["notes"] == "first second"
    assert [(column.name, column.type, column.meaning) for column in columns] == [
        ("thing_id", "BIGINT", "the thing, in words")
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HEADER.replace("-- key:   thing_id\n", ""), "lacks key"),
        (HEADER.replace("-- what:  Things.", "-- Things."), "unreadable line"),
        ("select 1", "lacks what, grain, key"),
    ],
)
def test_a_malformed_header_is_named(text: str, problem: str) -> None:
    with pytest.raises(ModelError, match=f"model things .*{problem}"):
        parse_header("things", text)


def test_rows_with_several_readers_are_kept_unless_the_header_says_otherwise() -> None:
    models = {model.name: model for model in load_models()}
    assert [models["int_kv_samples"].is_table(count) for count in (1, 2)] == [False, True]
    assert models["token_gaps"].is_table(1)
    assert not models["int_token_arrivals"].is_table(5)
    assert models["int_token_order"].is_table(1)
