import gzip
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from builders_metrics import CORPUS, GARBAGE, NO_CORPUS, TableSink, gzip_cut, read, scrape, source_of
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.metric_families import METRIC_FAMILIES, known_kind
from kvcliff.readers.prometheus import READER
from kvcliff.readers.prometheus_text import ScrapeMarker, parse_marker, parse_sample

T = 1_896_134_400_000_000_000
KV = 'vllm:kv_cache_usage_perc{engine="0",model_name="m"}'
RUNNING = 'vllm:num_requests_running{engine="0",model_name="m"}'


def by_name(sink: TableSink) -> dict[str, list[tuple[int, float]]]:
    """Return (scrape, value) of each series, by name, bucket bound and label."""
    names = {}
    for number, name, le, label in sink.rows("raw_metric_series", "series_id", "name", "le", "label"):
        names[number] = name + ("" if le is None else f" le={le}") + (f" {label}" if label else "")
    found: dict[str, list[tuple[int, float]]] = {}
    for number, scrape_no, value in sink.rows("raw_metric_samples", "series_id", "scrape_no", "value"):
        found.setdefault(names[number], []).append((scrape_no, value))  # type: ignore[arg-type]
    return found


def test_scrape_loop_with_start_and_end_markers(tmp_path: Path) -> None:
    text = scrape(
        {KV: 0.25, RUNNING: 3.0},
        "# scrape start_unix_ns=1000000000000000001 end_unix_ns=1000000000000000009 status=200",
    )
    text += scrape(
        {KV: 0.5, RUNNING: 4.0},
        "# scrape start_unix_ns=1000000000200000001 end_unix_ns=1000000000200000007 status=200",
    )
    sink, report = read(READER, source_of(tmp_path, "metrics.prom", text))
    assert sink.rows("raw_metric_scrapes", "scrape_no", "src_ns", "end_src_ns", "is_timed") == [
        (0, 1_000_000_000_000_000_001, 1_000_000_000_000_000_009, True),
        (1, 1_000_000_000_200_000_001, 1_000_000_000_200_000_007, True),
    ]
    assert by_name(sink) == {
        "vllm:kv_cache_usage_perc": [(0, 0.25), (1, 0.5)],
        "vllm:num_requests_running": [(0, 3.0), (1, 4.0)],
    }
    assert sink.settings() == {("", "series_clock"): "unix"}
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())


@pytest.mark.parametrize(
    ("line", "start_ns", "is_utc"),
    [
        (b"# scrape 1896134400", T, True),
        (b"# scrape 1896134400.5", T + 500_000_000, True),
        (b"1896134400", T, True),
        (b"1896134400250", T + 250_000_000, True),
        (b"# TIME 1896134400", T, True),
        (b"# TIME: 2030-02-01T00:00:00Z", T, True),
        (b"--- 2030-02-01T00:00:00+00:00", T, True),
        (b"--- 2030-02-01T00:00:00 ---", T, False),
        (b"=== 2030-02-01 00:00:00 ===", T, False),
        (b"Fri Feb  1 00:00:00 UTC 2030\r", T, True),
    ],
)
def test_marker_lines(line: bytes, start_ns: int, is_utc: bool) -> None:
    assert parse_marker(line, None) == ScrapeMarker(start_ns, is_utc=is_utc)


@pytest.mark.parametrize(
    "line", [b"# a free comment", b"12", b"# HELP x y", b"---", b"", b"# scrape", b"x" * 5000]
)
def test_no_marker_lines(line: bytes) -> None:
    assert parse_marker(line, None) is None


@pytest.mark.parametrize("marker", ["# scrape {}", "{}", "# TIME {}"])
def test_scrape_loop_with_epoch_markers(tmp_path: Path, marker: str) -> None:
    text = "".join(scrape({KV: 0.5 + step / 10}, marker.format(1896134400 + step)) for step in range(3))
    sink, report = read(READER, source_of(tmp_path, "m.prom", text))
    assert sink.rows("raw_metric_scrapes", "src_ns", "end_src_ns") == [
        (T + step * 10**9, None) for step in range(3)
    ]
    assert [value for _, value in by_name(sink)["vllm:kv_cache_usage_perc"]] == [0.5, 0.6, 0.7]
    assert report.skipped_count == 0


