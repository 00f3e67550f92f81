import json
from itertools import pairwise
from pathlib import Path

import pytest

from builders_metrics import CORPUS, GARBAGE, NO_CORPUS, bench_result, read, source_of
from kvcliff.readers.base import Source
from kvcliff.readers.client_vllm_bench import READER

START = 1_901_066_200_275


def summary(sink) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for load_no, name, value in sink.rows("raw_client_summary", "load_no", "name", "value"):
        found.setdefault(load_no, {})[name] = value
    return found


def test_totals_under_canonical_names(tmp_path: Path) -> None:
    source = source_of(tmp_path, "bench.json", json.dumps(bench_result()))
    assert READER.sniff(source).score == 90
    sink, report = read(READER, source)
    assert summary(sink) == {
        0: {
            "completed": 1.0,
            "duration_s": 2.5,
            "end_local_ns": 1_896_134_430_000_000_000.0,
            "failed": 1.0,
            "max_concurrency": 8.0,
            "mean_ttft_ms": 250.0,
            "output_tokens_per_s": 1.6,
            "p99_itl_ms": 495.0,
            "request_throughput_per_s": 0.4,
            "requests": 2.0,
            "total_input_tokens": 500.0,
            "total_output_tokens": 4.0,
            "total_tokens_per_s": 201.6,
        }
    }
    assert sink.settings() == {("", "model_name"): "acme/llm-8b", ("", "client_clock"): "monotonic"}
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())


def test_details_become_requests_and_token_times(tmp_path: Path) -> None:
    sink, _ = read(READER, source_of(tmp_path, "bench.json", json.dumps(bench_result())))
    columns = (
        "submit_src_ns",
        "first_token_src_ns",
        "done_src_ns",
        "ttft_ns",
        "prompt_tokens",
        "output_tokens",
    )
    assert sink.rows("raw_client_requests", *columns) == [
        (START, START + 250_000_000, START + 800_000_000, 250_000_000, 500, 4),
        (START + 500_000_000, None, None, None, 510, 0),
    ]
    assert sink.rows("raw_client_requests", "concurrency", "is_error", "error_kind", "is_warmup") == [
        (8, False, None, False),
        (8, True, "TimeoutError", False),
    ]
    assert sink.rows("raw_client_tokens", "request_no", "chunk_no", "src_ns", "gap_ns", "tokens") == [
        (0, 0, START + 250_000_000, None, 1),
        (0, 1, START + 270_000_000, None, 1),
        (0, 2, START + 770_000_000, None, 1),
        (0, 3, START + 800_000_000, None, 1),
    ]
    text = str([sink.frame(table).to_dicts() for table in sorted(sink.tables())])
    assert "private" not in text
    assert "secret" not in text


def test_without_start_times_only_gaps_are_known(tmp_path: Path) -> None:
    result = bench_result()
    del result["start_times"]
    sink, report = read(READER, source_of(tmp_path, "bench.json", json.dumps(result)))
    assert sink.rows("raw_client_requests", "submit_src_ns", "ttft_ns") == [(None, 250_000_000), (None, None)]
    assert sink.rows("raw_client_tokens", "src_ns", "gap_ns") == [
        (None, 250_000_000),
        (None, 20_000_000),
        (None, 500_000_000),
        (None, 30_000_000),
    ]
    assert sink.settings()["", "client_clock"] == "none"
    assert report.notes == ("2 requests have no start time: only gaps and lengths are known",)


def test_old_spellings_and_infinity(tmp_path: Path) -> None:
    result = bench_result(request_rate=float("inf"))
    result["request_goodput:"] = 0.25
    text = json.dumps(result)
    assert "Infinity" in text
    sink, report = read(READER, source_of(tmp_path, "bench.json", text))
    assert summary(sink)[0]["request_goodput_per_s"] == 0.25
    assert "request_rate" not in summary(sink)[0]
    assert report.damage is None
    sink, _ = read(READER, source_of(tmp_path, "b.json", json.dumps(bench_result(request_rate="1.5"))))
    assert summary(sink)[0]["request_rate"] == 1.5


def test_appended_results_are_loads_of_one_file(tmp_path: Path) -> None:
    text = (
        "\n".join(json.dumps(bench_result(max_concurrency=number), indent=1) for number in (1, 2, 4)) + "\n"
    )
    sink, report = read(READER, source_of(tmp_path, "bench.json", text))
    assert [summary(sink)[number]["max_concurrency"] for number in range(3)] == [1.0, 2.0, 4.0]
    assert sink.frame("raw_client_requests")["request_no"].to_list() == list(range(6))
    assert sink.frame("raw_client_requests")["concurrency"].to_list() == [1, 1, 2, 2, 4, 4]
    assert report.skipped_count == 0


