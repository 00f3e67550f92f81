import json
from pathlib import Path

import pytest

from builders_clients import lines_of, picked
from builders_metrics import CORPUS, NO_CORPUS, TableSink, read, source_of
from kvcliff.readers.base import LoadReport, Source

MS = 1_000_000
S = 1_000_000_000
COLUMNS = ("request_no", "arrival_src_ns", "input_tokens", "output_tokens", "is_failed")
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109"
)
BURST = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "45.5,GPT-4,1087,0,1087,API log\n"
)


def load(folder: Path, text: str) -> tuple[TableSink, LoadReport]:
    source = source_of(folder, "trace.txt", text)
    assert picked(source).name == "request_trace"
    return read(picked(source), source)


def test_mooncake_lines_have_prefix_blocks(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]},
        {"timestamp": 27, "input_length": 700, "output_length": 0, "hash_ids": [0, 2]},
        {"timestamp": 30, "input_length": 1, "output_length": 1, "hash_ids": []},
    ]
    sink, report = load(tmp_path, lines_of(*rows))
    assert sink.rows("raw_request_arrivals", *COLUMNS) == [
        (0, 0, 600, 5, False),
        (1, 27 * MS, 700, 0, False),
        (2, 30 * MS, 1, 1, False),
    ]
    assert sink.rows("raw_request_arrivals", "block_tokens", "block_ids") == [
        (512, [0, 1]),
        (512, [0, 2]),
        (None, None),
    ]
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())


def test_azure_dates_have_seven_digits_and_no_last_line_end(tmp_path: Path) -> None:
    sink, report = load(tmp_path, AZURE)
    first, second = sink.rows("raw_request_arrivals", *COLUMNS)
    assert first == (0, 1_700_158_546_680_590_000, 374, 44, False)
    assert second[1] - first[1] == 4_314_579_000  # type: ignore[operator]
    assert report.damage is None


def test_burstgpt_marks_failed_requests(tmp_path: Path) -> None:
    sink, report = load(tmp_path, BURST)
    assert sink.rows("raw_request_arrivals", *COLUMNS, "model") == [
        (0, 5 * S, 472, 18, False, "ChatGPT"),
        (1, 45_500 * MS, 1087, 0, True, "GPT-4"),
    ]
    assert report.notes == ("1 requests failed (no output) and are left out of the lengths",)


@pytest.mark.parametrize(
    "header",
    [
        "arrived_at,num_prefill_tokens,num_decode_tokens",
        "request_id,arrival_timestamp,batch_size,prompt_size,token_size",
    ],
)
def test_traces_of_simulators(tmp_path: Path, header: str) -> None:
    row = "1.5,100,7" if header.startswith("arrived") else "0,1.5,1,100,7"
    sink, _ = load(tmp_path, f"{header}\n{row}\n")
    assert sink.rows("raw_request_arrivals", *COLUMNS) == [(0, 1500 * MS, 100, 7, False)]


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    sink, report = load(
        tmp_path, BURST + "6,GPT-4,-5,10,5,x\n7,GPT-4,5.5,10,5,x\nsoon,GPT-4,5,1,6,x\n8,GPT-4,5\n"
    )
    assert sink.frame("raw_request_arrivals").height == 2
    assert report.skipped_count == 4
    assert report.first_skip_reason == "row has no arrival time or no plain lengths"


def test_cut_traces_give_the_rows_before_the_cut(tmp_path: Path) -> None:
    line = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
    sink, report = load(tmp_path, lines_of(line, line)[:-30])
    assert (sink.frame("raw_request_arrivals").height, report.damage) == (1, "the file ends inside a line")
    sink, report = load(tmp_path, AZURE[:-9])
    assert sink.frame("raw_request_arrivals").height == 1
    assert report.damage == "the file ends inside a row"


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_rows_of_the_published_traces() -> None:
    root = CORPUS / "request_traces"
    for name, expected in json.loads((root / "expected.json").read_text()).items():
        source = Source(root / name, name)
        assert picked(source).name == "request_trace"
        sink, report = read(picked(source), source)
        assert (report.row_count, report.skipped_count, report.damage) == (expected["rows"], 0, None)
        frame = sink.frame("raw_request_arrivals")
        prompts = expected.get("input_length") or expected["ContextTokens"]
        outputs = expected.get("output_length") or expected["GeneratedTokens"]
        assert frame["input_tokens"].sum() == prompts["sum"]
        assert frame["output_tokens"].sum() == outputs["sum"]
        assert frame["arrival_src_ns"].is_sorted() is expected["sorted"]
