"""Simulated vLLM runs with LMCache behind them: storing is normal work, loads under pressure are not."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from accuracy.engine_sim import Engine, History
from builders_engine_files import ORIGIN_S, closed_loop, request_lines, requests_of, vllm_log
from kvcliff.report.document import Table
from kvcliff.report.transfer_sections import tier_section
from test_engines import diagnosed, point

_BYTES_PER_TOKEN = 131_072


def offloading(clients: int) -> History:
    """Return a run of so many clients on an engine with a cache for about twenty."""
    return closed_loop(
        Engine(block_count=600, step_s=0.03, is_counter_late=False, watermark_ratio=0.02),
        clients=clients,
        prompt_tokens=128,
        output_tokens=260,
        end_s=80,
        until_s=55,
        ramp_s=20,
    )


def _line(second: float, message: str) -> str:
    """Return a line of LMCache, which colours its head even in files."""
    stamp = datetime.fromtimestamp(ORIGIN_S + int(second), UTC)
    head = f"[{stamp:%Y-%m-%d %H:%M:%S},{int(second * 1000) % 1000:03d}] LMCache INFO:"
    return f"\x1b[32;20m{head}\x1b[0m {message} \x1b[3m(cache_engine.py:311:lmcache.v1.cache_engine)\x1b[0m"


def _moved(verb: str, tokens: int, name: str) -> str:
    size = tokens * _BYTES_PER_TOKEN / 2**30
    of = (
        f"{tokens} out of total {tokens} tokens"
        if verb == "Stored"
        else (f"{tokens} out of {tokens} required tokens (from {tokens} total tokens)")
    )
    rate = f"cost 4.0000 ms, throughput: {size * 250:.4f} GB/s;"
    return f"[req_id={name}] {verb} {of}. size: {size:.4f} gb, {rate}"


def cache_lines(history: History) -> Iterator[str]:
    """Yield a store per prompt, and a lookup and a load for each request that comes back."""
    for request in requests_of(history):
        if request.token_ns:
            second = request.token_ns[0] / 1e9 - ORIGIN_S
            stored = _moved("Stored", request.prompt_tokens, request.name)
            yield _line(second, f"{stored} offload_time: 2.0 ms, put_time: 2.0 ms")
    for event in history.preemptions:
        name = f"r{event.request_no:05d}"
        found = "Inference Engine computed tokens: 0, LMCache hit tokens: 128, need to load: 128"
        yield _line(event.second + 1, f"Reqid: {name}, Total tokens 256, {found}")
        yield _line(event.second + 1.01, _moved("Retrieved", 128, name))


def test_write_through_with_room_in_the_cache_is_normal_work(tmp_path: Path) -> None:
    history = offloading(12)
    assert not history.preemptions
    con = diagnosed(
        tmp_path,
        {
            "server.log": vllm_log(history),
            "lmcache.log": list(cache_lines(history)),
            "requests.jsonl": request_lines(requests_of(history)),
        },
    )
    assert con.execute("select count(*) from swap_points").fetchall() == [(0,)]
    (stored,) = con.execute("select sum(bytes) from raw_tier_transfers").fetchall()[0]
    told = sum(128 * _BYTES_PER_TOKEN for request in requests_of(history) if request.token_ns)
    assert abs(stored / told - 1) < 0.01
    assert con.execute("select direction, bytes, missing_tokens from tier_transfers").fetchall() == [
        ("store", stored, 0)
    ]


def test_loads_under_pressure_belong_to_the_swap_point(tmp_path: Path) -> None:
    history = offloading(40)
    con = diagnosed(
        tmp_path,
        {
            "server.log": vllm_log(history),
            "lmcache.log": list(cache_lines(history)),
            "requests.jsonl": request_lines(requests_of(history)),
        },
    )
    assert point(con, "class, l_status") == ("confirmed", "worse")
    loads = len(history.preemptions)
    assert con.execute("select tier, tokens from tier_transfers where direction = 'load'").fetchall() == [
        ("lmcache", 128 * loads)
    ]
    section = tier_section(con)
    assert section is not None
    (moved, _) = section.blocks
    assert isinstance(moved, Table)
    prompts = sum(bool(request.token_ns) for request in requests_of(history))
    assert [row[:4] for row in moved.rows] == [
        ("lmcache", "tier to GPU", loads, 128 * loads),
        ("lmcache", "GPU to tier", prompts, 128 * prompts),
    ]
    assert con.execute("select count(*) from clocks where uncertainty_ns is null").fetchall() == [(0,)]
    (first_ns, error_ns) = point(con, "at_ns, error_ns")
    true_ns = (ORIGIN_S + history.preemptions[0].second) * 1e9
    offset = abs(int(str(first_ns)) - true_ns)
    assert offset % (3600 * 10**9) <= int(str(error_ns)) + 1e8
