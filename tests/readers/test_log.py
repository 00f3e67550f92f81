import gzip
import random
import re
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builders_log import (
    SHARED,
    ListSink,
    access,
    headed,
    iteration,
    json_record,
    load_bytes,
    load_lines,
    load_path,
    stats,
    stats_v0,
)
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.lines import GRAMMARS
from kvcliff.readers.log import NOTE_LONG_LINES, READER
from kvcliff.readers.log_clock import NOMINAL_YEAR
from kvcliff.readers.log_scan import NOTE_NO_STAMPS, NOTE_NO_YEAR, NOTE_NO_ZONE, NOTE_REPLICAS, NOTE_SEGMENTS

NS = 1_000_000_000
SQL = Path(__file__).resolve().parents[2] / "sql" / "raw"
RUNS = SHARED / "corpus" / "serving_runs"
NO_RUNS = "the shared recordings of serving runs are not beside this repository"


def ns(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp()) * NS


def times(rows: list[dict[str, object]]) -> list[object]:
    return [row.get("src_ns") for row in rows]


# ------------------------------------------------------------------------------------------------ time


def test_stamp_without_year_and_zone_is_nominal_local_time(tmp_path: Path) -> None:
    loaded = load_lines(tmp_path, [headed(stats(), "02-29 10:00:05")])
    assert NOMINAL_YEAR == 2000
    assert times(loaded.stats) == [ns("2000-02-29 10:00:05")]
    assert loaded.report.notes == (NOTE_NO_YEAR, NOTE_NO_ZONE)
    assert loaded.stamp_facts() == {
        "log_stamp_year_known": "false",
        "log_stamp_zone_known": "false",
        "log_stamp_resolution_ns": "1000000000",
    }


def test_given_year_and_zone_make_it_utc(tmp_path: Path) -> None:
    context = ReadContext(time_zone_offset_s=2 * 3600, year=2031)
    loaded = load_lines(tmp_path, [headed(stats(), "03-04 10:00:05")], context)
    assert times(loaded.stats) == [ns("2031-03-04 08:00:05")]
    assert loaded.report.notes == ()
    assert loaded.stamp_facts()["log_stamp_year_known"] == "true"
    assert loaded.stamp_facts()["log_stamp_zone_known"] == "true"


def test_december_to_january_adds_a_year_and_late_lines_do_not_take_it_back(tmp_path: Path) -> None:
    stamps = ["12-31 23:59:58", "01-01 00:00:00", "12-31 23:59:59", "01-01 00:00:01", "03-01 00:00:00"]
    loaded = load_lines(tmp_path, [headed(stats(), stamp) for stamp in stamps], ReadContext(year=2030))
    assert times(loaded.stats) == [
        ns("2030-12-31 23:59:58"),
        ns("2031-01-01 00:00:00"),
        ns("2030-12-31 23:59:59"),
        ns("2031-01-01 00:00:01"),
        ns("2031-03-01 00:00:00"),
    ]
    assert NOTE_SEGMENTS not in loaded.report.notes


def test_a_step_back_of_more_than_twelve_hours_is_another_recording(tmp_path: Path) -> None:
    stamps = ["03-04 10:00:00", "03-04 09:00:00", "03-02 10:00:00", "03-02 10:00:10"]
    loaded = load_lines(tmp_path, [headed(stats(), stamp) for stamp in stamps])
    assert NOTE_SEGMENTS in loaded.report.notes
    assert len(loaded.stats) == 4


def test_outer_stamp_with_a_zone_wins_and_teaches_the_zone(tmp_path: Path) -> None:
    lines = [
        "2030-10-15T00:04:10.700601910Z " + headed(stats(), "10-14 17:04:10"),
        headed(stats(), "10-14 17:04:20"),
    ]
    loaded = load_lines(tmp_path, lines)
    assert times(loaded.stats) == [ns("2030-10-15 00:04:10") + 700_601_910, ns("2030-10-15 00:04:20")]
    assert loaded.report.notes == ()
    # The bare line is known to its second only.
    assert loaded.stamp_facts()["log_stamp_resolution_ns"] == "1000000000"


