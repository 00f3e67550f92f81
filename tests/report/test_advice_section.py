"""Every sentence of advice in the sample reports stands on the mart rows that it cites."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from builders_advice import facts_with
from builders_raw import build
from kvcliff.findings.advice_words import (
    CHANGES,
    STATES,
    advice_sentences,
    ceiling_sentences,
    read_advice,
    refusal_sentences,
    row_filter,
)
from kvcliff.findings.cited import CitedSentence
from kvcliff.report.focus import choose_focus
from kvcliff.store.catalog import run_table_names
from kvcliff.store.database import expose_run

TRACES = Path(__file__).parents[2] / "sample_traces"
STORIES = tuple(sorted(path.name for path in TRACES.iterdir() if path.is_dir()))
#: Names that hold digits and are no measured numbers.
NAMES = re.compile(r"\b(?:FP8|INT4)\b")
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


@pytest.fixture
def diagnosed(diagnosed_stories: Path) -> Path:
    return diagnosed_stories


@contextmanager
def exposed(folder: Path, story: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection on which the marts of one story are exposed."""
    with duckdb.connect(str(folder / "runs.duckdb"), read_only=True) as con:
        (run_id,) = con.execute("select run_id from runs where name = ?", [story]).fetchall()[0]
        expose_run(con, run_id, sorted(run_table_names(con)))
        yield con


def cited_sentences(con: duckdb.DuckDBPyConnection) -> tuple[CitedSentence, ...]:
    """Return every sentence of advice in the report of a run."""
    focus = choose_focus(con)
    assert focus is not None
    rows = read_advice(con, focus.level, focus.replica_id)
    ceilings = ceiling_sentences(con, focus.level, focus.replica_id) if rows else ()
    return (*advice_sentences(rows), *refusal_sentences(rows), *ceilings)


def assert_cited(con: duckdb.DuckDBPyConnection, sentence: CitedSentence) -> None:
    """Every number of the sentence is the value of a column in the one row that is cited for it."""
    for cited in sentence.citations:
        rows = con.execute(f"select {cited.column} from {cited.mart} where {cited.where}").fetchall()
        assert rows == [(cited.value,)], cited
        assert cited.text in sentence.text
    rest = NAMES.sub("", sentence.text)
    for cited in sorted(sentence.citations, key=lambda cited: -len(cited.text)):
        rest = rest.replace(cited.text, "")
    assert NUMBER.findall(rest) == [], sentence.text


@pytest.mark.parametrize("story", STORIES)
def test_every_number_of_advice_is_in_the_row_that_it_cites(diagnosed: Path, story: str) -> None:
    with exposed(diagnosed, story) as con:
        sentences = cited_sentences(con)
        assert sentences
        for sentence in sentences:
            assert_cited(con, sentence)


@pytest.mark.parametrize("story", STORIES)
def test_the_report_says_these_sentences_and_no_other_advice(diagnosed: Path, story: str) -> None:
    with exposed(diagnosed, story) as con:
        sentences = {sentence.text for sentence in cited_sentences(con)}
    report = json.loads((diagnosed / story / "report.json").read_text(encoding="utf-8"))
    (section,) = (section for section in report["sections"] if section["key"] == "actions")
    said = set(_texts(section["blocks"]))
    assert sentences <= said
    stray = {
        text for text in said - sentences
        if not re.match(r"Changes in the order|No change of|Other numbers of", text)
        and "(finding: " not in text
    }  # fmt: skip
    assert stray == set()


def _texts(blocks: Any) -> Iterator[str]:
    for block in blocks:
        if block["type"] == "table":
            continue
        yield from block.get("items", ())
        if "text" in block:
            yield block["text"]


@pytest.mark.parametrize("story", STORIES)
def test_only_what_the_evidence_supports_is_advised(diagnosed: Path, story: str) -> None:
    with exposed(diagnosed, story) as con:
        rows = con.execute("select advice, state from advice").fetchall()
        had_pressure = con.execute("select count(*) from swap_points").fetchall() != [(0,)]
    advised = {name for name, state in rows if state == "advised"}
    assert bool(advised & {"kv_fp8", "cap_sequences"}) == had_pressure


@pytest.mark.parametrize("story", STORIES)
def test_the_first_action_and_the_cap_name_the_same_number(diagnosed: Path, story: str) -> None:
    with exposed(diagnosed, story) as con:
        caps = con.execute("select cap from advice where advice = 'cap_sequences' and state = 'advised'")
        values = {int(cap) for (cap,) in caps.fetchall()}
        actions = con.execute("select action from findings where action is not null").fetchall()
    named = {
        int(match[1])
        for (action,) in actions
        if (match := re.search(r"at about (\d+) running requests", action))
    }
    assert not named or named <= values


