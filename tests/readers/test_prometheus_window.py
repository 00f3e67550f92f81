import itertools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from builders_clients import picked
from builders_metrics import read
from builders_prometheus import (
    NO_PROMETHEUS,
    PROMETHEUS,
    Answer,
    Exporter,
    scraped,
    serving,
    success,
    wait_for_scrapes,
)
from kvcliff.errors import InputError, UsageProblem
from kvcliff.readers.base import Source
from kvcliff.readers.prometheus_http import PrometheusServer
from kvcliff.readers.prometheus_window import Window, fetch_window, is_wanted

SECRET = "s3cr3t-t0ken"
NAME = "vllm:num_requests_running"
S = 1_000_000_000


def server_at(url: str, **more: object) -> PrometheusServer:
    return PrometheusServer.at(url, timeout_s=10, **more)  # type: ignore[arg-type]


def answering(names: object, seen: list[tuple[str, Mapping[str, str]]]) -> object:
    """Return a stand-in that knows ``names`` and answers every query with one point per series."""

    def answer(path: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        seen.append((path, parameters))
        if path == "/api/v1/label/__name__/values":
            return success(names)
        points = [{"metric": {"__name__": NAME}, "values": [[1_790_000_000.5, "3"]]}]
        return success({"resultType": "matrix", "result": points})

    return answer


def test_only_metrics_of_engines_and_gpus_are_wanted() -> None:
    wanted = [NAME, "vllm:inter_token_latency_seconds_bucket", "vllm:inter_token_latency_seconds"]
    wanted += ["ray_vllm_num_requests_running", "sglang:token_usage", "DCGM_FI_PROF_DRAM_ACTIVE"]
    wanted += ["vllm:cache_config_info", "trtllm_kv_cache_utilization"]
    assert all(is_wanted(name) for name in wanted)
    others = [
        "up",
        "process_start_time_seconds",
        "vllm:num_requests_running_created",
        "node_cpu_seconds_total",
    ]
    assert not any(is_wanted(name) for name in others)


def test_raw_samples_are_asked_for_hour_by_hour(tmp_path: Path) -> None:
    seen: list[tuple[str, Mapping[str, str]]] = []
    window = Window(1_790_000_000_000, 1_790_005_400_250, matchers='job="vllm"')
    with serving(answering([NAME, "up"], seen)) as url:  # type: ignore[arg-type]
        report = fetch_window(server_at(url), window, tmp_path / "run" / "window.json.gz")
    assert (report.name_count, report.request_count) == (1, 2)
    assert seen[0][1]["match[]"] == '{job="vllm"}'
    assert [parameters for path, parameters in seen[1:]] == [
        {"query": f'{{__name__="{NAME}",job="vllm"}}[3600001ms]', "time": "1790003600.000"},
        {"query": f'{{__name__="{NAME}",job="vllm"}}[1800250ms]', "time": "1790005400.250"},
    ]


def test_steps_are_asked_for_below_the_limit_of_points(tmp_path: Path) -> None:
    seen: list[tuple[str, Mapping[str, str]]] = []
    window = Window(1_790_000_000_000, 1_790_025_000_000, step_s=1)  # type: ignore[arg-type]
    with serving(answering([NAME], seen)) as url:  # type: ignore[arg-type]
        fetch_window(server_at(url), window, tmp_path / "window.json.gz")
    spans = [
        (float(parameters["start"]), float(parameters["end"]), float(parameters["step"]))
        for path, parameters in seen
        if path == "/api/v1/query_range"
    ]
    covered = sorted({start + index for start, end, step in spans for index in range(int(end - start) + 1)})
    assert covered == [1_790_000_000.0 + index for index in range(25_001)]
    assert sum(int(end - start) + 1 for start, end, _ in spans) == 25_001
    assert max((end - start) / step for start, end, step in spans) < 11_000


def test_the_same_answers_give_the_same_bytes(tmp_path: Path) -> None:
    window = Window(1_790_000_000_000, 1_790_000_060_000)
    with serving(answering([NAME], [])) as url:  # type: ignore[arg-type]
        for name in ("a.json.gz", "b.json.gz"):
            fetch_window(server_at(url), window, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    sink, report = read(picked(source(tmp_path / "a.json.gz")), source(tmp_path / "a.json.gz"))
    assert sink.rows("raw_metric_samples", "value") == [(3.0,)]
    assert report.damage is None


def source(path: Path) -> Source:
    return Source(path, path.name)


def test_names_of_files_tell_questions_apart() -> None:
    plain = Window(1_790_000_000_000, 1_790_000_060_000)
    chosen = Window(1_790_000_000_000, 1_790_000_060_000, matchers='job="b"')
    names = {plain.file_name("http://a"), plain.file_name("http://b"), chosen.file_name("http://a")}
    assert len(names) == 3
    assert all(name.startswith("prometheus_20260921T") for name in names)


@pytest.mark.parametrize(
    "bad",
    [
        {"start_ms": 2, "end_ms": 2},
        {"start_ms": 1, "end_ms": 2, "step_s": 0},
        {"start_ms": 1, "end_ms": 2, "matchers": 'a="b"} or vector(1)#'},
        {"start_ms": 1, "end_ms": 2, "matchers": "job=vllm"},
    ],
)
def test_windows_that_cannot_be_asked_for(bad: dict[str, object]) -> None:
    with pytest.raises(UsageProblem):
        Window(**bad)  # type: ignore[arg-type]


def refusing(status: int, body: bytes = b"", **headers: str) -> object:
    def answer(path: str, parameters: Mapping[str, str], sent: Mapping[str, str]) -> Answer:
        return status, headers, body

    return answer


@pytest.mark.parametrize(
    ("status", "body", "headers", "words"),
    [
        (401, b"", {}, "HTTP 401"),
        (302, b"", {"Location": "http://127.0.0.1:1/login"}, "HTTP 302"),
        (422, b'{"status":"error","error":"too many samples"}', {}, "too many samples"),
        (200, b"<html>log in</html>", {}, "not as the Prometheus query API"),
        (200, b'{"status":"success","data":[]}', {}, "none of the metrics"),
        (200, b'{"status":"success","da', {"Content-Length": "23"}, "not as the Prometheus"),
    ],
)
def test_refusals_are_said_without_secrets(
    tmp_path: Path, status: int, body: bytes, headers: dict[str, str], words: str
) -> None:
    target = tmp_path / "window.json.gz"
    with serving(refusing(status, body, **headers)) as url:  # type: ignore[arg-type]
        server = server_at(url.replace("http://", f"http://me:{SECRET}@"), token=SECRET)
        with pytest.raises(InputError) as caught:
            fetch_window(server, Window(1, 60_001), target)
    assert words in caught.value.message
    assert SECRET not in f"{caught.value.message}{caught.value.hint}{server!r}"
    assert list(tmp_path.iterdir()) == []


def test_a_cut_answer_leaves_no_file(tmp_path: Path) -> None:
    def answer(path: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        status, sent, body = success([NAME])
        if path.endswith("values"):
            return status, sent, body
        return 200, {"Content-Length": "9000", "Connection": "close"}, b'{"status":"success","data":{'

    with serving(answer) as url, pytest.raises(InputError) as caught:
        fetch_window(server_at(url), Window(1, 60_001), tmp_path / "window.json.gz")
    assert "cut" in caught.value.message or "IncompleteRead" in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_nobody_listens(tmp_path: Path) -> None:
    with serving(refusing(200)) as url:  # type: ignore[arg-type]
        pass
    with pytest.raises(InputError, match="Connection refused"):
        fetch_window(server_at(url), Window(1, 60_001), tmp_path / "window.json.gz")


@pytest.mark.parametrize(
    "url", ["prometheus:9090", "ftp://a", "http://", "http://a:b:c", "file:///etc/passwd"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UsageProblem):
        server_at(url)


def test_a_token_with_a_line_end_is_refused_unsaid() -> None:
    with pytest.raises(UsageProblem) as caught:
        server_at("http://a", token=f"{SECRET}\n")
    assert SECRET not in f"{caught.value.message}{caught.value.hint}"


def test_credentials_are_sent() -> None:
    got: list[Mapping[str, str]] = []

    def answer(path: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        got.append(headers)
        return success([])

    with serving(answer) as url:
        server_at(url, token=SECRET).ask("/x", {})
        server_at(url.replace("//", "//me:p%40ss@"), headers={"X-Scope-OrgID": "7"}).ask("/x", {})
    assert got[0]["Authorization"] == f"Bearer {SECRET}"
    assert got[1]["Authorization"] == "Basic bWU6cEBzcw=="
    assert got[1]["X-Scope-Orgid" if "X-Scope-Orgid" in got[1] else "X-Scope-OrgID"] == "7"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Exporter], int]]:
    """A real server that has scraped two engines for a while: address, exporters, start in ms."""
    exporters = {"east": Exporter(), "west": Exporter()}
    start_ms = int(time.time() * 1000)
    with scraped(tmp_path_factory.mktemp("prometheus"), exporters) as url:
        for exporter in exporters.values():
            wait_for_scrapes(exporter, 15)
        yield url, exporters, start_ms


@pytest.mark.integration
@pytest.mark.skipif(PROMETHEUS is None, reason=NO_PROMETHEUS)
class TestRealServer:
    def load(self, live: tuple[str, dict[str, Exporter], int], folder: Path, **more: object) -> tuple:
        url, _, start_ms = live
        window = Window(start_ms, int(time.time() * 1000), **more)  # type: ignore[arg-type]
        target = folder / window.file_name(url)
        fetch_window(server_at(url), window, target)
        return read(picked(source(target)), source(target))

    def test_every_scrape_of_every_engine_comes(
        self, live: tuple[str, dict[str, Exporter], int], tmp_path: Path
    ) -> None:
        sink, report = self.load(live, tmp_path)
        assert (report.skipped_count, report.damage) == (0, None)
        series = {
            number: (name, instance)
            for number, name, instance in sink.rows("raw_metric_series", "series_id", "name", "instance")
        }
        assert {instance for _, instance in series.values()} == {"east", "west"}
        for engine, exporter in live[1].items():
            tokens = [
                value
                for number, value in sink.rows("raw_metric_samples", "series_id", "value")
                if series[number] == ("vllm:generation_tokens_total", engine)
            ]
            # The page served last may not have reached the storage yet.
            assert len(tokens) >= 14
            assert tokens == [10.0 * number for number in exporter.served[: len(tokens)]]
        assert sink.settings()[("", "num_gpu_blocks")] == "1024"

    def test_matchers_choose_an_engine(
        self, live: tuple[str, dict[str, Exporter], int], tmp_path: Path
    ) -> None:
        sink, _ = self.load(live, tmp_path, matchers='job="west"')
        assert {row[0] for row in sink.rows("raw_metric_series", "instance")} == {"west"}

    def test_steps(self, live: tuple[str, dict[str, Exporter], int], tmp_path: Path) -> None:
        sink, report = self.load(live, tmp_path, step_s=1)
        times = [row[0] for row in sink.rows("raw_metric_scrapes", "src_ns")]
        assert len(times) >= 2
        assert {later - earlier for earlier, later in itertools.pairwise(times)} == {S}
        assert report.skipped_count == 0

    def test_a_window_without_data_is_refused(self, live: tuple[str, dict[str, Exporter], int]) -> None:
        with pytest.raises(InputError, match="none of the metrics"):
            fetch_window(server_at(live[0]), Window(1_000, 61_000), Path("nowhere") / "x.json.gz")

    def test_what_the_server_refuses_is_said(
        self, live: tuple[str, dict[str, Exporter], int], tmp_path: Path
    ) -> None:
        window = Window(live[2], int(time.time() * 1000), matchers='job=~"("')
        with pytest.raises(InputError, match="HTTP 400"):
            fetch_window(server_at(live[0]), window, tmp_path / "x.json.gz")