def test_outer_stamp_without_a_zone_gives_the_year(tmp_path: Path) -> None:
    lines = ["2031-01-01 00:00:00.386 | " + headed(stats(), "12-31 23:59:59")]
    loaded = load_lines(tmp_path, lines)
    assert times(loaded.stats) == [ns("2030-12-31 23:59:59")]
    assert loaded.report.notes == (NOTE_NO_ZONE,)


def test_json_records_have_year_and_milliseconds(tmp_path: Path) -> None:
    loaded = load_lines(tmp_path, [json_record(stats(), levelname="INFO")])
    assert times(loaded.stats) == [ns("2031-05-06 07:08:09") + 250_000_000]
    assert loaded.stamp_facts()["log_stamp_resolution_ns"] == "1000000"
    assert loaded.report.notes == (NOTE_NO_ZONE,)


def test_messages_without_any_time_have_none(tmp_path: Path) -> None:
    loaded = load_lines(tmp_path, [json_record(stats(1), None), json_record(stats(2), None)])
    assert times(loaded.stats) == [None, None]
    assert [row["running_count"] for row in loaded.stats] == [1, 2]
    assert loaded.report.notes == (NOTE_NO_STAMPS,)
    assert "log_stamp_resolution_ns" not in loaded.stamp_facts()


def test_a_line_without_a_stamp_takes_the_one_before(tmp_path: Path) -> None:
    lines = [
        "INFO:     Application startup complete.",
        headed(stats(), "03-04 10:00:05"),
        "torch.OutOfMemoryError: CUDA out of memory.",
        "INFO:     Shutting down",
    ]
    events = load_lines(tmp_path, lines).events
    assert [(e["kind"], e.get("src_ns")) for e in events] == [
        ("ready", None),
        ("oom", ns("2000-03-04 10:00:05")),
        ("shutdown", ns("2000-03-04 10:00:05")),
    ]


def test_an_impossible_date_gives_a_row_without_time(tmp_path: Path) -> None:
    loaded = load_lines(tmp_path, [headed(stats(), "02-30 10:00:05")])
    assert times(loaded.stats) == [None]


# ------------------------------------------------------------------------------------------------ envelopes


def test_replicas_keep_their_own_engines_clocks_and_access_lines(tmp_path: Path) -> None:
    lines = [
        "a-1  | " + headed(stats(1), "09-01 00:00:10"),
        "b-1  | " + headed(stats(2), "09-01 09:00:10"),
        "a-1  | " + access(),
        "a-1  | " + headed(stats(3), "09-01 00:00:20"),
        "b-1  | " + headed(stats(4), "09-01 09:00:20"),
        "[pod/v-0/s] " + headed(stats(5), "09-01 00:00:30"),
    ]
    loaded = load_lines(tmp_path, lines)
    assert [(r["engine"], r["running_count"]) for r in loaded.stats] == [
        ("a-1/0", 1),
        ("b-1/0", 2),
        ("a-1/0", 3),
        ("b-1/0", 4),
        ("v-0/s/0", 5),
    ]
    assert NOTE_REPLICAS in loaded.report.notes
    assert NOTE_SEGMENTS not in loaded.report.notes
    assert (loaded.access[0]["after_src_ns"], loaded.access[0]["before_src_ns"]) == (
        ns("2000-09-01 00:00:10"),
        ns("2000-09-01 00:00:20"),
    )


def test_pieces_of_a_container_line_are_joined_per_stream(tmp_path: Path) -> None:
    whole = headed(stats(7), "08-01 12:00:40")
    cut = whole.index(" prompt")
    lines = [
        "2030-08-01T12:00:40.5+02:00 stdout P " + whole[:cut],
        "2030-08-01T12:00:41.5+02:00 stderr F some interleaved text",
        "2030-08-01T12:00:42.5+02:00 stdout F " + whole[cut:],
    ]
    row = load_lines(tmp_path, lines).stats[0]
    assert (row["line_no"], row["src_ns"], row["running_count"]) == (
        1,
        ns("2030-08-01 10:00:40") + 500_000_000,
        7,
    )