def test_local_marker_needs_a_zone(tmp_path: Path) -> None:
    source = source_of(tmp_path, "m.prom", scrape({KV: 0.5}, "--- 2030-02-01 09:00:00"))
    sink, report = read(READER, source)
    assert sink.settings()["", "series_clock"] == "local"
    assert report.notes == ("scrape times are local, their zone is unknown",)
    sink, report = read(READER, source, ReadContext(time_zone_offset_s=9 * 3600))
    assert sink.settings()["", "series_clock"] == "unix"
    assert sink.rows("raw_metric_scrapes", "src_ns") == [(T,)]
    assert report.notes == ()


def test_without_markers_a_series_met_again_begins_a_scrape(tmp_path: Path) -> None:
    text = scrape({KV: 0.5, RUNNING: 3}) + scrape({RUNNING: 4, KV: 0.6}) + scrape({KV: 0.7})
    sink, report = read(READER, source_of(tmp_path, "m.prom", text))
    assert by_name(sink)["vllm:kv_cache_usage_perc"] == [(0, 0.5), (1, 0.6), (2, 0.7)]
    assert by_name(sink)["vllm:num_requests_running"] == [(0, 3.0), (1, 4.0)]
    assert sink.rows("raw_metric_scrapes", "src_ns", "is_timed") == [(None, False)] * 3
    assert sink.settings() == {("", "series_clock"): "none"}
    assert report.notes == ("3 scrapes state no time: only their order is known",)


def test_failed_scrapes_count_but_bring_nothing(tmp_path: Path) -> None:
    head = "# scrape start_unix_ns=1896134400000000000 end_unix_ns=1896134400000000001 status="
    text = scrape({KV: 0.1}, head + "200") + scrape({KV: 0.2}, head + "503") + "<html>gone</html>\n"
    text += scrape({KV: 0.3}, head + "200")
    sink, report = read(READER, source_of(tmp_path, "m.prom", text))
    assert by_name(sink)["vllm:kv_cache_usage_perc"] == [(0, 0.1), (2, 0.3)]
    assert sink.frame("raw_metric_scrapes").height == 3
    assert report.skipped_count == 0
    assert report.notes == ("1 scrapes failed (HTTP status other than 200) and bring no values",)


def test_repeated_series_inside_a_marked_scrape_is_dropped(tmp_path: Path) -> None:
    text = "# scrape 1896134400\n" + scrape({KV: 0.1}) + scrape({KV: 0.2})
    sink, report = read(READER, source_of(tmp_path, "m.prom", text))
    assert by_name(sink) == {"vllm:kv_cache_usage_perc": [(0, 0.1)]}
    assert report.notes == ("1 values repeat a series within one scrape or stamp and were dropped",)


def test_sample_stamps_date_the_scrapes(tmp_path: Path) -> None:
    text = f"{KV} 0.5 1896134400250\n{RUNNING} 3 1896134400250\n{KV} 0.6 1896134405250\n"
    text += f"{RUNNING} 4 1896134405250\n{KV} 0.6 1896134405250\n"
    sink, report = read(READER, source_of(tmp_path, "m.prom", text))
    assert sink.rows("raw_metric_scrapes", "src_ns") == [(T + 250_000_000,), (T + 5_250_000_000,)]
    assert by_name(sink)["vllm:num_requests_running"] == [(0, 3.0), (1, 4.0)]
    assert by_name(sink)["vllm:kv_cache_usage_perc"] == [(0, 0.5), (1, 0.6)]
    assert report.notes == ("1 values repeat a series within one scrape or stamp and were dropped",)


