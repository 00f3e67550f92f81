from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from builders_lines import (
    GIB,
    at,
    check_hostile,
    corpus_log,
    corpus_rows,
    hostile,
    lines_with_rows,
    needs_corpus,
    ns,
)
from builders_log import load_lines
from kvcliff.readers.lines.mooncake import MOONCAKE

HEAD = "I0124 09:01:10.009000 28222 rpc_service.cpp:265] "
OLD = (
    HEAD + "Master Metrics: Storage: 41.22 GB / 256.00 GB (16.1%) | Keys: 3 (soft-pinned: 0) | "
    "Requests (Success/Total): PutStart=1/1, | Eviction: Success/Attempts=1/2, keys=10, size=1.00 GB"
)
NEW = (
    HEAD + "Master Admin Metrics: role=leader, master={Mem Storage: 248.32 GB / 256.00 GB (97.0%) | "
    "SSD Storage: 0 B / infinite | Keys: 18004 (soft-pinned: 0) | Requests (Success/Total per sec): "
    "PutStart=0.00/12.50 | Eviction: Success/Attempts=0/3, AllocFail=2, keys=0, size=0 B | Discard: 0}, ha={}"
)


def test_refused_stores_are_events_of_their_interval_only(tmp_path: Path) -> None:
    since_start = NEW.replace(" per sec)", ")")
    evicted = NEW.replace("Attempts=0/3", "Attempts=1/3")
    loaded = load_lines(tmp_path, [NEW, since_start, evicted, OLD])
    assert [(e["line_no"], e["kind"], e["event_count"]) for e in loaded.events] == [
        (1, "offload_store_failed", 2)
    ]
    assert [s["is_cumulative"] for s in loaded.samples] == [False, True, False, True]


def test_the_other_head_and_a_missing_blank(tmp_path: Path) -> None:
    lines = [
        OLD.replace("] Master", "]Master"),
        "2030-01-24 09:01:10.009000 INFO [28222] [rpc_service.cpp:265] " + OLD.removeprefix(HEAD),
    ]
    loaded = load_lines(tmp_path, lines)
    assert len(loaded.samples) == 2
    assert loaded.samples[0]["capacity_bytes"] == 256 * GIB


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BatchPut failed for 12 keys, first error NO_AVAILABLE_HANDLE (-200)", "offload_store_failed"),
        ("BatchPut failed for 12 keys, first error LEASE_EXPIRED (-707)", "tier_error"),
        ("[EVICT] No memory freed this cycle", "offload_store_failed"),
        ("Failed to start put operation for key=a", "tier_error"),
    ],
)
def test_failed_stores(tmp_path: Path, text: str, kind: str) -> None:
    assert [event["kind"] for event in load_lines(tmp_path, [HEAD + text]).events] == [kind]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OLD[:90], "a master summary lacks storage or keys"),
        (OLD[20:], "a master summary has no complete head"),
    ],
)
def test_cut_lines_are_counted_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    report = load_lines(tmp_path, [text]).report
    assert (report.skipped_count, report.first_skip_reason) == (1, reason)


def _size(text: str) -> int:
    number, unit = text.split()
    return round(float(number) * {"B": 1, "GB": GIB}[unit])


def _check_sample(found: dict[str, Any], row: dict[str, Any]) -> None:
    assert (found["used_bytes"], found["capacity_bytes"]) == (_size(row["used"]), _size(row["capacity"]))
    assert found["used_ratio"] == pytest.approx(row["pct"] / 100)
    assert (found["key_count"], found["evictions"]) == (row["keys"], row["evict_ok"])
    assert (found["eviction_tries"], found.get("failed_allocations")) == (
        row["evict_tries"],
        row.get("alloc_fail"),
    )
    assert found["is_cumulative"] is (row["counters"] == "cumulative")
    if "evict_size" in row:
        assert (found["evicted_keys"], found["evicted_bytes"]) == (
            row["evict_keys"],
            _size(row["evict_size"]),
        )


@needs_corpus
def test_corpus() -> None:
    name = "mooncake_master_and_client.log"
    rows, loaded = corpus_rows(name), corpus_log(name)
    for row in rows:
        if row["kind"] == "master_metrics":
            found = at(loaded.samples, row["line"])
            _check_sample(found, row)
            is_full = row["line"] in {event["line_no"] for event in loaded.events}
            assert is_full is (row.get("expect") == "tier_full")
        elif row["kind"] == "te_stats":
            found = at(loaded.transfers, row["line"])
            assert (found["direction"], found["printed_bytes_per_s"]) == ("both", row["mb_s"] * 1e6)
        else:
            found = at(loaded.events, row["line"])
            full = row.get("reason") == "tier_full"
            assert found["kind"] == ("offload_store_failed" if full else "tier_error")
            assert found.get("event_count") == row.get("keys")
        assert found["src_ns"] == ns(row["time"])
    assert len(loaded.samples) == 14
    assert lines_with_rows(loaded) == {row["line"] for row in rows}


# ---------------------------------------------------------------------------------------------- hostile

LINES = (
    OLD,
    NEW,
    "E0124 09:02:20.009000 17930 client.cpp:503] Put operation failed with error: RPC_FAIL",
    "W0124 09:02:20.009000 17930 client.cpp:611] BatchPut failed for 12 keys, first error X (-200)",
    (
        "I0124 09:02:20.009000 17931 te.cpp:310] [Metrics] Transfer Engine Stats (over last 5s): "
        "Throughput: 7120.55 MB/s | Latency Distribution (count=210): 0-200us: 80.0%"
    ),
)


@settings(max_examples=200, deadline=None)
@given(hostile(LINES))
def test_hostile_variants(line: bytes) -> None:
    check_hostile(MOONCAKE, line)


@pytest.mark.fuzz
@settings(max_examples=5000, deadline=None)
@given(hostile(LINES))
def test_many_hostile_variants(line: bytes) -> None:
    check_hostile(MOONCAKE, line)
