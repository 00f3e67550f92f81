import json
import re
import subprocess
from pathlib import Path

import pytest

from builders_cli import Invoke
from kvcliff.cli.howto import ENGINES, SGLANG, TENSORRT_LLM, VLLM, Engine
from kvcliff.cli.howto_cmd import ENGINE_NAMES, TOPIC_NAMES
from kvcliff.cli.howto_topics import TOPICS, explain
from kvcliff.findings.captures import CLIENT, DEVICE, LOG, NSYS_EXPORT, SCRAPE

EVERY_PAIR = [(topic, engine) for topic in TOPIC_NAMES for engine in ENGINE_NAMES]
SERVER_OF = {VLLM: "vllm serve", SGLANG: "sglang.launch_server", TENSORRT_LLM: "trtllm-serve"}


def commands(topic: str, engine: Engine = VLLM) -> list[str]:
    return [step.command for step in explain(topic, engine.name).steps]


def run_loop(command: str, answer: str, folder: Path) -> None:
    """Run a polling loop for two rounds, with a server that says ``answer``."""
    (folder / "answer").write_text(answer, encoding="utf-8")
    stubs = 'round=0; sleep() { round=$((round + 1)); [ "$round" -le 2 ]; }; curl() { cat answer; }; '
    subprocess.run(["bash", "-c", stubs + command], cwd=folder, check=True)
    (folder / "answer").unlink()


def test_names_are_those_of_the_registries() -> None:
    assert tuple(topic.name for topic in TOPICS) == TOPIC_NAMES
    assert tuple(engine.name for engine in ENGINES) == ENGINE_NAMES


