"""Blocks of frequent lines are read as columns; reading them line by line must say the same."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders_lines import CORPUS, needs_corpus
from builders_log import ListSink
from kvcliff.readers import log, log_bulk
from kvcliff.readers.base import ReadContext, Source

STATS = (
    "Engine 000: Avg prompt throughput: {n}.5 tokens/s, Avg generation throughput: 7.1 tokens/s, "
    "Running: {n} reqs, Waiting: 1 reqs, GPU KV cache usage: {n}.3%, Prefix cache hit rate: 33.3%"
)
ITERATION = (
    "Engine 002: Iteration({n}): 1 context requests, 12 context tokens, 3 generation requests, "
    "3 generation tokens, iteration elapsed time: 9.31 ms, GPU KV cache usage: 1.2%"
)
#: Behind ``INFO MM-DD HH:MM:SS``.
HEADED = (
    "[loggers.py:310] " + STATS,
    "[loggers.py:310] " + STATS + ", External prefix cache hit rate: 5.0%",
    "[loggers.py:310] " + STATS.replace("{n}.3%", "120.0%"),
    "[loggers.py:310] " + STATS.replace("000", "017"),
    "[loggers.py:310] " + STATS.replace("{n}.5", "nan"),
    "[loggers.py:310] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation",
    "[loggers.py:310] " + ITERATION,
    "[core.py:310] " + ITERATION.removeprefix("Engine 002: ").replace("ms,", "ms (dummy),"),
    "[core.py:310] " + ITERATION.removeprefix("Engine 002: "),
    "[logger.py:63] Received request cmpl-{n}: params: SamplingParams(n=1, max_tokens=256), lora_request: no",
    (
        "[logger.py:63] Received request a:{n}: prompt: 'SamplingParams( max_tokens=9,', params: "
        "SamplingParams(n=1, max_tokens={n}), prompt_token_ids: None."
    ),
    "logger.py:63] Received request old-{n}: params: SamplingParams(n=1, max_tokens=16)",
    "[logger.py:63] Received request none-{n}: params: SamplingParams(n=1, max_tokens=None)",
    "[logger.py:63] Received request b {n}: params: SamplingParams(n=1, max_tokens=4)",
    "[logger.py:63] Received request : params: SamplingParams(n=1, max_tokens=4)",
    "[async_llm.py:270] Added request cmpl-{n}.",
    "[async_llm.py:270] Added request cmpl-{n}",
    "[async_llm.py:270] Added request cmpl {n}.",
    "[async_llm.py:270] Added request .",
    "[async_llm.py:270] Added request \x07{n}.",
    "[async_llm.py:270] Added request " + "i" * 300 + ".",
    "[metrics.py:1] Prefix cache hit rate: GPU: 12.50%, CPU: 0.00%",
    "[a b.py:1] Added request odd-{n}.",
    "[launcher.py:1] Starting to serve",
    "",
)
#: The rest of an access line.
ASKED = (
    '10.0.0.1:80 - "GET /metrics HTTP/1.1" 200 OK',
    '10.0.0.2:81 - "POST /v1/completions HTTP/1.1" 200 OK',
    '10.0.0.2:81 - "POST /v1/completions?x={n} HTTP/1.1" 500 Internal Server Error',
    '10.0.0.2:81 - "POST /start_profile HTTP/1.1" 200 OK',
    '10.0.0.2:81 - "nothing"',
)
#: Lines of other kinds.
OTHERS = (
    "",
    "Traceback (most recent call last):",
    "torch.OutOfMemoryError: CUDA out of memory",
    "WARNING 11-30 17:29:07 [kv.py:1] Request r-{n}: cannot store 3 blocks",
    '2030-11-30T17:29:08.5Z INFO:     10.0.0.1:80 - "GET /metrics HTTP/1.1" 200 OK',
    "2030-11-30T17:29:08.5Z INFO 11-30 17:29:08 [async_llm.py:270] Added request late-{n}.",
    "[pod/b/vllm] INFO 11-30 17:29:08 [async_llm.py:270] Added request other-{n}.",
)
PROCESSES = ("(APIServer pid=41) ", "(EngineCore_DP1 pid=7) ", "", "(no process) ", "(A pid=1) (B pid=2) ")
STAMPS = (
    "11-30 17:29:{s:02d}",
    "11-30 17:30:{s:02d}",
    "12-31 23:59:{s:02d}",
    "01-01 00:00:{s:02d}",
    "02-30 00:00:00",
)


def rows(folder: Path, text: str) -> dict[str, list[dict[str, object]]]:
    path = folder / "server.log"
    path.write_bytes(text.encode())
    sink = ListSink()
    report = log.READER.load(Source(path, "server.log"), sink, ReadContext())
    found: dict[str, list[dict[str, object]]] = {name: sink.rows(name) for name in sorted(sink.frames)}
    found["report"] = [
        {"rows": report.row_count, "skipped": report.skipped_count, "why": report.first_skip_reason}
    ]
    return found


@pytest.fixture(name="always")
def _always(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Take blocks as columns whatever their size."""
    monkeypatch.setattr(log_bulk, "LEAST_BLOCK_LINES", 1)
    monkeypatch.setattr(log_bulk, "LEAST_RUN_LINES", 1)
    monkeypatch.setattr(log_bulk, "OTHERS_SHARE", 1)
    return monkeypatch