def test_a_piece_that_never_ends_is_counted(tmp_path: Path) -> None:
    report = load_lines(tmp_path, ["2030-08-01T12:00:40Z stdout P " + headed(stats())[:70]]).report
    assert report.skipped_count == 1


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[0;36m(APIServer pid=7)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m03-04 10:00:00\x1b[0m "
        "\x1b[90m[l.py:3]\x1b[0m " + stats(),
        "\x1b[36m" + headed(stats()) + "\x1b[0m",
        "Processed prompts:  14%|##  | 140/1000 [00:29<3:36, 1.31it/s, est. speed input: 4.1 toks/s]"
        + headed(stats()),
        "\rCapturing: 50%|#| 1/2 [00:01<00:01]\r" + headed(stats(), process="EngineCore pid=3"),
        "2030-03-04T10:00:00Z Loading: 10%|# | 1/9 [00:01, 1.0it/s]" + headed(stats()),
        "- " + headed(stats()),
        "[2030-03-04 10:00:00] " + headed(stats()),
        "Mar  4 10:00:00 node1 vllm[812]: " + headed(stats(), process="APIServer pid=812"),
        "[pod/v-0/s] 2030-03-04T10:00:00Z stdout F " + headed(stats(), process="EngineCore_DP0 pid=1"),
        '{"log":'
        '"INFO 03-04 10:00:00 [l.py:3] '
        + stats()
        + '\\n","stream":"stdout","time":"2030-03-04T10:00:00.1Z"}',
        headed(stats()) + "\r",
    ],
)
def test_wrapped_statistics_are_found(tmp_path: Path, line: str) -> None:
    loaded = load_lines(tmp_path, [line])
    assert [(row["running_count"], row["kv_used_ratio"]) for row in loaded.stats] == [(4, 0.5)]
    assert "src_ns" in loaded.stats[0]
    assert loaded.report.skipped_count == 0


def test_a_lone_carriage_return_does_not_end_a_line(tmp_path: Path) -> None:
    loaded = load_bytes(tmp_path, b"50%|#|\rhello\r\n\n" + headed(stats()).encode() + b"\r\n")
    assert [row["line_no"] for row in loaded.stats] == [3]


# ------------------------------------------------------------------------------------------------ access


def test_access_lines_are_counted_between_different_stamps(tmp_path: Path) -> None:
    lines = [
        access(),
        headed("anything", "03-04 10:00:00"),
        access(port=1),
        access("/v1/completions", method="POST"),
        headed("again the same second", "03-04 10:00:00"),
        access(port=2),
        access(port=3),
        access(status=503),
        headed("the next", "03-04 10:00:01"),
        access("/health"),
    ]
    t0, t1 = ns("2000-03-04 10:00:00"), ns("2000-03-04 10:00:01")
    found = [
        (
            r["line_no"],
            r["path_class"],
            r["status"],
            r["access_count"],
            r.get("after_src_ns"),
            r.get("before_src_ns"),
        )
        for r in load_lines(tmp_path, lines).access
    ]
    assert found == [
        (1, "metrics", 200, 1, None, t0),
        (3, "metrics", 200, 3, t0, t1),
        (4, "completions", 200, 1, t0, t1),
        (8, "metrics", 503, 1, t0, t1),
        (10, "health", 200, 1, t1, None),
    ]


def test_access_lines_with_their_own_stamps_lie_between_the_first_and_the_last(tmp_path: Path) -> None:
    lines = [
        f"2030-03-04T10:00:0{second}.{part}Z (APIServer pid=1) " + access()
        for second, part in [(0, 1), (0, 3), (0, 9), (1, 2)]
    ]
    t = ns("2030-03-04 10:00:00")
    found = [
        (r["access_count"], r["after_src_ns"] - t, r["before_src_ns"] - t)
        for r in load_lines(tmp_path, lines).access
    ]
    assert found == [(3, 100_000_000, 900_000_000), (1, 1_200_000_000, 1_200_000_000)]