def test_series_by_series_dump_with_the_name_inside_the_braces(tmp_path: Path) -> None:
    lines = [
        '{__name__="sglang:token_usage", model_name="m", tp_rank="0"} 0.5 1896134400000',
        '{__name__="sglang:token_usage", model_name="m", tp_rank="0"} 0.6 1896134405000',
        '{__name__="sglang:num_queue_reqs", model_name="m", tp_rank="0"} 1 1896134400000',
        '{__name__="sglang:num_queue_reqs", model_name="m", tp_rank="0"} 2 1896134405000',
    ]
    sink, _ = read(READER, source_of(tmp_path, "dump.txt", "\n".join(lines) + "\n"))
    assert by_name(sink) == {
        "sglang:token_usage": [(0, 0.5), (1, 0.6)],
        "sglang:num_queue_reqs": [(0, 1.0), (1, 2.0)],
    }


def test_openmetrics_with_exemplars_and_end_marks(tmp_path: Path) -> None:
    exposition = """# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{model_name="m"} NUMBER
vllm:prompt_tokens_created{model_name="m"} 1896134000.5
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="1.0"} NUMBER # {trace_id="a} b"} 0.67 1896134399.1
# EOF
"""
    text = exposition.replace("NUMBER", "1") + exposition.replace("NUMBER", "2")
    sink, report = read(READER, source_of(tmp_path, "om.txt", text))
    assert by_name(sink) == {
        "vllm:prompt_tokens_total": [(0, 1.0), (1, 2.0)],
        "vllm:time_to_first_token_seconds_bucket le=1.0": [(0, 1.0), (1, 2.0)],
    }
    assert sink.frame("raw_metric_scrapes").height == 2
    assert report.skipped_count == 0
    assert {row[0] for row in sink.rows("raw_metric_series", "kind")} == {"counter", "histogram"}


def test_kind_comes_from_the_type_line_and_else_from_the_list(tmp_path: Path) -> None:
    text = "# TYPE vllm:num_requests_running counter\n" + scrape({RUNNING: 1, KV: 0.5})
    sink, _ = read(READER, source_of(tmp_path, "m.prom", text))
    assert dict(sink.rows("raw_metric_series", "name", "kind")) == {
        "vllm:num_requests_running": "counter",
        "vllm:kv_cache_usage_perc": "gauge",
    }


def test_labels_become_identity_and_nothing_else_is_kept(tmp_path: Path) -> None:
    sglang = 'model_name="org/m",engine_type="unified",dp_rank="3",pod="a:1"'
    text = scrape(
        {
            'vllm:num_requests_waiting_by_reason{engine="1",model_name="/a/llama",reason="capacity"}': 2,
            f'sglang:token_usage{{{sglang},tp_rank="0"}}': 0.5,
            f'sglang:token_usage{{{sglang},tp_rank="1"}}': 0.5,
            "ray_vllm_num_requests_running": 4,
        }
    )
    sink, _ = read(READER, source_of(tmp_path, "m.prom", text))
    assert sink.rows("raw_metric_series", "name", "engine", "model", "instance", "label") == [
        ("vllm:num_requests_waiting_by_reason", "1", "llama", None, "reason=capacity"),
        ("sglang:token_usage", "3", "org/m", "a:1", None),
        ("sglang:token_usage", "3", "org/m", "a:1", "tp_rank=1"),
        ("vllm:num_requests_running", "0", None, None, None),
    ]


def test_families_that_are_not_on_the_list_are_passed_over(tmp_path: Path) -> None:
    text = scrape(
        {
            'python_info{version="3.11.7"}': 1,
            KV: 0.5,
            'http_requests_total{handler="/secret"}': 9,
            "vllm:num_preemptions_created": 1.8e9,
        }
    )
    sink, report = read(READER, source_of(tmp_path, "m.prom", text))
    assert by_name(sink) == {"vllm:kv_cache_usage_perc": [(0, 0.5)]}
    assert report.skipped_count == 0


def test_nan_and_infinity_are_dropped_and_counted(tmp_path: Path) -> None:
    text = scrape({KV: "NaN", RUNNING: "+Inf", "vllm:num_requests_waiting": "1e1"})
    sink, report = read(READER, source_of(tmp_path, "m.prom", text))
    assert by_name(sink) == {"vllm:num_requests_waiting": [(0, 10.0)]}
    assert '2 values say "no value" (NaN, infinity or a placeholder) and were dropped' in report.notes
    assert report.skipped_count == 0


