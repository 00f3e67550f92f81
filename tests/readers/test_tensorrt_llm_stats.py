import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders_lines import CONTEXT, CORPUS, at, corpus_rows, needs_corpus, ns
from builders_log import ListSink, Loaded
from kvcliff.readers import pick_reader
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.tensorrt_llm_stats import NOTE_LOST, NOTE_REPEATED, READER


def record(number: int, paused: int = 0, generation: int = 40, **extra: Any) -> dict[str, Any]:
    return {
        "timestamp": f"01-18-2030 09:00:{number:02d}.250000",
        "iter": number,
        "iterLatencyMS": 21.5,
        "hostStepTimeMS": None,
        "prevDeviceStepTimeMS": 20.1,
        "numQueuedRequests": 3,
        "kvCacheStats": {"maxNumBlocks": 100, "freeNumBlocks": 25, "cacheHitRate": 0.125},
        "inflightBatchingStats": {
            "numScheduledRequests": generation,
            "numContextRequests": 0,
            "numGenRequests": generation,
            "numPausedRequests": paused,
            "numCtxTokens": 0,
            "avgNumDecodedTokensPerIter": 1.0,
        },
    } | extra


def load_text(folder: Path, text: str, context: ReadContext = CONTEXT) -> Loaded:
    path = folder / "stats.jsonl"
    path.write_text(text)
    sink = ListSink()
    return Loaded(READER.load(Source(path, path.name), sink, context), sink)


def load_polls(folder: Path, *polls: Any) -> Loaded:
    return load_text(folder, "".join(json.dumps(poll) + "\n" for poll in polls))


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("is_one_list", [True, False])
def test_every_form_of_file_is_the_same(tmp_path: Path, indent: int | None, is_one_list: bool) -> None:
    records = [record(1), record(2)]
    polls = [records] if is_one_list else [[records[0]], records[1]]
    text = "".join(json.dumps(poll, indent=indent) + "\n" for poll in polls)
    loaded = load_text(tmp_path, text)
    assert [row["iteration"] for row in loaded.iterations] == [1, 2]
    assert (loaded.report.skipped_count, loaded.report.damage) == (0, None)
    assert READER.sniff(Source(tmp_path / "stats.jsonl", "stats.jsonl")).score == 95


def test_occupancy_is_of_the_device_pool_alone(tmp_path: Path) -> None:
    window = {
        "primaryMaxNumBlocks": 10,
        "primaryFreeNumBlocks": 1,
        "secondaryMaxNumBlocks": 100,
        "secondaryUsedNumBlocks": 40,
        "iterOffloadBytes": 512,
        "iterOnboardBytes": 128,
    }
    loaded = load_polls(tmp_path, [record(1, kvCacheIterationStats={"0": window})])
    assert (loaded.stats[0]["kv_used_ratio"], loaded.stats[0]["host_kv_used_ratio"]) == (0.9, 0.4)
    moves = [(row["tier"], row["direction"], row["bytes"]) for row in loaded.transfers]
    assert moves == [("host", "store", 512), ("host", "load", 128)]


def test_a_pause_is_an_event_where_the_number_rises(tmp_path: Path) -> None:
    polls = [record(number, paused) for number, paused in enumerate((0, 2, 2, 1, 4), start=1)]
    loaded = load_polls(tmp_path, polls)
    assert [(e["line_no"], e["kind"], e["event_count"]) for e in loaded.events] == [
        (2, "pause", 2),
        (5, "pause", 3),
    ]
    assert [row["swapped_count"] for row in loaded.stats] == [0, 2, 2, 1, 4]
    assert all(row["is_action_logged"] for row in loaded.stats)


def test_step_time_is_the_best_that_is_there(tmp_path: Path) -> None:
    polls = [record(1), record(2, hostStepTimeMS=20.9), record(3, hostStepTimeMS=20.9, gpuForwardTimeMS=19.0)]
    assert [row["elapsed_ms"] for row in load_polls(tmp_path, polls).iterations] == [21.5, 20.9, 19.0]


def test_device_time_behind_an_idle_iteration_is_dropped(tmp_path: Path) -> None:
    rows = load_polls(tmp_path, [record(1, generation=0), record(2), record(3)]).iterations
    assert [row.get("previous_device_ms") for row in rows] == [20.1, None, 20.1]