def test_cut_file_gives_the_members_before_the_cut(tmp_path: Path) -> None:
    text = json.dumps(bench_result())
    sink, report = read(READER, source_of(tmp_path, "bench.json", text[: text.index('"start_times"') + 20]))
    assert report.damage == "a result object ends or breaks before its closing brace"
    assert summary(sink)[0]["duration_s"] == 2.5
    assert sink.frame("raw_client_requests")["submit_src_ns"].to_list() == [None, None]
    assert sink.frame("raw_client_tokens").height == 4


def test_text_after_the_last_result_is_counted(tmp_path: Path) -> None:
    _, report = read(READER, source_of(tmp_path, "bench.json", json.dumps(bench_result()) + "\nTraceback"))
    assert (report.skipped_count, report.first_skip_reason) == (1, "text after the last result object")


@pytest.mark.parametrize("number", ["1e999", "1e400", "-5", "NaN", "9" * 5000, "true", '"x"', "[[]]"])
def test_numbers_out_of_range_do_no_harm(tmp_path: Path, number: str) -> None:
    result = bench_result(start_times=[0, 0], ttfts=[0, 0], itls=[[0], []], output_lens=[0, 0], duration=0)
    text = json.dumps(result).replace("[0, 0]", f"[{number}, 1]").replace("[0]", f"[{number}]")
    source = source_of(tmp_path, "bench.json", text.replace('"duration": 0', f'"duration": {number}'))
    sink, _ = read(READER, source)
    assert "duration_s" not in summary(sink).get(0, {}) or number == "-5"


def test_arrays_of_the_wrong_kind_do_no_harm(tmp_path: Path) -> None:
    result = bench_result(
        itls=[5, [0.02, "x", None]], ttfts=[True, 0.5], errors="none", start_times=["a", 5], input_lens=None
    )
    sink, report = read(READER, source_of(tmp_path, "bench.json", json.dumps(result)))
    assert sink.rows("raw_client_requests", "submit_src_ns", "ttft_ns", "prompt_tokens") == [
        (None, None, None),
        (5_000_000_000, 500_000_000, None),
    ]
    assert report.damage is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        GARBAGE,
        b"[]",
        b'{"model_id": 1}',
        b'{"backend": "sglang", "request_rate": 1, "num_prompts": 3}',
        b"{" * 3000,
    ],
)
def test_foreign_files_are_refused_and_do_no_harm(tmp_path: Path, content: bytes) -> None:
    source = source_of(tmp_path, "x.json", content)
    assert READER.sniff(source).score == 0
    sink, _ = read(READER, source)
    assert "raw_client_requests" not in sink.tables()


def _gaps_ns(rows: list[tuple[int, int | None, int | None]]) -> list[int]:
    """Return the gaps between the chunks of each request, from times or as stated."""
    pairs = [(before, after) for before, after in pairwise(rows) if before[0] == after[0]]
    return [after[1] - before[1] if after[2] is None else after[2] for before, after in pairs]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
@pytest.mark.parametrize("version", ["0.16", "0.8.5"])
def test_generated_results_give_the_expected_numbers(version: str) -> None:
    folder = CORPUS / "load_clients" / "generated"
    expected = json.loads((folder / "expected.json").read_text())
    path = folder / f"vllm_bench_serve_{version}_detailed.json"
    sink, _ = read(READER, Source(path, path.name))
    requests = sink.frame("raw_client_requests")
    ok = requests.filter(~requests["is_error"])
    assert requests.height == expected["requests"]
    assert requests.filter(requests["is_error"])["request_no"].to_list() == [expected["failed_index"]]
    assert (ok["prompt_tokens"].sum(), ok["output_tokens"].sum()) == (
        expected["input_tokens_ok"],
        expected["output_tokens_ok"],
    )
    assert ok["ttft_ns"].median() / 1e6 == pytest.approx(expected["ttft_p50_ms"])
    tokens = sink.frame("raw_client_tokens")
    gaps = _gaps_ns(tokens.select("request_no", "src_ns", "gap_ns").rows())
    assert len(gaps) == expected["gap_count"]
    assert gaps.count(0) == expected["gap_zero"]
    assert max(gaps) / 1e6 == expected["longest_gap_ms"]
    assert (ok["submit_src_ns"].null_count() == 0) is expected["relative_start_known"][
        f"vllm_bench_{version}"
    ]
