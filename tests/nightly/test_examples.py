"""The examples of README's chapter Nightly: their syntax, and that kvcliff knows every option in them."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvcliff.cli.nightly_cmd import nightly
from kvcliff.nightly.policy import read_nightly_policy
from kvcliff.store.catalog import threshold_names

README = Path(__file__).resolve().parents[2] / "README.md"
CHAPTER = README.read_text(encoding="utf-8").split("\n## Nightly\n")[1].split("\n## ")[0]
#: Content by the file name that stands in the first line of each block.
BLOCKS = dict(re.findall(r"^```\w*\n# (\S+)\n(.*?)^```$", CHAPTER, re.MULTILINE | re.DOTALL))
CRON_FIELD = r"(?:\*|[0-9]+(?:-[0-9]+)?)(?:/[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*"
CRON = re.compile(
    rf"(?P<when>{CRON_FIELD}(?:\s+{CRON_FIELD}){{4}})\s+(?P<user>[a-z_]\w*)\s+(?P<command>\S.*)"
)


def test_every_example_is_there() -> None:
    assert set(BLOCKS) == {
        "nightly.toml",
        "/etc/cron.d/kvcliff",
        "/etc/systemd/system/kvcliff-nightly.service",
        "/etc/systemd/system/kvcliff-nightly.timer",
        ".github/workflows/kvcliff.yml",
        ".gitlab-ci.yml",
        "kvcliff-cronjob.yaml",
    }


def command_lines() -> list[list[str]]:
    """Return the arguments of every nightly command in the chapter."""
    text = CHAPTER.replace(" || ", " ; ").replace(") ;", " ;")
    found = [
        line.partition("kvcliff nightly ")[2] for line in text.splitlines() if "kvcliff nightly /" in line
    ]
    lines = [shlex.split(re.split(r" ; | 2>&1", line)[0]) for line in found]
    container = yaml.safe_load(BLOCKS["kvcliff-cronjob.yaml"])["spec"]["jobTemplate"]["spec"]["template"][
        "spec"
    ]
    return [*lines, container["containers"][0]["command"][2:]]


def test_commands_are_ours(tmp_path: Path) -> None:
    policy = tmp_path / "nightly.toml"
    policy.touch()
    lines = command_lines()
    assert len(lines) == 6
    for line in lines:
        arguments = [str(policy) if word == "nightly.toml" else word for word in line]
        with nightly.make_context("nightly", arguments) as context:
            assert str(context.params["root"]).endswith("load-tests")
            assert context.params["db_path"].name == "nightly.duckdb"


def test_policy(tmp_path: Path) -> None:
    path = tmp_path / "nightly.toml"
    path.write_text(BLOCKS["nightly.toml"], encoding="utf-8")
    policy = read_nightly_policy(path, known_thresholds=threshold_names())
    assert policy.allowed_swap_points("load=stress, model=llama") == 20
    assert policy.allowed_swap_points("load=steady, model=llama") == 0


def test_crontab() -> None:
    (line,) = BLOCKS["/etc/cron.d/kvcliff"].splitlines()
    match = CRON.fullmatch(line)
    assert match is not None
    assert "%" not in match["command"], "cron reads it as a line break"
    assert subprocess.run(["sh", "-n", "-c", match["command"]], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd(tmp_path: Path) -> None:
    for name in ("kvcliff-nightly.service", "kvcliff-nightly.timer"):
        text = BLOCKS[f"/etc/systemd/system/{name}"]
        # The checker wants programs and users that this machine has.
        text = text.replace("/usr/local/bin/kvcliff", sys.executable).replace("User=kvcliff", "User=root")
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "kvcliff-nightly.timer")],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "kvcliff" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_github_workflow() -> None:
    workflow: Any = yaml.safe_load(BLOCKS[".github/workflows/kvcliff.yml"])
    # YAML 1.1 reads the key "on" as true.
    (schedule,) = workflow[True]["schedule"]
    assert re.fullmatch(rf"{CRON_FIELD}(?: {CRON_FIELD}){{4}}", schedule["cron"])
    (job,) = workflow["jobs"].values()
    assert "runs-on" in job
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step)
        assert set(step) <= {"name", "uses", "run", "with", "if"}
        if "run" in step:
            assert subprocess.run(["bash", "-n", "-c", step["run"]], check=False).returncode == 0


def test_gitlab_job() -> None:
    (job,) = yaml.safe_load(BLOCKS[".gitlab-ci.yml"]).values()
    assert set(job) == {"rules", "tags", "image", "script", "allow_failure", "artifacts"}
    assert job["allow_failure"] == {"exit_codes": 4}
    assert job["artifacts"]["reports"]["junit"] == "nightly/junit.xml"
    for line in job["script"]:
        assert subprocess.run(["sh", "-n", "-c", line], check=False).returncode == 0


def test_kubernetes_cron_job() -> None:
    job = yaml.safe_load(BLOCKS["kvcliff-cronjob.yaml"])
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    assert re.fullmatch(rf"{CRON_FIELD}(?: {CRON_FIELD}){{4}}", job["spec"]["schedule"])
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    mounts = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    assert pod["restartPolicy"] in ("Never", "OnFailure")
