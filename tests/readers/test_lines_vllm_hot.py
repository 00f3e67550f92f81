"""Frequent lines of vLLM are read from the bytes; the rules, which read the rest, must say the same."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders_log import SHARED, ListSink
from kvcliff.readers import log_scan
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.log import READER

HEAD = "(APIServer pid=41) INFO 11-30 17:29:{second:02d} [loggers.py:310] "
TAIL = " tokens/s, Running: 3 reqs, Waiting: 1 reqs, GPU KV cache usage: "
MESSAGES = (
    "Engine 000: Avg prompt throughput: 10.5 tokens/s, Avg generation throughput: 7.1" + TAIL + "10.3%",
    "Engine 001: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 7"
    + TAIL
    + "100.0%, Prefix cache hit rate: 33.3%",
    "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 7.1"
    + TAIL
    + "1.3%, Prefix cache hit rate: 0.0%, External prefix cache hit rate: 5.0%",
    "Engine 000: Avg prompt throughput: nan tokens/s, Avg generation throughput: 7.1" + TAIL + "10.3%",
    "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 7.1" + TAIL + "120.0%",
    "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation",
    (
        "Engine 002: Iteration(7): 1 context requests, 12 context tokens, 3 generation requests, "
        "3 generation tokens, iteration elapsed time: 9.31 ms, GPU KV cache usage: 1.2%"
    ),
    (
        "Iteration(8): 0 context requests, 0 context tokens, 3 generation requests, 3 generation tokens, "
        "iteration elapsed time: 9.31 ms (dummy)"
    ),
    "Received request cmpl-1: params: SamplingParams(n=1, max_tokens=256, min_tokens=0), lora_request: None.",
    (
        "Received request cmpl-2: prompt: 'SamplingParams( max_tokens=9,', params: SamplingParams(n=1, "
        "max_tokens=8), prompt_token_ids: None."
    ),
    "Received request cmpl-3: params: SamplingParams(n=1, max_tokens=None), lora_request: None.",
    "Received request cmpl-é: params: SamplingParams(max_tokens=16), lora_request: None.",
    "Received requests today",
    "Added request cmpl-1.",
    "Added request cmpl 1.",
    "Added request cmpl-1",
    "INFO Added",
)


def rows(folder: Path, text: str) -> dict[str, list[dict[str, object]]]:
    path = folder / "server.log"
    path.write_bytes(text.encode())
    sink = ListSink()
    report = READER.load(Source(path, "server.log"), sink, ReadContext())
    found: dict[str, list[dict[str, object]]] = {name: sink.rows(name) for name in sorted(sink.frames)}
    found["report"] = [{"skipped": report.skipped_count, "why": report.first_skip_reason}]
    return found


def both_ways(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = rows(folder, text)
    with monkeypatch.context() as patch:
        patch.setattr(log_scan, "_HOT_READERS", {})
        slow = rows(folder, text)
    assert fast == slow


def log_of(messages: list[str]) -> str:
    return "".join(HEAD.format(second=number // 3 % 60) + text + "\n" for number, text in enumerate(messages))


def test_every_message_is_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both_ways(tmp_path, log_of([*MESSAGES, *MESSAGES]), monkeypatch)
    found = rows(tmp_path, log_of([*MESSAGES, *MESSAGES]))
    assert len(found["raw_log_events"]) == 2 * 6
    assert found["raw_log_events"][1]["tokens"] == 8


#: Ids and limits at the edge of what is read from the bytes.
EDGES = (
    "Received request : params: SamplingParams(max_tokens=4)",
    "Received request a:b: params: SamplingParams(max_tokens=4)",
    "Received request x y: params: SamplingParams(max_tokens=4)",
    "Received request x: max_tokens=4)",
    "Received request x: prompt: '" + "y max_tokens=7, " * 60 + "', params: SamplingParams(max_tokens=4)",
    "Received request x",
    "Received request \x07: params: SamplingParams(max_tokens=4)",
    f"Received request {'i' * 300}: params: SamplingParams(max_tokens=4)",
    "Added request .",
    "Added request a..",
    "Added request \x7f.",
    "Added request " + "i" * 300,
    "Added requests",
)


def test_edges_are_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for message in EDGES:
        both_ways(tmp_path, log_of([MESSAGES[0], message, message, MESSAGES[0]]), monkeypatch)


def test_processes_seconds_and_access_lines_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    for number in range(400):
        process = ("(APIServer pid=41) ", "(EngineCore_DP1 pid=7) ", "")[number * 7 % 3]
        stamp = f"INFO 11-30 {17 + number // 200}:{number // 3 % 60:02d}:{number % 62:02d} "
        message = MESSAGES[number * 5 % len(MESSAGES)]
        asked = ("GET /metrics", "POST /v1/completions")[number % 2]
        lines += [
            f"{process}{stamp}[loggers.py:310] {message}",
            f'{process}INFO:     10.0.0.1:80 - "{asked} HTTP/1.1" 200 OK',
            "" if number % 11 else "Traceback (most recent call last):",
        ]
    both_ways(tmp_path, "\n".join(lines) + "\n", monkeypatch)


@pytest.mark.fuzz
@settings(max_examples=2000, deadline=None)
@given(st.lists(st.sampled_from(MESSAGES), min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_hostile_messages_are_read_the_same(
    tmp_path_factory: pytest.TempPathFactory, messages, random
) -> None:  # type: ignore[no-untyped-def]
    lines = []
    for text in [MESSAGES[0], *messages]:
        place = random.randrange(len(text) + 1)
        what = random.choice(
            ["", "", "1", "%", ",", " ", "\x1b[0m", "é", "-", "9" * 25, text[place : place + 9]]
        )
        lines.append(text[:place] + what + text[place + random.choice([0, 0, 1, 5]) :])
    with pytest.MonkeyPatch.context() as monkeypatch:
        both_ways(tmp_path_factory.mktemp("log"), log_of(lines), monkeypatch)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared corpus is not beside the checkout")
def test_logs_of_the_corpus_are_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = sorted((SHARED / "corpus" / "serving_lines").glob("vllm*.log"))
    assert logs
    for path in logs:
        both_ways(
            tmp_path,
            path.read_text(encoding="utf-8", errors="surrogateescape")
            .encode("utf-8", "surrogateescape")
            .decode("utf-8", "replace"),
            monkeypatch,
        )