def test_access_lines_of_json_logs(tmp_path: Path) -> None:
    line = json_record(
        '10.0.0.9:51210 - "POST /v1/completions HTTP/1.1" 200', name="uvicorn.access", levelname="INFO"
    )
    (row,) = load_lines(tmp_path, [line]).access
    assert (row["path_class"], row["access_count"]) == ("completions", 1)


def test_a_late_line_of_another_process_does_not_split_the_count(tmp_path: Path) -> None:
    lines = [
        headed("x", "03-04 10:00:05"),
        access(),
        headed("late", "03-04 10:00:03"),
        access(),
        headed("y", "03-04 10:00:06"),
    ]
    (row,) = load_lines(tmp_path, lines).access
    assert (row["access_count"], row["after_src_ns"], row["before_src_ns"]) == (
        2,
        ns("2000-03-04 10:00:05"),
        ns("2000-03-04 10:00:06"),
    )


@pytest.mark.parametrize(
    ("path", "path_class"),
    [
        ("/metrics", "metrics"),
        ("/metrics/", "metrics"),
        ("/v1/chat/completions?x=1", "completions"),
        ("/generate", "completions"),
        ("/ping", "health"),
        ("/v1/models", "other"),
        ("/start_profile", "start_profile"),
    ],
)
def test_path_classes(tmp_path: Path, path: str, path_class: str) -> None:
    assert [r["path_class"] for r in load_lines(tmp_path, [access(path)]).access] == [path_class]


def test_profiler_requests_are_events_at_the_stamp_before(tmp_path: Path) -> None:
    lines = [
        headed("x", "03-04 10:00:05"),
        access("/start_profile", method="POST"),
        access("/stop_profile", method="POST"),
        access("/stop_profile", method="POST"),
        access("/stop_profile", 404, method="POST"),
    ]
    loaded = load_lines(tmp_path, lines)
    assert [(e["line_no"], e["kind"], e["src_ns"]) for e in loaded.events] == [
        (2, "profiler_start", ns("2000-03-04 10:00:05")),
        (3, "profiler_stop", ns("2000-03-04 10:00:05")),
        (4, "profiler_stop", ns("2000-03-04 10:00:05")),
    ]
    assert sum(r["access_count"] for r in loaded.access) == 4


def test_many_different_paths_are_all_counted(tmp_path: Path) -> None:
    lines = [access(f"/v1/files/{number % 3000}") for number in range(9000)]
    assert [(r["path_class"], r["access_count"]) for r in load_lines(tmp_path, lines).access] == [
        ("other", 9000)
    ]


# ------------------------------------------------------------------------------------------------ reading


def test_rows_beyond_one_chunk_and_hit_rates_across_the_chunk_border(tmp_path: Path) -> None:
    count = 50_500
    lines: list[str] = []
    for number in range(count):
        lines.append(headed(stats_v0(running=number)))
        if number % 7 == 0:
            lines.append(headed("Prefix cache hit rate: GPU: 25.00%, CPU: 0.00%"))
    loaded = load_lines(tmp_path, lines)
    assert len(loaded.frames["raw_log_stats"]) == 2
    assert [row["running_count"] for row in loaded.stats] == list(range(count))
    assert [row["running_count"] for row in loaded.stats if "prefix_hit_ratio" in row] == list(
        range(0, count, 7)
    )


