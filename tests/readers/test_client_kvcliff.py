import gzip
import json
from pathlib import Path

import pytest

from builders_metrics import CORPUS, GARBAGE, NO_CORPUS, client_line, gzip_cut, read, source_of
from kvcliff.readers.base import Source
from kvcliff.readers.client_kvcliff import READER

S = 1_800_000_000_000_000_000


def test_one_request(tmp_path: Path) -> None:
    source = source_of(tmp_path, "requests.jsonl", client_line(0) + "\n")
    assert READER.sniff(source).score == 95
    sink, report = read(READER, source)
    assert sink.frame("raw_client_requests").to_dicts() == [
        {
            "request_no": 0,
            "request_id": "r00000",
            "tag": "steady",
            "submit_src_ns": S,
            "first_token_src_ns": S + 100_000_000,
            "done_src_ns": S + 141_000_000,
            "ttft_ns": 100_000_000,
            "prompt_tokens": 64,
            "output_tokens": 3,
            "max_tokens": 3,
            "cached_tokens": None,
            "concurrency": None,
            "is_error": False,
            "is_warmup": False,
            "error_kind": None,
        }
    ]
    assert sink.rows("raw_client_tokens", "request_no", "chunk_no", "src_ns", "tokens") == [
        (0, 0, S + 100_000_000, 1),
        (0, 1, S + 120_000_000, 1),
        (0, 2, S + 140_000_000, 1),
    ]
    assert sink.settings() == {("", "client_clock"): "unix"}
    assert (report.skipped_count, report.damage) == (0, None)


def test_counts_come_from_usage_else_from_the_stream(tmp_path: Path) -> None:
    details = {"prompt_tokens": 70, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 48}}
    lines = [
        client_line(0, usage=details),
        client_line(1, usage=None),
        client_line(2, usage=None, chunk_tokens=[1, 4, 2]),  # one time per chunk
        client_line(3, usage=None, token_ns=[], finish_reason=None),
    ]
    sink, _ = read(READER, source_of(tmp_path, "r.jsonl", "\n".join(lines)))
    assert sink.rows("raw_client_requests", "prompt_tokens", "output_tokens", "cached_tokens") == [
        (70, 9, 48),
        (64, 3, None),
        (64, 7, None),
        (64, 0, None),
    ]
    tokens = sink.frame("raw_client_tokens")
    assert tokens.filter(tokens["request_no"] == 2)["tokens"].to_list() == [1, 4, 2]
    assert set(tokens["request_no"]) == {0, 1, 2}


def test_tokens_of_one_chunk_repeat_its_time(tmp_path: Path) -> None:
    times = [S + 1, S + 2, S + 2, S + 5]
    lines = [
        client_line(0, token_ns=times, chunk_tokens=[1, 2, 1], usage=None),
        client_line(0, token_ns=times, chunk_tokens=[1, 9], usage=None),
        client_line(0, token_ns=times, chunk_tokens=[4, 0], usage=None),
    ]
    sink, _ = read(READER, source_of(tmp_path, "r.jsonl", "\n".join(lines)))
    assert sink.rows("raw_client_tokens", "request_no", "chunk_no", "src_ns", "tokens") == [
        (0, 0, S + 1, 1),
        (0, 1, S + 2, 2),
        (0, 2, S + 5, 1),
        *((1, number, time, 1) for number, time in enumerate(times)),
        (2, 0, S + 1, 4),
    ]


def test_failures_keep_their_class_but_not_their_words(tmp_path: Path) -> None:
    lines = [
        client_line(0, error="TimeoutError('http://host/secret?key=1')"),
        client_line(1, error="aiohttp.ClientOSError: secret"),
        client_line(2, error="something secret went wrong"),
        client_line(3, status=503),
        client_line(4, done_ns=None),
        client_line(5, tag="warmup", status=None),
    ]
    sink, _ = read(READER, source_of(tmp_path, "r.jsonl", "\n".join(lines)))
    assert sink.rows("raw_client_requests", "is_error", "error_kind", "is_warmup") == [
        (True, "TimeoutError", False),
        (True, "aiohttp.ClientOSError", False),
        (True, "error", False),
        (True, "http_503", False),
        (True, "incomplete", False),
        (False, None, True),
    ]
    assert "secret" not in str(sink.frame("raw_client_requests").to_dicts())


def test_damaged_lines_stand_alone(tmp_path: Path) -> None:
    lines = [client_line(number) for number in range(100)]
    lines[10] = lines[10][:-5]
    lines[50] = "not json"
    lines[70] = json.dumps({"id": "r", "token_ns": []})
    lines[71] = client_line(71, submit_ns="soon")
    sink, report = read(READER, source_of(tmp_path, "r.jsonl", "\n".join(lines) + "\n"))
    assert report.skipped_count == 4
    assert report.first_skip_reason == "line is no JSON object with the documented fields"
    assert report.damage is None
    kept = [row[0] for row in sink.rows("raw_client_requests", "request_id")]
    assert kept == [f"r{number:05d}" for number in range(100) if number not in {10, 50, 70, 71}]
    assert sink.frame("raw_client_requests")["request_no"].to_list() == list(range(96))


def test_cut_files(tmp_path: Path) -> None:
    text = "\n".join(client_line(number) for number in range(10))
    sink, report = read(READER, source_of(tmp_path, "r.jsonl", text[:-20]))
    assert sink.frame("raw_client_requests").height == 9
    assert report.damage == "the file ends inside a line"
    whole, _ = read(READER, source_of(tmp_path, "w.jsonl.gz", gzip.compress(text.encode(), mtime=0)))
    assert whole.frame("raw_client_requests").height == 10
    _, report = read(READER, source_of(tmp_path, "c.jsonl.gz", gzip_cut(text.encode(), 0.6)))
    assert report.damage is not None


@pytest.mark.parametrize(
    "content", [b"", GARBAGE, b'{"id": 1}\n', b'{"metric": {}, "values": []}', b"submit_ns token_ns"]
)
def test_foreign_files_are_refused_and_do_no_harm(tmp_path: Path, content: bytes) -> None:
    source = source_of(tmp_path, "x.jsonl", content)
    assert READER.sniff(source).score == 0
    _, report = read(READER, source)
    assert report.row_count == 0


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
@pytest.mark.parametrize("run", ["prefix_on", "sweep", "kineto"])
def test_recordings_agree_with_a_plain_reading(run: str) -> None:
    path = next((CORPUS / "serving_runs" / "vllm_cpu" / run).glob("requests.jsonl*"))
    raw = path.read_bytes()
    lines = (gzip.decompress(raw) if path.suffix == ".gz" else raw).splitlines()
    requests = [json.loads(line) for line in lines]
    sink, report = read(READER, Source(path, path.name))
    assert (report.skipped_count, report.damage) == (0, None)
    found = sink.rows(
        "raw_client_requests", "request_id", "submit_src_ns", "output_tokens", "is_warmup", "is_error"
    )
    assert found == [
        (each["id"], each["submit_ns"], each["usage"]["completion_tokens"], each["tag"] == "warmup", False)
        for each in requests
    ]
    chunks = []
    for number, each in enumerate(requests):
        place = 0
        for count in each["chunk_tokens"] or [1] * len(each["token_ns"]):
            chunks.append((number, each["token_ns"][place], count))
            place += count
    assert sink.rows("raw_client_tokens", "request_no", "src_ns", "tokens") == chunks