@pytest.mark.parametrize(("topic", "engine"), EVERY_PAIR)
def test_every_command_is_one_line_of_shell_with_a_reason(topic: str, engine: str) -> None:
    found = explain(topic, engine)
    assert found.steps
    for step in found.steps:
        assert step.what
        assert step.why
        assert not step.why.endswith(".")
        assert "\n" not in step.command
        done = subprocess.run(["bash", "-n", "-c", step.command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("topic", "engine"), EVERY_PAIR)
def test_every_name_to_fill_in_is_explained(topic: str, engine: str, invoke: Invoke) -> None:
    data = json.loads(invoke("howto", topic, "--engine", engine, "--format", "json").stdout)["data"]
    text = "\n".join(step["command"] for step in data["steps"])
    used = {f"${name}" for name in re.findall(r"\$\{?([A-Z_]+)", text)} - {"$PWD", "$OLDPWD"}
    used |= {"$USERS"} if "USERS *" in text else set()
    explained = {item["name"] for item in data["placeholders"]}
    assert used == {name for name in explained if name.startswith("$")}
    assert all(name in text for name in explained if not name.startswith("$"))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@pytest.mark.parametrize("topic", ["nsys", "ncu", "scrape", "log", "stress"])
def test_servers_are_those_of_the_engine(topic: str, engine: Engine) -> None:
    text = "\n".join(commands(topic, engine))
    assert SERVER_OF[engine] in text
    assert not any(server in text for other, server in SERVER_OF.items() if other is not engine)
    ports = set(re.findall(r"localhost:(\d+)", text))
    assert ports <= {engine.url.rsplit(":", 1)[1]}


def test_commands_are_those_that_findings_print() -> None:
    assert SCRAPE in commands("scrape")
    assert CLIENT in commands("client")
    assert commands("log") == [f"VLLM_LOG_STATS_INTERVAL=1 {LOG}"]
    assert commands("nsys")[-1] == NSYS_EXPORT
    assert commands("gpu")[0] == DEVICE
    assert {SCRAPE, DEVICE} <= set(commands("stress"))


def test_nsys_offers_both_graph_modes_and_marks_steps() -> None:
    node, graph = commands("nsys")[:2]
    assert node.replace("--cuda-graph-trace=node", "--cuda-graph-trace=graph") == graph != node
    assert "opaque" in explain("nsys").steps[1].why
    assert '--profiler-config \'{"profiler": "cuda"}\'' in node
    assert any("TLLM_LLMAPI_ENABLE_NVTX=1" in line for line in commands("nsys", TENSORRT_LLM))
    assert any("SGLANG_ENABLE_NVTX_SCHEDULER=1" in line for line in commands("nsys", SGLANG))


def test_ncu_measures_warm_caches_without_kernel_replay() -> None:
    in_situ = next(line for line in commands("ncu") if "--cache-control none" in line)
    assert "--replay-mode app-range" in in_situ
    assert "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum" in commands("ncu")[0]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_stress_fills_the_pool_one_user_at_a_time(engine: Engine) -> None:
    lines = commands("stress", engine)
    sizing = next(line for line in lines if line.startswith("export USERS="))
    pool = f"export POOL_TOKENS=51200; {sizing}; "
    aiperf = next(line for line in lines if line.startswith("aiperf"))
    echoed = subprocess.run(
        ["bash", "-c", f'{pool} aiperf() {{ echo "$@"; }}; {aiperf}'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # Ten users of 4,096 + 1,024 tokens fit; half as many again, one every 2 s, then a minute.
    assert "--concurrency 15 --concurrency-ramp-duration 30 --benchmark-duration 90" in echoed
    assert "--synthetic-input-tokens-mean 4096 --synthetic-input-tokens-stddev 0" in echoed
    assert lines[-1] == 'cd .. && kvcliff diagnose "$OLDPWD"'


def test_stress_refuses_an_unknown_pool_size() -> None:
    sizing = next(line for line in commands("stress") if line.startswith("export USERS="))
    done = subprocess.run(
        ["bash", "-c", f"unset POOL_TOKENS; {sizing}"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "POOL_TOKENS" in done.stderr


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_what_the_scrape_loop_writes_is_read(engine: Engine, invoke: Invoke, tmp_path: Path) -> None:
    loop = next(line for line in commands("scrape", engine) if "metrics.prom" in line)
    run_loop(loop, 'vllm:num_requests_running{engine="0"} 3\n', tmp_path)
    assert (tmp_path / "metrics.prom").read_text(encoding="utf-8").count("# scrape 1") == 2
    assert recognised(invoke) == {"metrics.prom": "prometheus"}


def test_what_the_iteration_loop_writes_is_read(invoke: Invoke, tmp_path: Path) -> None:
    record = {"iter": 1, "iterLatencyMS": 8.5, "timestamp": "02-01-2030 00:00:00.000000"}
    run_loop(commands("scrape", TENSORRT_LLM)[-1], json.dumps([record]), tmp_path)
    assert recognised(invoke) == {"iterations.json": "tensorrt_llm_stats"}


def recognised(invoke: Invoke) -> dict[str, str]:
    data = json.loads(invoke("inspect", ".", "--format", "json").stdout)["data"]
    return {file["path"]: file["reader"] for file in data["files"]}


def test_tensorrt_llm_gets_its_switches(tmp_path: Path) -> None:
    subprocess.run(["bash", "-c", commands("log", TENSORRT_LLM)[0]], cwd=tmp_path, check=True)
    assert (tmp_path / "trtllm.yaml").read_text(encoding="utf-8").splitlines() == [
        "enable_iter_perf_stats: true",
        "print_iter_log: true",
        "return_perf_metrics: true",
    ]


def test_text_keeps_commands_whole(invoke: Invoke) -> None:
    result = invoke("howto", "stress")
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[0] == "The KV stress test"
    assert all(command in lines for command in commands("stress"))
    assert "Why: a clock that drops would look like a cliff." in lines


def test_json_and_the_environment_choose_alike(invoke: Invoke) -> None:
    named = invoke("howto", "log", "--engine", "sglang", "--format", "json")
    from_environment = invoke("howto", "log", env={"KVCLIFF_ENGINE": "sglang", "KVCLIFF_FORMAT": "json"})
    assert named.stdout == from_environment.stdout
    document = json.loads(named.stdout)
    assert (document["command"], document["status"]) == ("howto", "ok")
    assert document["data"]["topic"] == "log"
    assert document["data"]["engine"] == "sglang"
    assert [step["command"] for step in document["data"]["steps"]] == commands("log", SGLANG)


@pytest.mark.parametrize("arguments", [("magic",), (), ("nsys", "--engine", "other")])
def test_unknown_names_are_refused(arguments: tuple[str, ...], invoke: Invoke) -> None:
    result = invoke("howto", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "kvcliff howto --help" in result.stderr


def test_readme_lists_every_topic() -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    for topic in TOPICS:
        assert f"| `kvcliff howto {topic.name}` | {explain(topic.name).title} |" in readme