def test_cut_gzip_gives_the_rows_before_the_cut(tmp_path: Path) -> None:
    noise = random.Random(7)
    lines = [
        headed(stats(running=noise.randrange(10**9)), f"03-04 10:{n // 60:02d}:{n % 60:02d}")
        for n in range(2000)
    ]
    data = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "server.log.gz"
    path.write_bytes(data[: len(data) // 2])
    loaded = load_path(path)
    assert 100 < len(loaded.stats) < 2000
    assert loaded.report.damage is not None
    assert "compressed" in loaded.report.damage


def test_a_cut_last_line_is_damage(tmp_path: Path) -> None:
    whole = headed(stats())
    loaded = load_bytes(tmp_path, f"{whole}\n{whole[:120]}".encode())
    assert len(loaded.stats) == 1
    assert (loaded.report.skipped_count, loaded.report.damage) == (1, "the last line is cut")


def test_a_missing_last_line_end_is_no_damage(tmp_path: Path) -> None:
    loaded = load_bytes(tmp_path, headed(stats()).encode())
    assert (len(loaded.stats), loaded.report.damage) == (1, None)


def test_megabyte_lines_are_read_at_both_ends_only(tmp_path: Path) -> None:
    bars = "\rProcessed prompts:  14%|##  | 140/1000 [00:29<3:36, 1.31it/s]" * 60_000
    prompt = headed(
        f"Received request cmpl-1: prompt: '{'word ' * 500_000}', params: SamplingParams(max_tokens=64), x"
    )
    loaded = load_lines(tmp_path, [bars + headed(stats(8)), prompt, headed(stats(9))])
    assert [row["running_count"] for row in loaded.stats] == [8, 9]
    assert [(e["request_id"], e["tokens"]) for e in loaded.events] == [("cmpl-1", 64)]
    assert NOTE_LONG_LINES in loaded.report.notes


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_garbage_gives_no_rows_and_no_claim(tmp_path: Path, size: int) -> None:
    data = random.Random(3).randbytes(size)
    loaded = load_bytes(tmp_path, data)
    assert (loaded.report.row_count, loaded.report.skipped_count) == (0, 0)
    assert READER.sniff(Source(tmp_path / "server.log", "server.log")).score == 0


def test_same_input_gives_the_same_frames(tmp_path: Path) -> None:
    lines = [headed(stats(n)) for n in range(5)] + [access(), access("/health"), headed("Added request a.")]
    first, second = load_lines(tmp_path, lines), load_lines(tmp_path, lines)
    assert {t: [f.rows() for f in fs] for t, fs in first.frames.items()} == {
        t: [f.rows() for f in fs] for t, fs in second.frames.items()
    }


def test_frames_have_the_columns_of_the_contracts(tmp_path: Path) -> None:
    lines = [
        headed(stats()),
        headed(iteration(1)),
        headed("Added request a."),
        "[2030-01-22 09:00:00,170] LMCache INFO: Reqid: a, Total tokens 9, LMCache hit tokens: 4",
        "[2030-01-22 09:00:00,170] LMCache INFO: Stored 4 tokens in 0.1 seconds",
        "I0124 09:00:10.001500 6 a.cpp:40] Master Metrics: Storage: 1 GB / 2 GB (50.0%) | Keys: 2 | x",
        "[2030-01-22 09:00:00] ReqTimeStats(rid=a, input_len=5, output_len=6, type=unified): ",
        access(),
    ]
    frames = load_lines(tmp_path, lines).frames
    assert set(frames) == set(READER.tables)
    polars = {
        "VARCHAR": "String",
        "BIGINT": "Int64",
        "INTEGER": "Int32",
        "DOUBLE": "Float64",
        "BOOLEAN": "Boolean",
    }
    for table, (frame,) in frames.items():
        header = re.findall(r"^--   (\w+) +([A-Z]+) ", (SQL / f"{table}.sql").read_text(), re.MULTILINE)
        expected = {name: polars[kind] for name, kind in header if name != "source_id"}
        assert {name: str(kind) for name, kind in frame.schema.items()} == expected, table


def test_the_title_says_which_producers_were_never_recorded() -> None:
    tried, _, untried = READER.title.partition("; not yet tried on real files: ")
    assert tried == "serving log (vLLM, uvicorn"
    for grammar in GRAMMARS:
        assert (grammar.title in untried) is not grammar.tried_on_real_files
        assert re.sub(r"[^a-z]", "", grammar.title.lower()) == re.sub(r"[^a-z]", "", grammar.name)


# ------------------------------------------------------------------------------------------------ sniff


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        (headed(stats()), 90, 100),
        (json_record(stats()), 90, 100),
        ("2030-03-04T10:00:00Z stdout F " + headed(iteration(1)), 90, 100),
        ("\n".join([access()] * 3), 70, 89),
        (
            headed("Running batch with cudagraph_mode: FULL", level="DEBUG", process="Worker_TP0 pid=5"),
            55,
            69,
        ),
        ("INFO:     Started server process [7]\nINFO:     Application startup complete.", 30, 55),
        (headed("Failed to import from vllm._C", level="WARNING") + "\nTraffic request rate: inf\n", 0, 0),
        (
            "# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\nvllm:n 3\n",
            0,
            0,
        ),
        ("timestamp, index, power.draw [W]\n2030/03/04 10:00:00.000, 0, 95.1 W\n", 0, 0),
        ('{"completed": 10, "duration": 3.5, "message": "none"}', 0, 0),
        ('{"request_id": "a", "log": 1}\n{"request_id": "b"}\n', 0, 0),
        ("", 0, 0),
    ],
)
def test_sniff(tmp_path: Path, text: str, low: int, high: int) -> None:
    path = tmp_path / "server.log"
    path.write_text(text + "\n")
    sniff = READER.sniff(Source(path, "server.log"))
    assert low <= sniff.score <= high, sniff
    assert bool(sniff.reason) == (sniff.score > 0)