def both_ways(folder: Path, text: str, patch: pytest.MonkeyPatch, block_bytes: int) -> None:
    with patch.context() as inner:
        inner.setattr(log, "_BLOCK_BYTES", block_bytes)
        bulk = rows(folder, text)
        inner.setattr(log_bulk, "LEAST_BLOCK_LINES", 1 << 60)
        single = rows(folder, text)
    assert bulk == single


@st.composite
def logs(draw: st.DrawFn) -> str:
    """Runs of frequent lines with others between them."""
    lines = ["INFO 11-30 17:29:00 [loggers.py:310] " + STATS.format(n=1)]
    stamp, second = STAMPS[0], 0
    headed = draw(st.lists(st.sampled_from(HEADED), min_size=1, max_size=5))
    for number in range(draw(st.integers(1, 60))):
        process = draw(st.sampled_from(PROCESSES[: draw(st.sampled_from((1, 3, 5)))]))
        match draw(st.integers(0, 9)):
            case 0 | 1 | 2:
                lines.append(f"{process}INFO:     {draw(st.sampled_from(ASKED)).format(n=number)}")
            case 3:
                lines.append(draw(st.sampled_from(OTHERS)).format(n=number))
            case 4:
                second = draw(st.integers(0, 59))
                stamp = draw(st.sampled_from(STAMPS)) if draw(st.booleans()) else stamp
            case _:
                text = draw(st.sampled_from(headed)).format(n=number)
                lines.append(f"{process}INFO {stamp.format(s=second)} {text}")
    return "\n".join(lines) + "\n"


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(text=logs(), block_bytes=st.sampled_from((700, 1 << 20)))
def test_columns_say_what_lines_say(
    tmp_path_factory: pytest.TempPathFactory, text: str, block_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("LEAST_BLOCK_LINES", 1), ("LEAST_RUN_LINES", 1), ("OTHERS_SHARE", 1)):
            patch.setattr(log_bulk, name, value)
        both_ways(tmp_path_factory.mktemp("bulk"), text, patch, block_bytes)


@pytest.mark.fuzz
@settings(max_examples=2000, deadline=None)
@given(text=logs(), block_bytes=st.sampled_from((700, 1 << 20)))
def test_columns_of_many_logs_say_what_lines_say(
    tmp_path_factory: pytest.TempPathFactory, text: str, block_bytes: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("LEAST_BLOCK_LINES", 1), ("LEAST_RUN_LINES", 1), ("OTHERS_SHARE", 1)):
            patch.setattr(log_bulk, name, value)
        both_ways(tmp_path_factory.mktemp("bulk"), text, patch, block_bytes)


def test_every_frequent_line_and_its_neighbours(tmp_path: Path, always: pytest.MonkeyPatch) -> None:
    lines = ["INFO 11-30 17:29:00 [loggers.py:310] " + STATS.format(n=1)]
    for number in range(400):
        process = PROCESSES[number % 3]
        stamp = STAMPS[number // 200].format(s=number // 4 % 60)
        lines.append(f"{process}INFO {stamp} {HEADED[number % len(HEADED)].format(n=number)}")
        lines.append(f"{process}INFO:     {ASKED[number % 4].format(n=number)}")
    text = "\n".join(lines) + "\n"
    both_ways(tmp_path, text, always, 4000)
    found = rows(tmp_path, text)
    assert len(found["raw_log_events"]) > 90
    assert sum(row["access_count"] for row in found["raw_log_access"]) == 400  # type: ignore[misc]


def test_a_block_with_many_other_lines_is_read_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_bulk, "LEAST_BLOCK_LINES", 1)
    line = "INFO 11-30 17:29:00 [async_llm.py:270] Added request r-{n}."
    lines = [line.format(n=n) if n % 3 else "Loading" for n in range(3000)]
    both_ways(tmp_path, "\n".join(lines) + "\n", monkeypatch, 20_000)


@needs_corpus
@pytest.mark.parametrize("path", sorted(CORPUS.glob("vllm_*.log")), ids=lambda path: path.name)
def test_recordings_say_the_same(path: Path, tmp_path: Path, always: pytest.MonkeyPatch) -> None:
    text = path.read_bytes().decode("utf-8", "replace")
    both_ways(tmp_path, text * 3, always, 1500)