def test_cache_config_becomes_settings(tmp_path: Path) -> None:
    info = (
        'vllm:cache_config_info{block_size="32",cache_dtype="auto",enable_prefix_caching="True",engine="0",'
        'gpu_memory_utilization="0.92",kv_cache_memory_bytes="134217728",kv_cache_size_tokens="4096",'
        'num_cpu_blocks="None",num_gpu_blocks="128",sliding_window="None",swap_space_bytes="4294967296"}'
    )
    text = (
        "# scrape 1896134400\n"
        + scrape({KV: 0, info: 1.0})
        + "# scrape 1896134401\n"
        + scrape({KV: 0, info: 1.0})
    )
    sink, _ = read(READER, source_of(tmp_path, "m.prom", text))
    assert sink.rows("raw_settings", "line_no", "scope", "name", "value", "unit") == [
        (3, "", "block_size", "32", "tokens"),
        (3, "", "num_gpu_blocks", "128", "blocks"),
        (3, "", "gpu_memory_utilization", "0.92", "ratio"),
        (3, "", "enable_prefix_caching", "true", None),
        (3, "", "kv_cache_dtype", "auto", None),
        (3, "", "kv_cache_tokens", "4096", "tokens"),
        (3, "", "kv_cache_bytes", "134217728", "bytes"),
        (3, "", "swap_space_bytes", "4294967296", "bytes"),
        (1, "", "series_clock", "unix", None),
    ]


def test_dcgm_values_become_device_samples(tmp_path: Path) -> None:
    text = """# scrape 1896134400
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",Hostname="n1"} 99
DCGM_FI_PROF_SM_UTIL_RATIO{gpu="1",UUID="GPU-2",Hostname="n1"} 0.5
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-1",Hostname="n1"} 0.25
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-3",Hostname="n2"} 10
DCGM_FI_DEV_XID_ERRORS{gpu="1",Hostname="n1"} 9223372036854775794
DCGM_FI_PROF_SM_OCCUPANCY{gpu="1",Hostname="n1"} 140737488355328
"""
    sink, report = read(READER, source_of(tmp_path, "dcgm.prom", text))
    assert sink.rows("raw_device_samples", "src_ns", "device_id", "counter", "value") == [
        (T, 0, "gpu_busy_pct", 99.0),
        (T, 1, "sm_active_pct", 50.0),
        (T, 0, "dram_active_pct", 25.0),
        (T, 2, "memory_used_bytes", 10.0 * 2**20),
    ]
    assert sink.frame("raw_metric_samples").height == 0
    assert report.notes == ('2 values say "no value" (NaN, infinity or a placeholder) and were dropped',)


@pytest.mark.parametrize(("values", "pct"), [((87, 0), (87.0, 0.0)), ((0.87, 1), (87.0, 100.0))])
def test_a_name_that_meant_per_cent_first_and_a_ratio_later(
    tmp_path: Path, values: tuple[float, float], pct: tuple[float, float]
) -> None:
    text = "".join(
        f'# scrape {1896134400 + number}\nDCGM_FI_DEV_GPU_UTIL_RATIO{{gpu="0"}} {value}\n'
        for number, value in enumerate(values)
    )
    sink, _ = read(READER, source_of(tmp_path, "dcgm.prom", text))
    assert tuple(row[0] for row in sink.rows("raw_device_samples", "value")) == pct


def test_file_cut_inside_a_line(tmp_path: Path) -> None:
    text = scrape({KV: 0.5, RUNNING: 31}, "# scrape 1896134400")
    sink, report = read(READER, source_of(tmp_path, "m.prom", text[:-2]))
    assert by_name(sink) == {"vllm:kv_cache_usage_perc": [(0, 0.5)]}
    assert report.damage == "the file ends inside a line"