@pytest.mark.skipif(not RUNS.is_dir(), reason=NO_RUNS)
def test_sniff_claims_the_logs_of_a_run_and_nothing_else() -> None:
    claimed = {
        path.relative_to(RUNS).as_posix(): READER.sniff(Source(path, path.name)).score
        for run in ("memory_gap/background__opt-1.3b/64", "vllm_cpu/kv_stress", "vllm_cpu/clients")
        for path in sorted((RUNS / run).rglob("*"))
        if path.is_file()
    }
    logs = {name for name, score in claimed.items() if score >= 90}
    assert logs == {
        "memory_gap/background__opt-1.3b/64/server.log",
        "vllm_cpu/kv_stress/server.log.gz",
        "vllm_cpu/clients/server.log.gz",
    }
    rest = {name: score for name, score in claimed.items() if score and name not in logs}
    assert rest == {"memory_gap/background__opt-1.3b/64/server.stderr.log": 50}


# ------------------------------------------------------------------------------------------------ recordings


@pytest.mark.skipif(not RUNS.is_dir(), reason=NO_RUNS)
@pytest.mark.parametrize(
    "path", sorted(RUNS.glob("memory_gap/*/*/server.log")), ids=lambda path: path.parent.name
)
def test_public_v0_runs_are_read_line_for_line(path: Path) -> None:
    lines = path.read_text().splitlines()
    loaded = load_path(path)
    assert loaded.report.skipped_count == 0
    assert [row["line_no"] for row in loaded.stats] == [
        n for n, line in enumerate(lines, 1) if "Avg prompt throughput" in line
    ]
    assert sum(row["access_count"] for row in loaded.access) == sum(
        line.startswith("INFO:  ") and " HTTP/1.1" in line for line in lines
    )
    preempted = [int(line.rsplit("=", 1)[1]) for line in lines if "total_num_cumulative_preemption=" in line]
    assert [e["cumulative_count"] for e in loaded.events if e["kind"] == "preempt"] == preempted
    facts = loaded.facts()
    assert facts["", "max_num_seqs"] == path.parent.name
    assert facts["", "model_name"] in {"llama-2-13b", "opt-1.3b"}
    assert (facts["", "block_size"], facts["", "swap_space_bytes"]) == ("16", str(4 << 30))


@pytest.mark.skipif(not RUNS.is_dir(), reason=NO_RUNS)
@pytest.mark.parametrize(
    "path", sorted(RUNS.glob("vllm_cpu/*/server.log*")), ids=lambda path: path.parent.name
)
def test_recorded_v1_runs_are_read_line_for_line(path: Path) -> None:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = data.decode().split("\n")
    loaded = load_path(path)
    assert loaded.report.skipped_count == 0
    assert [row["line_no"] for row in loaded.stats] == [
        n for n, line in enumerate(lines, 1) if "Avg prompt throughput" in line
    ]
    assert [row["line_no"] for row in loaded.iterations] == [
        n for n, line in enumerate(lines, 1) if "Iteration(" in line
    ]
    assert sum(row["access_count"] for row in loaded.access) == sum(
        " HTTP/1.1" in line and line.startswith("INFO:  ") for line in lines
    )
    assert all(0 <= row["kv_used_ratio"] <= 1 for row in [*loaded.stats, *loaded.iterations])
    facts = loaded.facts()
    assert (facts["", "engine_version"], facts["", "engine_generation"], facts["", "block_size"]) == (
        "0.32.0",
        "V1",
        "32",
    )
    kinds = [e["kind"] for e in loaded.events]
    assert (kinds.count("ready"), kinds.count("shutdown"), kinds.count("oom"), kinds.count("fatal")) == (
        1,
        1,
        0,
        0,
    )


