"""A comparison as Markdown, figure and data: complete, escaped, the same bytes twice."""

import json
from dataclasses import replace

from builders_compare import FakeRun, store
from kvcliff.nightly.comparison.compare import Comparison, compare_runs
from kvcliff.nightly.comparison.figure import comparison_figure
from kvcliff.nightly.comparison.report import (
    change_text,
    comparison_data,
    comparison_markdown,
    value_text,
    verdict_text,
    worth_showing,
)

BASE = FakeRun("base", settings={"engine_version": "1 | <b>@all</b>", "max_num_seqs": "64"})
RUN = FakeRun("run", 120, itl_ms=11.5, settings={"engine_version": "2", "max_num_seqs": "64"})


def compared(run: FakeRun = RUN) -> Comparison:
    return compare_runs(store(BASE, run), ["base"], "run")


def test_markdown_tells_verdict_cause_sides_settings_and_method() -> None:
    text = comparison_markdown(compared(), "compare.svg")
    assert text.startswith("# Worse: `run` against `base`\n")
    for part in (
        "![Changes with their intervals](compare.svg)",
        "- **Where:** not KV (peak 30 % on both sides, no preemption).",
        "- **Why:** engine\\_version" if "engine\\_version" in text else "- **Why:** engine_version",
        "| median time between tokens | 10 ms | 11.5 ms | +15.0 % (",
        "### Latency",
        "### KV cache and swap points",
        "| highest KV occupancy | 30.0 % | 30.0 % | +0.0 % | – |",
        "built-in 1.6 % between repeats; the baseline is one run",
    ):
        assert part in text, part


def test_text_from_files_stays_text() -> None:
    text = comparison_markdown(compared())
    assert "<b>" not in text.replace("`1 \\| <b>@all</b>`", "")
    assert "\\<b\\>" in text
    for line in text.splitlines():
        if line.startswith("| `engine_version`"):
            assert line.count("|") - line.count("\\|") == 5


def test_same_bytes_twice() -> None:
    one, other = compared(), compared()
    assert comparison_markdown(one) == comparison_markdown(other)
    assert comparison_figure(one.metrics) == comparison_figure(other.metrics)
    assert (comparison_figure(one.metrics) or b"").startswith(b"<?xml")


def test_figure_needs_a_change() -> None:
    assert comparison_figure(()) is None
    assert comparison_figure([replace(metric, is_gating=False) for metric in compared().metrics]) is None


def test_data_is_plain_json() -> None:
    data = json.loads(json.dumps(comparison_data(compared()), allow_nan=False))
    assert (data["verdict"], data["base_run_ids"], data["run_id"]) == ("worse", ["base"], "run")
    assert {"metric", "verdict", "interval_low", "leaning"} <= set(data["metrics"][0])


def test_short_table_leaves_out_what_is_shown_only() -> None:
    names = [metric.metric for metric in worth_showing(compared().metrics)]
    assert "itl_p50" in names
    assert "kv_peak" not in names
    assert "ttft_p99" not in names


def test_values_in_their_units() -> None:
    assert value_text(None, "ms") == "–"
    assert value_text(11.5, "ms") == "11.5 ms"
    assert value_text(0.25, "ratio") == "25.0 %"
    assert value_text(1114.0, "count") == "1,114"
    assert value_text(2048.0, "bytes") == "2 KiB"
    assert value_text(236.68, "tokens/s") == "236.7 tokens/s"
    metric = next(found for found in compared().metrics if found.metric == "itl_p50")
    assert change_text(replace(metric, interval_low=0.05, interval_high=0.26)) == "+15.0 % (+5 to +26 %)"
    assert change_text(replace(metric, change_ratio=None)) == "–"
    assert verdict_text(replace(metric, better="neither")) == "–"


def test_incomparable_runs_say_why() -> None:
    text = comparison_markdown(compared(replace(RUN, tokens=(512, 101))))
    assert text.startswith("# Inconclusive: `run` against `base`\n")
    assert "**not comparable: another load: 128 and 512 prompt tokens per request**" in text
    assert "## Verdicts" not in text