def test_cut_compressed_files_give_the_rows_before_the_cut(tmp_path: Path) -> None:
    text = "".join(
        scrape({KV: step / 9000, RUNNING: step % 7}, f"# scrape {1896134400 + step}") for step in range(9000)
    )
    _, report = read(READER, source_of(tmp_path, "m.prom.gz", gzip_cut(text.encode(), 0.5)))
    assert report.damage is not None
    assert report.row_count > 1000
    xz = lzma.compress(text.encode())
    sink, report = read(READER, source_of(tmp_path, "m.prom.xz", xz[: len(xz) // 2]))
    assert report.damage is not None
    whole, _ = read(READER, source_of(tmp_path, "w.prom.gz", gzip.compress(text.encode(), mtime=0)))
    assert by_name(whole)["vllm:kv_cache_usage_perc"][-1] == (8999, 8999 / 9000)
    kept = by_name(sink).get("vllm:kv_cache_usage_perc", [])
    assert kept == by_name(whole)["vllm:kv_cache_usage_perc"][: len(kept)]


def test_broken_lines_are_counted_with_a_reason(tmp_path: Path) -> None:
    text = scrape({KV: 0.5}) + 'vllm:num_requests_running{engine="0 3\nhello world\n' + scrape({RUNNING: 2})
    sink, report = read(READER, source_of(tmp_path, "m.prom", text))
    assert report.skipped_count == 2
    assert report.first_skip_reason == "line is neither a sample nor a comment"
    assert by_name(sink)["vllm:num_requests_running"] == [(0, 2.0)]


@pytest.mark.parametrize(
    "content",
    [b"", GARBAGE, b"\x00" * 5000, "{}\n", "INFO 01-01 started\n", "a b c\n1 2 3\n", "hello 5\nworld 6\n"],
)
def test_foreign_files_are_refused_and_do_no_harm(tmp_path: Path, content: bytes | str) -> None:
    source = source_of(tmp_path, "x.txt", content)
    assert READER.sniff(source).score == 0
    _, report = read(READER, source)
    assert report.row_count == 0


def test_names_in_quotes_are_the_same_series(tmp_path: Path) -> None:
    text = '# TYPE "vllm:num_requests_running" gauge\n{"vllm:num_requests_running",engine="0"} 3\n'
    assert READER.sniff(source_of(tmp_path, "a", text)).score == 95
    sink, report = read(
        READER, source_of(tmp_path, "m.prom", text + 'vllm:num_requests_running{engine="0"} 4\n')
    )
    assert by_name(sink)["vllm:num_requests_running"] == [(0, 3.0), (1, 4.0)]
    assert sink.rows("raw_metric_series", "kind") == [("gauge",)]
    assert report.skipped_count == 0


def test_sniff_knows_engines_and_plain_exporters(tmp_path: Path) -> None:
    assert READER.sniff(source_of(tmp_path, "a", scrape({KV: 1}))).score == 95
    assert READER.sniff(source_of(tmp_path, "b", "# TYPE up gauge\nup 1\n")).score == 50


@pytest.mark.parametrize(
    ("line", "name", "labels", "value", "stamp"),
    [
        (b'm_a{p="a b"} 1.0 1896134400000', "m_a", {"p": "a b"}, b"1.0", b"1896134400000"),
        (b'm_a{p="brace } { in"} 2.0', "m_a", {"p": "brace } { in"}, b"2.0", None),
        (
            b'm_a{p="quote \\" inside",q="back\\\\slash"} 3',
            "m_a",
            {"p": 'quote " inside', "q": "back\\slash"},
            b"3",
            None,
        ),
        (b'm_a{p="line\\nbreak"} 4 1896134400500', "m_a", {"p": "line\nbreak"}, b"4", b"1896134400500"),
        (b"m_b{} 6", "m_b", {}, b"6", None),
        (b"m_c NaN", "m_c", {}, b"NaN", None),
        (b'm_e{a="x", b="y",} 7', "m_e", {"a": "x", "b": "y"}, b"7", None),
        (b"m_f\t-5.5e-3\r", "m_f", {}, b"-5.5e-3", None),
        (b'{"m.g",a="x"} 8', "m.g", {"a": "x"}, b"8", None),
        (b'{"m g \\"h\\"", "odd key"="v"} 8 5', 'm g "h"', {"odd key": "v"}, b"8", b"5"),
        (b'm_i{"http.route"="/a}",b="c"} 9', "m_i", {"http.route": "/a}", "b": "c"}, b"9", None),
    ],
)
def test_sample_grammar(
    line: bytes, name: str, labels: dict[str, str], value: bytes, stamp: bytes | None
) -> None:
    sample = parse_sample(line)
    assert sample is not None
    assert (sample.name, dict(sample.labels), sample.value, sample.stamp) == (name, labels, value, stamp)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}", fullmatch=True),
        st.text(st.characters(codec="utf-8"), max_size=8),
        max_size=3,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_label_value_survives_escaping(labels: dict[str, str]) -> None:
    escaped = {
        key: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for key, value in labels.items()
    }
    line = "m{" + ",".join(f'{key}="{value}"' for key, value in escaped.items()) + "} 1 2"
    sample = parse_sample(line.encode())
    assert sample is not None
    assert dict(sample.labels) == labels


def test_list_of_families_has_no_doubles_and_knows_histogram_parts() -> None:
    names = [family.name for family in METRIC_FAMILIES]
    assert len(names) == len(set(names))
    assert known_kind("vllm:iteration_tokens_total_bucket") == "histogram"
    assert known_kind("vllm:iteration_tokens_total") is None
    assert known_kind("vllm:num_preemptions_total") == "counter"
    assert known_kind("vllm:time_to_first_token_seconds_created") is None


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
@pytest.mark.parametrize("name", ["prom_scrape_loop_vllm", "prom_scrape_loop_sglang"])
def test_generated_scrape_loops_give_the_expected_values(name: str) -> None:
    lines = CORPUS / "serving_lines"
    expected: dict[str, list[float]] = {}
    for row in map(json.loads, (lines / f"{name}.expected.jsonl").read_text().splitlines()):
        le = row.get("labels", {}).get("le")
        key = row.get("name", "") + ("" if le is None else f" le={float(le)}")
        if row.get("kind") == "sample" and known_kind(row["name"]):
            expected.setdefault(key, []).append(row["value"])
    path = lines / f"{name}.prom"
    sink, report = read(READER, Source(path, path.name))
    assert {key: [value for _, value in samples] for key, samples in by_name(sink).items()} == expected
    assert report.skipped_count == 0
    starts = [row[0] for row in sink.rows("raw_metric_scrapes", "src_ns")]
    assert starts[0] == T


@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
def test_real_recording_agrees_with_the_reference_parser() -> None:
    path = CORPUS / "serving_runs" / "vllm_cpu" / "kineto" / "metrics.prom.xz"
    sink, report = read(READER, Source(path, path.name))
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())
    expositions = lzma.decompress(path.read_bytes()).decode().split("# scrape ")[1:]
    assert sink.frame("raw_metric_scrapes").height == len(expositions) == 63
    for number in (0, 40, 62):
        expected: dict[tuple[str, float | None, str | None], float] = {}
        for family in text_string_to_metric_families(expositions[number].split("\n", 1)[1]):
            for sample in family.samples:
                if known_kind(sample.name):
                    kept = [
                        sample.labels[key]
                        for key in ("finished_reason", "reason", "sleep_state", "source", "stage")
                        if key in sample.labels
                    ]
                    le = sample.labels.get("le")
                    expected[sample.name, None if le is None else float(le), kept[0] if kept else None] = (
                        sample.value
                    )
        frame = sink.frame("raw_metric_samples").join(sink.frame("raw_metric_series"), on="series_id")
        rows = frame.filter(frame["scrape_no"] == number).select("name", "le", "label", "value").rows()
        found = {(name, le, label.split("=")[1] if label else None): value for name, le, label, value in rows}
        assert found == expected
        assert len(found) == len(rows) > 300
