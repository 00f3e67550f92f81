import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from builders_cli import Invoke, write_run
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
from kvcliff.cli.prometheus_fetch import window_of
from kvcliff.cli.prometheus_options import PrometheusRequest
from kvcliff.errors import UsageProblem

T0 = 1_790_000_000
TOKEN = "s3cr3t-t0ken"
GAUGES = {"vllm:kv_cache_usage_perc": "0.25", "vllm:num_requests_running": "3"}


@pytest.fixture
def asked() -> list[Mapping[str, str]]:
    return []


@pytest.fixture
def url(asked: list[Mapping[str, str]]) -> Iterator[str]:
    """A stand-in for a server that knows two gauges of one engine, a value per second of a minute."""

    def answer(path: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        asked.append({"path": path, **parameters, **headers})
        if path.endswith("/values"):
            return success([*GAUGES, "up"])
        name = next(name for name in GAUGES if name in parameters["query"])
        points = [[T0 + second, GAUGES[name]] for second in range(60)]
        metric = {"__name__": name, "instance": "gpu7:8000", "job": "vllm"}
        return success({"resultType": "matrix", "result": [{"metric": metric, "values": points}]})

    with serving(answer) as address:
        yield address


def test_a_window_is_kept_and_diagnosed(
    invoke: Invoke, url: str, asked: list[Mapping[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVCLIFF_PROMETHEUS_TOKEN", TOKEN)
    window = ("--prometheus", url, "--from", T0, "--to", T0 + 60)
    result = invoke("diagnose", "incident", *map(str, window))
    assert result.exit_code == 0, result.stderr
    (kept,) = Path("incident").iterdir()
    assert f"wrote {kept} (2 metric names from {url})" in result.stderr
    assert {entry["Authorization"] for entry in asked} == {f"Bearer {TOKEN}"}
    assert TOKEN not in result.stdout + result.stderr
    query = "select replica_id, count(*), max(used_ratio), max(running_count) from kv_occupancy group by all"
    table = invoke("sql", "run", query, "--format", "csv").stdout.splitlines()
    # The log of a lone engine would not know its instance: the replica is the engine's number.
    assert table[1] == "0,60,0.25,3"

    again = invoke("diagnose", "incident", *map(str, window))
    assert "the server was not asked again" in again.stderr
    assert "same content as in" in again.stderr
    assert len(asked) == 3
    assert invoke("diagnose", "incident").exit_code == 0


def test_without_a_run_a_new_folder_is_used(invoke: Invoke, url: str) -> None:
    result = invoke(
        "ingest", "--prometheus", url, "--from", str(T0), "--to", str(T0 + 60), "--format", "json"
    )
    assert result.exit_code == 0, result.stderr
    (run,) = json.loads(result.stdout)["data"]["runs"]
    assert (Path("kvcliff-windows") / run["name"]).is_dir()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "needs --from"),
        (("--from", "2026-11-30T10:00:00"), "names no time zone"),
        (("--from", "yesterday"), "is no time"),
        (("--from", "now", "--to", "now-1h"), "ends before it begins"),
        (("--from", "now-1h", "--step", "-1"), "--step must be more than 0"),
        (("--from", "now-1h", "--step", "nan"), "--step is no number of seconds"),
        (("--from", "now-1h", "--match", "job=x"), "no list of label matchers"),
    ],
)
def test_wrong_usage(
    invoke: Invoke, url: str, asked: list[object], arguments: tuple[str, ...], words: str
) -> None:
    result = invoke("ingest", "incident", "--prometheus", url, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert asked == []
    assert not Path("incident").exists()
    assert not Path("kvcliff.duckdb").exists()


def test_a_window_fits_one_folder_only(invoke: Invoke, url: str, run_folder: Path) -> None:
    for runs in ((run_folder, run_folder), (next(run_folder.iterdir()),)):
        result = invoke("ingest", *runs, "--prometheus", url, "--from", "now-1h")
        assert result.exit_code == 2
        assert "--prometheus takes one RUN" in result.stderr


def test_a_run_is_required_otherwise(invoke: Invoke) -> None:
    for command in ("ingest", "diagnose"):
        result = invoke(command)
        assert result.exit_code == 2
        assert "Missing argument 'RUN...'" in result.stderr


def test_headers_come_from_a_file_that_is_never_quoted(
    invoke: Invoke, url: str, asked: list[Mapping[str, str]]
) -> None:
    Path("headers").write_text(f"X-Tenant: {TOKEN}\n\n", encoding="ascii")
    window = ("--prometheus", url, "--from", str(T0), "--to", str(T0 + 60))
    result = invoke("ingest", *window, "--prometheus-headers", "headers")
    assert result.exit_code == 0, result.stderr
    assert {entry["X-Tenant"] for entry in asked} == {TOKEN}
    Path("headers").write_text(f"{TOKEN}\n", encoding="ascii")
    result = invoke("ingest", *window, "--prometheus-headers", "headers")
    assert result.exit_code == 2
    assert "line 1 of headers is no header" in result.stderr
    assert TOKEN not in result.stdout + result.stderr


def test_times() -> None:
    def window(start: str, end: str) -> tuple[int, int]:
        found = window_of(PrometheusRequest("http://a", start, end), now_s=1000.25)
        return found.start_ms, found.end_ms

    assert window("now-10m", "now") == (400_250, 1_000_250)
    assert window("1970-01-01T01:00:00+01:00", "1970-01-01T00:00:10.5Z") == (0, 10_500)
    assert window("1790000000", "1790000000500") == (1_790_000_000_000, 1_790_000_000_500)
    with pytest.raises(UsageProblem, match="is no time"):
        window("now-10y", "now")


@pytest.mark.integration
@pytest.mark.skipif(PROMETHEUS is None, reason=NO_PROMETHEUS)
def test_a_real_server_and_a_log_of_the_same_engine(invoke: Invoke, tmp_path: Path) -> None:
    exporter = Exporter()
    run = write_run(tmp_path / "run")
    for path in run.iterdir():
        path.unlink()
    with scraped(tmp_path, {"vllm": exporter}) as url:
        wait_for_scrapes(exporter, 12)
        result = invoke("diagnose", run, "--prometheus", url, "--from", "now-5m")
    assert result.exit_code == 0, result.stderr
    query = "select distinct replica_id from kv_occupancy"
    assert invoke("sql", "run", query, "--format", "csv").stdout.splitlines() == ["replica_id", "0"]
    query = "select sum(token_count) from token_latency where origin = 'histogram'"
    tokens = int(invoke("sql", "run", query, "--format", "csv").stdout.splitlines()[1])
    assert 100 <= tokens <= 10 * len(exporter.served)
