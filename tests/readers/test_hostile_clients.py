"""Damaged variants of every client, query and trace format: no crash, no silent loss, no claim of a lie."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders_clients import (
    aiperf_gpu_record,
    aiperf_raw,
    aiperf_record,
    aiperf_summary,
    aiperf_summary_csv,
    genai_perf,
    guidellm,
    guidellm_csv,
    guidellm_old,
    inference_perf_requests,
    inference_perf_stage,
    k6_csv,
    k6_json,
    lines_of,
    llmperf_responses,
    llmperf_summary,
    locust_history,
    sglang_result,
    trtllm_report,
    trtllm_requests,
)
from builders_metrics import MATRIX_ANSWER, VICTORIA_LINE, CountingSink, source_of
from kvcliff.readers import (
    READERS,
    aiperf_gpu_telemetry,
    aiperf_server_metrics,
    client_aiperf,
    client_aiperf_csv,
    client_genai_perf,
    client_guidellm,
    client_guidellm_csv,
    client_inference_perf,
    client_k6,
    client_llmperf,
    client_locust,
    client_sglang_bench,
    client_trtllm_bench,
    grafana_csv,
    prometheus_api,
    request_traces,
)
from kvcliff.readers.base import LoadReport, ReadContext, Reader

_NATIVE = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {
                "metric": {"__name__": "vllm:inter_token_latency_seconds", "engine": "0"},
                "histograms": [
                    [
                        1896134400 + second,
                        {
                            "count": "9",
                            "sum": "1.5",
                            "buckets": [[0, "0.01", "0.02", "3"], [0, "0.02", "1", "6"]],
                        },
                    ]
                    for second in range(2)
                ],
            }
        ],
    },
}
_SCRAPE_KEPT = {
    "endpoint_url": "http://a:8000/metrics",
    "timestamp_ns": 1896134400000000000,
    "metrics": {
        "vllm:num_requests_running": [{"labels": {"engine": "0"}, "value": 3.0}],
        "vllm:inter_token_latency_seconds": [
            {"labels": {"engine": "0"}, "sum": 1.5, "count": 9, "buckets": {"0.01": 4, "+Inf": 9}}
        ],
    },
}
_GRAFANA = "Time,vllm:kv_cache_usage_perc,running\n2030-02-01 00:00:00,87%,12\n2030-02-01 00:00:15,1.5 K,13\n"
_MOONCAKE = {"timestamp": 27, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
_AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n"
VALID: tuple[tuple[str, Reader, str], ...] = (
    ("aiperf", client_aiperf.READER, lines_of(aiperf_record(), aiperf_record(1))),
    ("aiperf_raw", client_aiperf.READER, lines_of(aiperf_raw())),
    ("aiperf_summary", client_aiperf.READER, json.dumps(aiperf_summary())),
    ("aiperf_csv", client_aiperf_csv.READER, aiperf_summary_csv()),
    ("gpu_telemetry", aiperf_gpu_telemetry.READER, lines_of(aiperf_gpu_record(), aiperf_gpu_record(1))),
    ("guidellm", client_guidellm.READER, json.dumps(guidellm())),
    ("guidellm_old", client_guidellm.READER, json.dumps(guidellm_old())),
    ("guidellm_csv", client_guidellm_csv.READER, guidellm_csv({}, {})),
    ("genai_perf", client_genai_perf.READER, json.dumps(genai_perf())),
    ("inference_perf", client_inference_perf.READER, json.dumps(inference_perf_requests())),
    ("inference_perf_stage", client_inference_perf.READER, json.dumps(inference_perf_stage())),
    ("sglang", client_sglang_bench.READER, lines_of(sglang_result(), sglang_result())),
    ("trtllm", client_trtllm_bench.READER, json.dumps(trtllm_requests())),
    ("trtllm_report", client_trtllm_bench.READER, json.dumps(trtllm_report())),
    ("llmperf", client_llmperf.READER, json.dumps(llmperf_responses())),
    ("llmperf_summary", client_llmperf.READER, json.dumps(llmperf_summary())),
    ("locust", client_locust.READER, locust_history()),
    ("k6_csv", client_k6.READER, k6_csv()),
    ("k6_json", client_k6.READER, k6_json()),
    ("prometheus_api", prometheus_api.READER, lines_of(MATRIX_ANSWER, MATRIX_ANSWER)),
    ("native.json", prometheus_api.READER, json.dumps(_NATIVE)),
    ("server_metrics.jsonl", aiperf_server_metrics.READER, json.dumps(_SCRAPE_KEPT) + "\n"),
    ("victoriametrics", prometheus_api.EXPORT_READER, lines_of(VICTORIA_LINE, VICTORIA_LINE)),
    ("grafana", grafana_csv.READER, _GRAFANA),
    ("mooncake", request_traces.READER, lines_of(_MOONCAKE, _MOONCAKE)),
    ("azure", request_traces.READER, _AZURE),
)
_IDS = [name for name, _, _ in VALID]
_PIECES = (
    '"', "{", "}", "[", "]", "\n", ",", " ", "nan", "NaN", "Infinity", "1e999", "-1", "\x00", "\xff", "null",
    "true", "9" * 30, "9" * 5000, "[" * 2000, '"\\ud800"', "1.5", "{}", '"x"', "\r", "\t", "-0", "\u2028",
)  # fmt: skip
_EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(_PIECES) | st.text(max_size=3)),
    min_size=1,
    max_size=5,
)
_VALUES = st.sampled_from(
    (
        None,
        True,
        -1,
        -0.5,
        0,
        1e300,
        10**30,
        "",
        "x" * 300,
        "\x00",
        [],
        {},
        [None],
        [[1, "x", 2]],
        {"value": []},
        "NaN",
    )
)


def _with_pieces(text: str, edits: list[tuple[float, int, str]]) -> str:
    """Return the text with pieces put in or in the place of others."""
    for where, length, piece in edits:
        place = int(where * len(text))
        text = text[:place] + piece + text[place + length :]
    return text


def _with_values(text: str, picks: list[tuple[int, object]]) -> str:
    """Return JSON text whose values at some places are others, of any type."""
    documents = [json.loads(line) for line in text.splitlines()]
    for number, value in picks:
        places: list[Callable[[object], None]] = []
        for document in documents:
            _collect(document, places)
        if places:
            places[number % len(places)](deepcopy(value))
    return lines_of(*documents)


def _collect(node: object, places: list[Callable[[object], None]]) -> None:
    """Collect a setter for every value under a node."""
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        places.append(lambda new, node=node, key=key: node.__setitem__(key, new))  # type: ignore[misc, index]
        _collect(value, places)


def _try(folder: Path, reader: Reader, content: bytes) -> LoadReport:
    """Look at a damaged file and load it."""
    source = source_of(folder, "x", content)
    assert 0 <= reader.sniff(source).score <= 100
    report = reader.load(source, CountingSink(), ReadContext())
    assert (report.skipped_count > 0) is (report.first_skip_reason is not None)
    return report


_JSON = [row for row in VALID if row[2][0] in "{["]
_SETTINGS = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
    "database": None,
}


@pytest.mark.parametrize(("name", "reader", "text"), VALID, ids=_IDS)
def test_valid_input_goes_to_its_reader_alone(tmp_path: Path, name: str, reader: Reader, text: str) -> None:
    source = source_of(tmp_path, name, text)
    scores = {other.name: score for other in READERS if (score := other.sniff(source).score)}
    assert max(scores, key=lambda known: scores[known]) == reader.name
    assert set(scores) <= {reader.name, "series_csv"}
    assert scores[reader.name] >= 85
    report = _try(tmp_path, reader, text.encode())
    assert (report.skipped_count, report.damage) == (0, None)


@pytest.mark.parametrize(("name", "reader", "text"), VALID, ids=_IDS)
@given(edits=_EDITS)
@settings(max_examples=100, derandomize=True, **_SETTINGS)
def test_damaged_text(
    tmp_path: Path, name: str, reader: Reader, text: str, edits: list[tuple[float, int, str]]
) -> None:
    del name
    _try(tmp_path, reader, _with_pieces(text, edits).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(("name", "reader", "text"), _JSON, ids=[row[0] for row in _JSON])
@given(picks=st.lists(st.tuples(st.integers(0, 10_000), _VALUES), min_size=1, max_size=4))
@settings(max_examples=100, derandomize=True, **_SETTINGS)
def test_values_of_other_types(
    tmp_path: Path, name: str, reader: Reader, text: str, picks: list[tuple[int, object]]
) -> None:
    del name
    _try(tmp_path, reader, _with_values(text, picks).encode())


@pytest.mark.parametrize(("name", "reader", "text"), VALID, ids=_IDS)
def test_every_cut_is_survived(tmp_path: Path, name: str, reader: Reader, text: str) -> None:
    del name
    step = max(1, len(text) // 25)
    for end in range(0, len(text), step):
        _try(tmp_path, reader, text[:end].encode())


@pytest.mark.parametrize(("name", "reader", "text"), VALID, ids=_IDS)
@pytest.mark.parametrize("garbage", [b"", b"\x00" * 5000, bytes(range(256)) * 40, b"{" * 5000, b"\n" * 5000])
def test_garbage(tmp_path: Path, name: str, reader: Reader, text: str, garbage: bytes) -> None:
    del name, text
    report = _try(tmp_path, reader, garbage)
    assert report.row_count == 0


_LINES = [row for row in VALID if row[0] in {"aiperf", "aiperf_raw", "mooncake"}]


@pytest.mark.parametrize(("name", "reader", "text"), _LINES, ids=[row[0] for row in _LINES])
@given(edits=_EDITS)
@settings(max_examples=100, derandomize=True, **_SETTINGS)
def test_no_line_is_lost(
    tmp_path: Path, name: str, reader: Reader, text: str, edits: list[tuple[float, int, str]]
) -> None:
    """Every line that is not blank is a request or counted as skipped."""
    del name
    content = _with_pieces(text, edits).encode("utf-8", "surrogatepass")
    rows: list[int] = []

    class Counter(CountingSink):
        def append(self, table, frame):  # type: ignore[no-untyped-def]
            if table in {"raw_client_requests", "raw_request_arrivals"}:
                rows.append(frame.height)
            return super().append(table, frame)

    source = source_of(tmp_path, "x", content)
    if reader.sniff(source).score == 0:
        return
    report = reader.load(source, Counter(), ReadContext())
    assert sum(rows) + report.skipped_count == sum(bool(line.strip()) for line in content.split(b"\n"))


@pytest.mark.fuzz
@pytest.mark.parametrize(("name", "reader", "text"), VALID, ids=_IDS)
@given(edits=_EDITS)
@settings(max_examples=5000, **_SETTINGS)
def test_damaged_text_at_length(
    tmp_path: Path, name: str, reader: Reader, text: str, edits: list[tuple[float, int, str]]
) -> None:
    del name
    _try(tmp_path, reader, _with_pieces(text, edits).encode("utf-8", "surrogatepass"))