# ------------------------------------------------------------------------------------------------ properties

_INTEREST = (b"Avg prompt throughput", b"Iteration(")
_OTHERS = tuple(
    literal for grammar in GRAMMARS for literal, _ in grammar.interest if literal not in _INTEREST
)
_LINES = st.sampled_from(
    [
        headed(stats()).encode(),
        headed(stats_v0()).encode(),
        headed("Engine 001: " + iteration(3, tail=", GPU KV cache usage: 5.0%")).encode(),
        headed(iteration(4), process="EngineCore_DP1 pid=3").encode(),
        ("2030-03-04T10:00:00.1Z stdout F " + headed(stats())).encode(),
        ("svc-1  | " + headed(stats(), process="APIServer pid=1")).encode(),
        json_record(stats()).encode(),
        b"\x1b[0;36m(APIServer pid=7)\x1b[0;0m " + headed(stats()).encode(),
        b"14%|##  | 1/9 [00:29]" + headed(iteration(9)).encode(),
        access().encode(),
        headed("# GPU blocks: 77, # CPU blocks: 5").encode(),
        b"Traceback (most recent call last):",
        b"torch.OutOfMemoryError: CUDA out of memory.",
        b"",
    ]
)


@st.composite
def _mangled(draw: st.DrawFn) -> bytes:
    """A line, perhaps cut at either end, doubled, with bytes put into it, or very long."""
    line = draw(_LINES)
    change = draw(st.sampled_from(["none", "none", "head", "tail", "bytes", "double", "long", "zero"]))
    at = draw(st.integers(0, len(line)))
    if change == "head":
        return line[at:]
    if change == "tail":
        return line[:at]
    if change == "bytes":
        return line[:at] + draw(st.binary(max_size=6)).replace(b"\n", b"?") + line[at:]
    if change == "double":
        return line + line[at:]
    if change == "long":
        return line[:at] + b"x" * draw(st.sampled_from([200_000, 1_200_000])) + line[at:]
    if change == "zero":
        return line.replace(b"4", b"nan")
    return line


@settings(max_examples=200, deadline=None)
@given(st.lists(_mangled(), max_size=12), st.booleans())
def test_any_lines_give_rows_or_are_counted(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], is_open: bool
) -> None:
    folder = tmp_path_factory.mktemp("log")
    data = b"\n".join(lines) + (b"" if is_open else b"\n")
    # Random bytes may spell what another producer writes: that is for its own test.
    assume(not any(literal in data for literal in _OTHERS))
    loaded = load_bytes(folder, data)
    # Of a very long line only both ends are looked at: what lies between them is not of interest to anybody.
    seen = [line if len(line) <= 131_072 else line[:65_536] + line[-65_536:] for line in data.split(b"\n")]
    interest = sum(any(literal in line for literal in _INTEREST) for line in seen)
    orphans = loaded.report.first_skip_reason == "a prefix cache line has no statistics line before it"
    assert not orphans
    assert len(loaded.stats) + len(loaded.iterations) + loaded.report.skipped_count == interest
    for row in [*loaded.stats, *loaded.iterations]:
        assert 0 <= row.get("kv_used_ratio", 0) <= 1
        assert all(value >= 0 for value in row.values() if isinstance(value, int | float))
    assert READER.sniff(Source(folder / "server.log", "server.log")).score in {0, 30, 50, 60, 80, 95}
    assert isinstance(ListSink().rows("raw_log_stats"), list)
