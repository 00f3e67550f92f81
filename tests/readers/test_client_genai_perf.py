import json
from pathlib import Path

import pytest

from builders_clients import (
    CLIENTS,
    GAP_FACTS,
    MS,
    START_NS,
    S,
    corpus_file,
    genai_perf,
    load,
    load_source,
    needs_corpus,
    picked,
    query,
    totals,
)
from builders_metrics import read, source_of


def test_chunks_with_text_count_and_end_marks_do_not(tmp_path: Path) -> None:
    sink, report = load(tmp_path, "p.json", genai_perf())
    columns = (
        "submit_src_ns",
        "ttft_ns",
        "prompt_tokens",
        "output_tokens",
        "tag",
        "concurrency",
        "error_kind",
    )
    assert sink.rows("raw_client_requests", *columns) == [
        (START_NS, 250 * MS, 70, 4, "concurrency@3", 3, None),
        (START_NS + S, None, None, 0, "concurrency@3", 3, "no_response"),
    ]
    assert sink.rows("raw_client_tokens", "request_no", "src_ns") == [
        (0, START_NS + at * MS) for at in (250, 270, 770)
    ]
    assert totals(sink) == {"duration_s": 2.0, "max_concurrency": 3.0}
    assert sink.settings() == {("", "client_clock"): "unix"}
    assert (report.skipped_count, report.damage) == (0, None)


def test_answers_without_events_are_chunks(tmp_path: Path) -> None:
    export = genai_perf()
    request = export["experiments"][0]["requests"][0]  # type: ignore[index]
    request["response_outputs"] = [{"response": text} for text in ("plain text", "", "more")]
    request["response_timestamps"] = request["response_timestamps"][:3]
    sink, _ = load(tmp_path, "p.json", export)
    assert sink.rows("raw_client_tokens", "src_ns") == [(START_NS + at * MS,) for at in (250, 770)]


def test_description_may_stand_at_the_end_of_the_file(tmp_path: Path) -> None:
    export = genai_perf()
    turned = {"experiments": export["experiments"], "version": "1.5", "service_kind": "openai"}
    source = source_of(tmp_path, "p.json", json.dumps(turned))
    assert picked(source).name == "genai_perf"


def test_cut_export_gives_the_requests_before_the_cut(tmp_path: Path) -> None:
    text = json.dumps(genai_perf())
    source = source_of(tmp_path, "p.json", text[: text.rindex('"timestamp"')])
    sink, report = read(picked(source), source)
    assert sink.frame("raw_client_requests").height == 1
    assert report.damage == "the text ends or breaks inside a value"


@needs_corpus
def test_every_expected_number_of_the_generated_run() -> None:
    expected = json.loads((CLIENTS / "generated" / "expected.json").read_text())
    sink, _ = load_source(corpus_file("generated", "genai_perf_profile_export.json"))
    row = query(
        sink,
        """
        select count(*), count(*) filter (where not is_error), min(request_no) filter (where is_error),
            sum(output_tokens) filter (where not is_error),
            quantile_cont(ttft_ns, [0.5, 0.99]) filter (where not is_error)
        from raw_client_requests
        """,
    )
    assert row[:4] == (
        expected["requests"],
        expected["ok"],
        expected["failed_index"],
        expected["output_tokens_ok"],
    )
    assert [value / MS for value in row[4]] == pytest.approx(
        [expected["ttft_p50_ms"], expected["ttft_p99_ms"]]
    )  # type: ignore[attr-defined]
    gaps = query(
        sink,
        GAP_FACTS,
    )
    names = ("gap_count", "gap_p50_ms", "gap_zero", "longest_gap_ms")
    assert gaps == pytest.approx(tuple(expected[name] for name in names))
    assert totals(sink)["duration_s"] == pytest.approx(expected["duration_s"])
    longest = query(
        sink,
        """
        select request_no, chunk_no, before_ns from (
            select request_no, chunk_no, lag(src_ns) over streams as before_ns,
                src_ns - lag(src_ns) over streams as gap
            from raw_client_tokens window streams as (partition by request_no order by chunk_no))
        order by gap desc nulls last limit 1
        """,
    )
    origin_ns = round(expected["wall_epoch_of_origin_genai_perf_s"]) * S
    assert longest[:2] == (expected["longest_gap_request_index"], expected["tokens_before_longest_gap"])
    starts_at_s = (longest[2] - origin_ns) / S  # type: ignore[operator]
    assert starts_at_s == pytest.approx(expected["longest_gap_starts_at_s_after_first_request_clock_origin"])
    assert expected["absolute_time_known"]["genai_perf"]
