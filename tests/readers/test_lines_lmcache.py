from collections import Counter
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
from builders_log import Loaded, load_lines
from kvcliff.readers.lines.lmcache import LMCACHE
from kvcliff.readers.log_clock import NOMINAL_YEAR

HEAD = "[2030-01-22 09:00:00,170] LMCache INFO: "
LOOKUP = (
    HEAD + "Reqid: cmpl-7, Total tokens 1519, LMCache hit tokens: 512, need to load: 511 (a.py:1:lmcache)"
)
STORED = (
    HEAD + "[req_id=cmpl-0] Stored 256 out of total 9256 tokens. size: 0.5000 GB, cost 1.2000 ms, "
    "throughput: 29.5000 GB/s (a.py:1:lmcache)"
)
RETRIEVED = (
    HEAD + "[req_id=cmpl-0] Retrieved 8192 out of 8704 required tokens (from 9000 total tokens). "
    "size: 1.0000 gb, cost 45.0000 ms, throughput: 25.0000 GB/s; (a.py:1:lmcache)"
)


def test_store_and_load_are_told_apart(tmp_path: Path) -> None:
    store, load = load_lines(tmp_path, [STORED, RETRIEVED]).transfers
    assert (store["direction"], store["tokens"], store["bytes"]) == ("store", 256, GIB // 2)
    assert (store["duration_ms"], store["printed_bytes_per_s"]) == (1.2, 29.5 * GIB)
    assert (load["direction"], load["tokens"], load["asked_tokens"], load["total_tokens"]) == (
        "load",
        8192,
        8704,
        9000,
    )


def test_worker_and_colours_in_front(tmp_path: Path) -> None:
    line = "\x1b[0;36m(VllmWorker TP3 pid=1001)\x1b[0;0m \x1b[32;20m" + STORED.replace(
        "INFO:", "INFO:\x1b[0m"
    )
    row = load_lines(tmp_path, [line]).transfers[0]
    assert (row["scope"], row["engine"]) == ("tp3", "0")


def test_a_full_hit_loads_nothing(tmp_path: Path) -> None:
    row = load_lines(tmp_path, [LOOKUP.replace("need to load: 511", "need to load: -1")]).lookups[0]
    assert (row["hit_tokens"], row["load_tokens"]) == (512, 0)


VLLM = (
    "INFO 01-22 09:00:01 [loggers.py:1] Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: "
    "2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%"
)


@pytest.mark.parametrize(("lines", "year"), [((LOOKUP, VLLM), 2030), ((VLLM, LOOKUP), NOMINAL_YEAR)])
def test_one_clock_with_the_lines_of_vllm_that_have_no_year(
    tmp_path: Path, lines: tuple[str, ...], year: int
) -> None:
    loaded = load_lines(tmp_path, lines)
    assert loaded.stats[0]["src_ns"] == ns(f"{year}-01-22T09:00:01+00:00")
    assert loaded.lookups[0]["src_ns"] == ns(f"{year}-01-22T09:00:00.17+00:00")
    assert loaded.stamp_facts()["log_stamp_year_known"] == str(year == 2030).lower()
    assert ("", "engine") not in loaded.facts()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LOOKUP[:70], "a lookup line has another form than known"),
        (STORED[:60], "a transfer line has another form than known"),
        (LOOKUP[30:], "a lookup line has no complete head"),
    ],
)
def test_cut_lines_are_counted_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    report = load_lines(tmp_path, [text]).report
    assert (report.skipped_count, report.first_skip_reason) == (1, reason)


def _check_lookup(found: dict[str, Any], row: dict[str, Any]) -> None:
    names = {
        "request_id": "request_id",
        "total": "lookup_tokens",
        "engine_computed": "engine_tokens",
        "hit": "hit_tokens",
        "load": "load_tokens",
    }
    for theirs, ours in names.items():
        assert found.get(ours) == row.get(theirs)
    assert found["is_load_skipped"] is row.get("skipped", False)


def _check_transfer(found: dict[str, Any], row: dict[str, Any]) -> None:
    assert found["direction"] == ("store" if row["kind"].endswith("store") else "load")
    assert (found["tokens"], found.get("request_id")) == (row["tokens"], row.get("request_id"))
    assert found.get("total_tokens") == row.get("total")
    if row["kind"] == "retrieve":
        assert found["asked_tokens"] == row["required"]
    ms = row["seconds"] * 1e3 if "seconds" in row else row.get("cost_ms")
    assert found.get("duration_ms") == ms
    if "size_gb" in row:
        assert found["bytes"] == round(row["size_gb"] * GIB)
        assert found["printed_bytes_per_s"] == row["gb_s"] * GIB


def _check_trouble(loaded: Loaded, row: dict[str, Any]) -> None:
    kind = "offload_store_failed" if row["reason"] == "tier_full" else "tier_error"
    assert at(loaded.events, row["line"])["kind"] == kind


@needs_corpus
@pytest.mark.parametrize("name", ["lmcache_0.3.log", "lmcache_0.4_0.5.log"])
def test_corpus(name: str) -> None:
    rows, loaded = corpus_rows(name), corpus_log(name)
    for row in rows:
        if row["kind"] == "tier_trouble":
            _check_trouble(loaded, row)
            continue
        is_lookup = row["kind"] == "lookup"
        found = at(loaded.lookups if is_lookup else loaded.transfers, row["line"])
        assert (found["src_ns"], found["tier"]) == (ns(row["time"]), "lmcache")
        (_check_lookup if is_lookup else _check_transfer)(found, row)
    kinds = Counter(row["kind"] for row in rows)
    assert len(loaded.lookups) == kinds["lookup"]
    assert len(loaded.transfers) == sum(
        kinds[kind] for kind in ("store", "retrieve", "mp_store", "mp_retrieve")
    )
    assert lines_with_rows(loaded) == {row["line"] for row in rows}


# ---------------------------------------------------------------------------------------------- hostile

LINES = (
    LOOKUP,
    STORED,
    RETRIEVED,
    HEAD + "Stored 4096 tokens in 0.125 seconds (a.py:1:lmcache)",
    "[2030-01-22 09:00:08,402] LMCache WARN : Failed to allocate memory for the KV cache. (a.py:1:lmcache)",
)


@settings(max_examples=200, deadline=None)
@given(hostile(LINES))
def test_hostile_variants(line: bytes) -> None:
    check_hostile(LMCACHE, line)


@pytest.mark.fuzz
@settings(max_examples=5000, deadline=None)
@given(hostile(LINES))
def test_many_hostile_variants(line: bytes) -> None:
    check_hostile(LMCACHE, line)