def _advice(**columns: object) -> duckdb.DuckDBPyConnection:
    curve = [{"replica_id": "0", "tier": "hbm", "running_count": 10, "ts_ns": 0}]
    return build("advice", {}, {"int_advice_facts": [facts_with(**columns)], "kv_occupancy": curve})


def test_sentences_with_predicted_gains() -> None:
    con = _advice(used_ratio_peak=1.0, swap_count=1, sequences_held=5.0)
    sentences = advice_sentences(read_advice(con, None, "0"))
    by_name = {sentence.text.split(" (")[0]: sentence for sentence in sentences}
    assert by_name["FP8 KV cache"].text == (
        "FP8 KV cache (advised; KV reached its ceiling): 500 B of KV per token instead of 1,000 B; the pool "
        "would hold 16,000 tokens instead of 8,000, 40 requests of this run's mean length instead of 20; the "
        "peak that was seen would have fitted (50.0 % of that pool; what waited then comes on top); decode "
        "floor 7 ms instead of 8 ms; predicted ITL 14.8 ms instead of 16 ms and 651 tokens/s instead of 600, "
        "assuming that only the reading of the saved bytes goes away, at the achievable bandwidth."
    )
    assert (
        "it refuses nobody; more ran in 100.0 % of the samples" in by_name["A cap of running requests"].text
    )
    for sentence in sentences:
        assert_cited(con, sentence)


def test_the_tier_comes_last_with_its_three_estimates() -> None:
    con = _advice(
        reuse_ratio=0.6,
        hit_ratio=0.1,
        transfer_ms=40.0,
        recompute_ms=100.0,
        reuse_origin="request trace, an unlimited cache",
    )
    last = advice_sentences(read_advice(con, None, "0"))[-1]
    assert last.text.startswith(f"{CHANGES['kv_tier']} ({STATES['optional']}; ")
    assert "reusable: 60.0 % of the prompt tokens" in last.text
    assert "takes 40 ms, computing it again at least 100 ms" in last.text
    assert "60.0 % of the fetches must be over in time" in last.text
    assert "Effort: " in last.text
    assert_cited(con, last)


def test_a_tier_that_does_not_pay_is_refused_with_its_estimates() -> None:
    con = _advice(
        reuse_ratio=0.6, transfer_ms=40.0, recompute_ms=30.0, reuse_origin="request trace, all of it"
    )
    rows = read_advice(con, None, "0")
    (said,) = (sentence for sentence in refusal_sentences(rows) if "a tiered KV pool" in sentence.text)
    assert said.text == (
        "Not suitable: a tiered KV pool, because computing the prefix again is faster than fetching it "
        "(reusable: 60.0 % of the prompt tokens (request trace, all of it); fetching that part of a mean "
        "prompt takes 40 ms, computing it again at least 30 ms; 60.0 % of the fetches must be over in time, "
        "so that the mean wait stays within one decode step)."
    )
    assert_cited(con, said)


def test_a_run_without_kv_trouble_is_told_that_there_is_nothing_to_gain() -> None:
    con = _advice(kv_state="far", used_ratio_peak=0.2, kv_heads=8.0, kv_read_bytes=1e9)
    rows = read_advice(con, None, "0")
    assert advice_sentences(rows) == ()
    texts = [sentence.text for sentence in refusal_sentences(rows)]
    assert (
        "Nothing to gain from a cap of the request length (max_model_len), a cap of running requests "
        "(max_num_seqs), because KV did not reach its ceiling (it peaked at 20.0 %)." in texts
    )
    assert (
        "Not suitable: a tiered KV pool, because KV was far from its ceiling: nothing would be moved out "
        "(it peaked at 20.0 %)." in texts
    )
    for sentence in refusal_sentences(rows):
        assert_cited(con, sentence)


def test_the_number_of_sequences_at_the_ceiling() -> None:
    facts = facts_with(used_ratio_peak=0.8, used_ratio_mean=0.64)
    con = build("predictions", {}, {"int_advice_facts": [facts]})
    (sentence,) = ceiling_sentences(con, None, "0")
    # 12 of 10 sequences read 6 + 2.4 GB instead of 8: 16.8 ms and 600 x 1.2 / 1.05 tokens/s.
    assert sentence.text == (
        "With the lengths of this run KV reaches its ceiling at about 12 concurrent sequences, 1.2 times "
        "those that ran; there 686 tokens/s and an ITL of 16.8 ms are predicted."
    )
    assert_cited(con, sentence)


def test_a_ceiling_far_from_what_ran_is_not_told() -> None:
    con = build("predictions", {}, {"int_advice_facts": [facts_with(used_ratio_peak=0.4)]})
    assert ceiling_sentences(con, None, "0") == ()


def test_filters_quote_names_from_inputs() -> None:
    assert row_filter("a'b", None, advice="kv_fp8") == (
        "advice = 'kv_fp8' and level = 'a''b' and replica_id is null"
    )
