"""Reusable prefixes by size of the cache, against a simulated cache."""

import random
from collections import OrderedDict
from collections.abc import Sequence

import pytest

from builders_metrics import CORPUS, NO_CORPUS
from builders_raw import Row, build, has_documented_columns, is_unique, source, table
from kvcliff.readers.request_traces import READER

SOURCE = source(1, "trace.jsonl", "arrivals")


def simulated(requests: Sequence[Sequence[int]], size: int) -> int:
    """Return the leading blocks that a least-recently-used cache of ``size`` blocks serves."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for blocks in requests:
        for block in blocks:
            if block not in cache:
                break
            hits += 1
        for block in reversed(blocks):
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > size:
            cache.popitem(last=False)
    return hits


def arrivals(requests: Sequence[Sequence[int]]) -> list[Row]:
    return [
        {
            "source_id": 1,
            "request_no": number,
            "arrival_src_ns": number,
            "input_tokens": 1,
            "output_tokens": 1,
            "block_tokens": 512,
            "block_ids": list(blocks),
        }
        for number, blocks in enumerate(requests)
    ]


def reuse(requests: Sequence[Sequence[int]]) -> dict[int, int]:
    con = build("request_trace_reuse", {"sources": [SOURCE], "raw_request_arrivals": arrivals(requests)})
    assert has_documented_columns(con, "request_trace_reuse")
    assert is_unique(con, "request_trace_reuse")
    return dict(table(con, "select cache_block_count, reusable_block_count from request_trace_reuse"))  # type: ignore[arg-type]


def prompts(seed: int, count: int) -> list[list[int]]:
    """Return prompts that grow out of a few roots, so that prefixes come back near and far."""
    draw = random.Random(seed)
    known: list[list[int]] = [[root] for root in range(5)]
    fresh = 5
    found = []
    for _ in range(count):
        parent = draw.choice(known)[: draw.randint(1, 8)]
        added = draw.randint(0, 4)
        found.append([*parent, *range(fresh, fresh + added)])
        fresh += added
        known.append(found[-1])
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_size_agrees_with_a_simulated_cache(seed: int) -> None:
    requests = prompts(seed, 400)
    found = reuse(requests)
    assert min(found) == 16
    assert len(found) >= 5
    assert found == {size: simulated(requests, size) for size in found}


def test_last_row_is_the_unlimited_cache() -> None:
    requests = prompts(4, 300)
    found = reuse(requests)
    assert found[max(found)] == simulated(requests, 10**9)
    assert max(found) >= len({block for blocks in requests for block in blocks})


def test_trace_without_reuse_has_no_hits() -> None:
    assert reuse([[1, 2], [3], [4, 5]]) == {16: 0}


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_published_trace_at_three_sizes() -> None:
    path = CORPUS / "request_traces" / "mooncake" / "synthetic_trace.jsonl"
    con = build("request_trace_reuse", {"sources": [SOURCE]}, None, {1: (READER, path)})
    found = dict(table(con, "select cache_block_count, reusable_block_count from request_trace_reuse"))
    blocks = [row[0] for row in table(con, "select block_ids from raw_request_arrivals order by request_no")]
    for size in (1024, 8192, 65536):
        assert found[size] == simulated(blocks, size)  # type: ignore[arg-type]
    (total,) = table(con, "select max(cache_tokens), max(block_count) from request_trace_reuse")
    assert total == (65536 * 512, 121877)
