from pathlib import Path

import pytest
from hypothesis import given, settings

from builders_lines import at, check_hostile, corpus_log, corpus_rows, hostile, needs_corpus, ns, states
from builders_log import load_lines
from kvcliff.readers.lines.lmdeploy import LMDEPLOY

HEAD = "2030-01-21 09:00:10,125 - lmdeploy - INFO - loggers.py:40 - "
STATS = (
    "Avg prompt throughput: 2475.3 tokens/s, Avg generation throughput: 133.8 tokens/s, "
    "Running: 6 reqs, Waiting: 1 reqs, GPU KV cache usage: 15.4%, "
)


def test_data_parallel_ranks_are_engines(tmp_path: Path) -> None:
    loaded = load_lines(tmp_path, [HEAD + STATS, HEAD + "DP: 3, " + STATS])
    assert [row["engine"] for row in loaded.stats] == ["0", "3"]
    assert {row["kv_semantics"] for row in loaded.stats} == {"used_blocks"}
    assert loaded.facts() == {("", "engine"): "lmdeploy"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEAD + STATS[:90], "a statistics line has another form than known"),
        (STATS, "a statistics line has no complete head"),
    ],
)
def test_cut_lines_are_counted_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    report = load_lines(tmp_path, [text]).report
    assert (report.skipped_count, report.first_skip_reason) == (1, reason)


@needs_corpus
def test_corpus() -> None:
    rows, loaded = corpus_rows("lmdeploy.log"), corpus_log("lmdeploy.log")
    for row in rows:
        found = at(loaded.stats, row["line"])
        assert found == {
            "line_no": row["line"],
            "src_ns": ns(row["time"]),
            "engine": str(row.get("dp", 0)),
            "engine_count": 1,
            "kv_semantics": "used_blocks",
            "prompt_tokens_per_s": row["prompt_tps"],
            "gen_tokens_per_s": row["gen_tps"],
            "running_count": row["running"],
            "waiting_count": row["waiting"],
            "kv_used_ratio": pytest.approx(row["kv_pct"] / 100),
        }
    assert len(loaded.stats) == len(rows) == 20
    states(loaded, {"engine": "lmdeploy"})


# ---------------------------------------------------------------------------------------------- hostile

LINES = (
    HEAD + STATS,
    HEAD + "DP: 0, " + STATS,
)


@settings(max_examples=200, deadline=None)
@given(hostile(LINES))
def test_hostile_variants(line: bytes) -> None:
    check_hostile(LMDEPLOY, line)


@pytest.mark.fuzz
@settings(max_examples=5000, deadline=None)
@given(hostile(LINES))
def test_many_hostile_variants(line: bytes) -> None:
    check_hostile(LMDEPLOY, line)
