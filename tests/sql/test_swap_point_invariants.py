"""Swap points do not depend on what means nothing: time zero, names, order of rows, an engine that idles."""

import random
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from builders_raw import Row, Rows, source, table
from builders_serving import (
    CLIENT,
    LOG,
    METRICS,
    NO_TRANSFERS,
    Scrape,
    limit_row,
    merge,
    model,
    ns,
    scrape_rows,
    story_scrapes,
    story_streams,
)
from kvcliff.store.models import load_models

#: Marts that are compared, with the columns that hold times and those that name a request.
MARTS = {
    "swap_points": {
        "pressure_at_ns",
        "at_ns",
        "resume_at_ns",
        "counter_at_ns",
        "recovered_at_ns",
        "end_ns",
        "ramp_ceiling_ns",
    },
    "victims": {"start_ns", "end_ns"},
}
NAMES = {"request_id"}
#: Compared columns of the victims, in order.
COLUMNS = {
    "victims": [
        column.name
        for model in load_models()
        if model.name == "victims"
        for column in model.columns
        if column.name not in NAMES
    ]
}
Result = dict[str, list[tuple[object, ...]]]

few = settings(max_examples=6, deadline=None, derandomize=True)
stories = st.lists(
    st.tuples(st.integers(42, 58), st.integers(3, 7)),
    min_size=1,
    max_size=4,
    unique_by=lambda stall: stall[0],
).map(lambda stalls: [(start + 0.4, start + 0.4 + length) for start, length in sorted(stalls)])


def story(stalls: list[tuple[float, float]], has_counter: bool) -> dict[str, list[Row]]:
    return merge(
        scrape_rows(story_scrapes(has_counter=has_counter, stalls=stalls)),
        story_streams(stalls),
        {"raw_settings": [limit_row()], "sources": [METRICS, LOG, CLIENT]},
    )


def outcome(raw: Mapping[str, Rows], shift_ns: int = 0) -> Result:
    """Return the compared marts, with times moved back by ``shift_ns`` and without names of requests."""
    con = model("victims", raw, NO_TRANSFERS)
    found = {}
    for mart, times in MARTS.items():
        columns = [str(row[0]) for row in table(con, f"describe {mart}") if row[0] not in NAMES]
        shown = ", ".join(f"{name} - {shift_ns}" if name in times else f'"{name}"' for name in columns)
        found[mart] = table(con, f"select {shown} from {mart} order by all")
    assert found["swap_points"]
    return found


def shifted(raw: Mapping[str, Rows], shift_ns: int) -> dict[str, Rows]:
    clocks = [
        {"source_id": row["source_id"], "offset_ns": shift_ns, "method": "stated"} for row in raw["sources"]
    ]
    return {**raw, "clocks": clocks}


@few
@given(stalls=stories, has_counter=st.booleans(), shift_s=st.integers(0, 2_000_000_000))
def test_moving_all_clocks_moves_all_times(
    stalls: list[tuple[float, float]], has_counter: bool, shift_s: int
) -> None:
    raw = story(stalls, has_counter)
    assert outcome(shifted(raw, ns(shift_s)), ns(shift_s)) == outcome(shifted(raw, 0))


@few
@given(stalls=stories, name=st.text(min_size=1, max_size=8))
def test_names_of_requests_mean_nothing(stalls: list[tuple[float, float]], name: str) -> None:
    raw = story(stalls, has_counter=True)
    renamed = [{**row, "request_id": f"{name}{row['request_no']}"} for row in raw["raw_client_requests"]]
    assert outcome({**raw, "raw_client_requests": renamed}) == outcome(raw)


@few
@given(stalls=stories, has_counter=st.booleans(), seed=st.integers(0, 1 << 30))
def test_order_of_rows_means_nothing(stalls: list[tuple[float, float]], has_counter: bool, seed: int) -> None:
    raw = story(stalls, has_counter)
    order = random.Random(seed)
    mixed = {name: order.sample(rows, len(rows)) for name, rows in raw.items()}
    assert outcome(mixed) == outcome(raw)


@few
@given(stalls=stories, has_counter=st.booleans(), is_own_file=st.booleans())
def test_replica_that_idles_changes_nothing(
    stalls: list[tuple[float, float]], has_counter: bool, is_own_file: bool
) -> None:
    raw = story(stalls, has_counter)
    idle = [
        Scrape(second, kv=0.0, running=0.0, waiting=0.0, preemptions=0.0 if has_counter else None)
        for second in range(101)
    ]
    other = scrape_rows(idle, engine="1", source_id=4 if is_own_file else 1)
    sources = [source(4, "other.prom", "metrics")] if is_own_file else []
    assert outcome(merge(raw, other, {"sources": sources})) == outcome(raw)


@few
@given(stalls=stories, has_counter=st.booleans(), cut=st.integers(10, 95))
def test_files_may_be_split(stalls: list[tuple[float, float]], has_counter: bool, cut: int) -> None:
    raw = story(stalls, has_counter)
    halves = {
        name: [{**row, "source_id": 5} if _is_late(name, row, cut) else row for row in rows]
        for name, rows in raw.items()
    }
    more = [{**row, "source_id": 5} for row in raw["raw_metric_series"]]
    halves["raw_metric_series"] = [*raw["raw_metric_series"], *more]
    halves["sources"] = [*raw["sources"], source(5, "metrics-2.prom", "metrics")]
    assert outcome(halves) == outcome(raw)


@few
@given(stalls=stories, cut=st.integers(1, 5))
def test_clients_may_write_several_files(stalls: list[tuple[float, float]], cut: int) -> None:
    raw = story(stalls, has_counter=True)
    halves = {
        name: [
            {**row, "source_id": 6}
            if name in ("raw_client_requests", "raw_client_tokens") and row["request_no"] >= cut
            else row
            for row in rows
        ]
        for name, rows in raw.items()
    }
    halves["sources"] = [*raw["sources"], source(6, "requests-2.jsonl", "client")]
    assert _without(outcome(halves), "source_id") == _without(outcome(raw), "source_id")


def _is_late(name: str, row: Row, cut: int) -> bool:
    return name in ("raw_metric_scrapes", "raw_metric_samples") and int(str(row["scrape_no"])) >= cut


def _without(result: Result, column: str) -> Result:
    """Return the marts without a column that names the file; the victims keep their order."""
    index = COLUMNS["victims"].index(column)
    victims = sorted(((*row[:index], *row[index + 1 :]) for row in result["victims"]), key=str)
    return {**result, "victims": victims}