def test_gaps_and_repetitions_are_said(tmp_path: Path) -> None:
    loaded = load_polls(tmp_path, [record(1), record(2)], [record(2), record(5)])
    assert [row["iteration"] for row in loaded.iterations] == [1, 2, 5]
    assert loaded.report.notes == (NOTE_LOST, NOTE_REPEATED)


def test_ranks_with_attention_of_their_own_are_engines(tmp_path: Path) -> None:
    loaded = load_polls(tmp_path, [record(1, attentionDpRank=0), record(1, attentionDpRank=1)])
    assert [row["engine"] for row in loaded.stats] == ["0", "1"]


def test_without_a_zone_times_are_local(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, json.dumps([record(1)]), ReadContext())
    assert loaded.stamp_facts()["log_stamp_zone_known"] == "false"
    assert loaded.iterations[0]["src_ns"] == ns("2030-01-18T09:00:01.25+00:00")


def test_a_cut_file_gives_the_polls_before(tmp_path: Path) -> None:
    text = json.dumps([record(1)]) + "\n" + json.dumps([record(2)])[:-60]
    loaded = load_text(tmp_path, text)
    assert len(loaded.iterations) == 1
    assert (loaded.report.skipped_count, loaded.report.damage) == (1, "the last poll is cut")


def test_garbage_is_counted_and_not_claimed(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, '[1, {"iter": -3}, "x"]\nnothing\n[[[\n')
    assert loaded.report.skipped_count == 5
    assert loaded.report.first_skip_reason == "a record is no iteration"
    assert READER.sniff(Source(tmp_path / "stats.jsonl", "x")).score == 0


_EDITS = st.lists(
    st.tuples(
        st.floats(0, 1), st.integers(0, 30), st.sampled_from(("-1", "nan", "1e999", '"', "[", "9" * 30, "\n"))
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=200, deadline=None)
@given(edits=_EDITS)
def test_hostile_variants(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[float, int, str]]
) -> None:
    text = "".join(json.dumps([record(number, number)]) + "\n" for number in range(1, 4))
    for where, length, piece in edits:
        place = int(where * len(text))
        text = text[:place] + piece + text[place + length :]
    loaded = load_text(tmp_path_factory.mktemp("stats"), text)
    report = loaded.report
    assert (report.skipped_count > 0) is (report.first_skip_reason is not None)
    for row in [*loaded.stats, *loaded.iterations]:
        assert 0 <= row.get("kv_used_ratio", 0) <= 1
        assert all(value >= 0 for value in row.values() if isinstance(value, int | float))


@needs_corpus
def test_corpus() -> None:
    name = "trtllm_iteration_stats.jsonl"
    source, sink = Source(CORPUS / name, name), ListSink()
    assert pick_reader(source)[0] is READER
    loaded = Loaded(READER.load(source, sink, CONTEXT), sink)
    rows = [entry for poll in corpus_rows(name) for entry in poll["records"]]
    previous = 0
    for number, row in enumerate(rows, start=1):
        step, sample = at(loaded.iterations, number), at(loaded.stats, number)
        assert (step["iteration"], step["src_ns"]) == (row["iter"], ns(row["time"]))
        assert (step["context_requests"], step["generation_requests"]) == (row["ctx_reqs"], row["gen_reqs"])
        assert step["kv_used_ratio"] == pytest.approx(row["kv_util"], abs=1e-6)
        assert (sample["waiting_count"], sample["swapped_count"]) == (row["queued"], row["paused"])
        assert step["is_warmup"] is row["warmup"]
        assert ("previous_device_ms" not in step) is row["drop_device_time"]
        moved = {r["direction"]: r["bytes"] for r in loaded.transfers if r["line_no"] == number}
        assert (moved.get("store"), moved.get("load")) == (row["offload_bytes"], row["onboard_bytes"])
        risen = [event["event_count"] for event in loaded.events if event["line_no"] == number]
        assert risen == ([row["paused"] - previous] if row["paused"] > previous else [])
        previous = row["paused"]
    assert len(loaded.iterations) == len(loaded.stats) == len(rows) == 24
    assert (loaded.report.skipped_count, loaded.report.notes) == (0, ())
