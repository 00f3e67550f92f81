"""A real Prometheus server on loopback with an exporter for it to scrape, and a stand-in for odd servers."""

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PROMETHEUS = shutil.which("prometheus")
NO_PROMETHEUS = "no prometheus program on this machine (Debian: apt-get install prometheus)"

_PAGE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="m"}} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} {usage}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{{engine="0",model_name="m"}} 0.0
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{{engine="0",le="0.01",model_name="m"}} {half}
vllm:inter_token_latency_seconds_bucket{{engine="0",le="0.025",model_name="m"}} {tokens}
vllm:inter_token_latency_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} {tokens}
vllm:inter_token_latency_seconds_count{{engine="0",model_name="m"}} {tokens}
vllm:inter_token_latency_seconds_sum{{engine="0",model_name="m"}} {seconds}
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="1024"}} 1.0
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{{generation="0"}} 12345.0
"""
Answer = tuple[int, Mapping[str, str], bytes]


@dataclass
class Exporter:
    """A metrics page that counts: the n-th scrape states 10 n tokens, running requests n modulo 4."""

    served: list[int] = field(default_factory=list)

    def page(self) -> bytes:
        """Return the next page."""
        number = len(self.served) + 1
        self.served.append(number)
        tokens = 10.0 * number
        return _PAGE.format(
            running=float(number % 4),
            usage=(number % 10) / 10,
            tokens=tokens,
            half=5.0 * number,
            seconds=0.015 * tokens,
        ).encode()


@contextmanager
def serving(answer: Callable[[str, Mapping[str, str], Mapping[str, str]], Answer]) -> Iterator[str]:
    """Yield the address of a loopback server; ``answer`` gets path, parameters and headers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            parameters = {key: values[0] for key, values in parse_qs(parts.query).items()}
            status, headers, body = answer(parts.path, parameters, dict(self.headers.items()))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def scraped(folder: Path, exporters: Mapping[str, Exporter]) -> Iterator[str]:
    """Yield the address of a Prometheus server that scrapes each exporter five times a second."""
    assert PROMETHEUS is not None
    pages = {f"/{name}": exporter for name, exporter in exporters.items()}

    def answer(path: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, pages[path].page()

    with serving(answer) as address:
        place = address.removeprefix("http://")
        jobs = "".join(
            f"  - job_name: {name}\n    metrics_path: /{name}\n    static_configs:\n"
            f"      - targets: ['{place}']\n        labels: {{instance: {name}}}\n"
            for name in exporters
        )
        config = folder / "prometheus.yml"
        config.write_text(f"global: {{scrape_interval: 200ms}}\nscrape_configs:\n{jobs}", encoding="utf-8")
        port = _free_port()
        command = [
            PROMETHEUS,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with (folder / "prometheus.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            try:
                url = f"http://127.0.0.1:{port}"
                _wait(lambda: _is_ready(url), process)
                yield url
            finally:
                process.terminate()
                process.wait(timeout=20)


def wait_for_scrapes(exporter: Exporter, count: int) -> None:
    """Return when an exporter has been scraped so often."""
    _wait(lambda: len(exporter.served) >= count, None)


def _wait(is_done: Callable[[], bool], process: "subprocess.Popen[bytes] | None") -> None:
    deadline = time.monotonic() + 30
    pause = threading.Event()
    while not is_done():
        assert process is None or process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, "the server is not ready after 30 s"
        pause.wait(0.05)


def _is_ready(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def success(data: object) -> Answer:
    """Return an answer of the API as Go's encoder writes it, without blanks."""
    body = json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()
    return 200, {"Content-Type": "application/json"}, body
