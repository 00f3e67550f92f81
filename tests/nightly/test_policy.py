from pathlib import Path

import pytest

from kvcliff.cli.policy import NIGHTLY_TABLES, read_policy
from kvcliff.errors import UsageProblem
from kvcliff.nightly.policy import MetricRule, NightlyPolicy, read_nightly_policy

WHOLE = """\
[discovery]
marker = "DONE"
quiet_s = 60
depth = 2
ignore = ["scratch*"]
attempts = 5

[baseline]
labels = ["model", "gpu"]
ignore_labels = ["commit"]
runs = 7
min_runs = 2

[gate]
worse = "warn"
inconclusive = "ignore"
broken_run = "fail"
swap_points = "inconclusive"
allowed_swap_points = 3
swap_point_classes = ["confirmed", "probable"]

[gate.metrics.itl_p99]
severity = "fail"
max = 250
min_change_ratio = 0.1

[gate.metrics."family:decode/attention"]
severity = "warn"

[[series]]
match = "model=llama*"
allowed_swap_points = 0
[series.metrics.itl_p99]
max = 100

[quarantine]
runs = ["night-03*"]
metrics = ["ttft_p50"]

[retention]
raw_days = 30
compact_free_ratio = 0.7

[thresholds]
kv_high_ratio = 0.9
"""


def read(tmp_path: Path, text: str) -> NightlyPolicy:
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return read_nightly_policy(path, known_thresholds=frozenset({"kv_high_ratio"}))


def test_diagnose_knows_the_tables_of_the_nightly_job() -> None:
    assert set(NIGHTLY_TABLES) == set(NightlyPolicy.__dataclass_fields__) - {"thresholds"}


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    assert read(tmp_path, "") == NightlyPolicy()


def test_every_key_is_read(tmp_path: Path) -> None:
    policy = read(tmp_path, WHOLE)
    assert (policy.discovery.marker, policy.discovery.quiet_s, policy.discovery.depth) == ("DONE", 60, 2)
    assert policy.discovery.ignore == ("scratch*",)
    assert policy.discovery.attempts == 5
    assert policy.baseline.labels == ("model", "gpu")
    assert (policy.baseline.runs, policy.baseline.min_runs) == (7, 2)
    assert (policy.gate.worse, policy.gate.inconclusive, policy.gate.broken_run) == ("warn", "ignore", "fail")
    assert policy.gate.swap_point_classes == ("confirmed", "probable")
    assert policy.quarantine.metrics == ("ttft_p50",)
    assert (policy.retention.raw_days, policy.retention.compact_free_ratio) == (30, 0.7)
    assert policy.thresholds == (("kv_high_ratio", 0.9),)


def test_the_rule_of_a_series_wins_key_by_key(tmp_path: Path) -> None:
    policy = read(tmp_path, WHOLE)
    assert policy.rule_for("itl_p99", "model=llama-8b") == MetricRule("fail", 0.1, None, 100)
    assert policy.rule_for("itl_p99", "model=qwen") == MetricRule("fail", 0.1, None, 250)
    assert policy.rule_for("itl_p50", "model=qwen") == MetricRule()
    assert policy.allowed_swap_points("model=llama-8b") == 0
    assert policy.allowed_swap_points("model=qwen") == 3
    assert NightlyPolicy().allowed_swap_points("model=qwen") is None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("\n\n[gaet]\nworse = 'fail'\n", ", line 3: unknown key 'gaet'", "allowed here: baseline, "),
        ("[gate]\nworse = 'fail'\nswap = 1\n", ", line 3: unknown key 'gate.swap'", "allowed here: allowed_"),
        ("[gate]\nworse = 'loud'\n", ", line 2: 'gate.worse' is no severity: loud", "one of: fail, "),
        ("[gate.metrics.itl_p9]\nmax = 1\n", ", line 1: unknown metric 'gate.metrics.itl_p9'", "itl_p99"),
        (
            "[gate.metrics.itl_p99]\nmaximum = 1\n",
            ", line 2: unknown key 'gate.metrics.itl_p99.maximum'",
            "max",
        ),
        ("[discovery]\ndepth = 0\n", ", line 2: 'discovery.depth' is no whole number from 1 up", "depth = 1"),
        ("[discovery]\nquiet_s = '5'\n", ", line 2: 'discovery.quiet_s' is no number", "without quotes"),
        ("[discovery]\nmarker = 'a/b'\n", ", line 2: 'discovery.marker' is no file name", "DONE"),
        ("[baseline]\nlabels = 'gpu'\n", ", line 2: 'baseline.labels' is no list of texts", '["one", "two"]'),
        ("[[series]]\nallowed_swap_points = 1\n", "'series[1].match' is missing", "match ="),
        ("[quarantine]\nmetrics = ['x']\n", ", line 2: 'quarantine.metrics' names no metric: x", "one of: "),
        ("[gate]\nswap_point_classes = ['x']\n", "names no class: x", "one of: confirmed, "),
        ("[retention]\ncompact_free_ratio = 2\n", ", line 2: 'retention.compact_free_ratio' is not", "0.5"),
        ("[thresholds]\nkv_hihg = 1\n", ", line 2: unknown key 'thresholds.kv_hihg'", "kv_high_ratio"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, message: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem) as caught:
        read(tmp_path, text)
    assert message in caught.value.message
    assert str(tmp_path / "policy.toml") in caught.value.message
    assert hint in str(caught.value.hint)


def test_one_file_serves_diagnose_too(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    names = frozenset({"kv_high_ratio"})
    path.write_text(WHOLE, encoding="utf-8")
    assert read_policy(path, names) == {"kv_high_ratio": 0.9}
    path.write_text("[gate]\nworse = 'warn'\n", encoding="utf-8")
    assert read_policy(path, names) == {}
    path.write_text("gate = 1\n", encoding="utf-8")
    with pytest.raises(UsageProblem, match="unknown threshold: gate"):
        read_policy(path, names)


@pytest.mark.parametrize("content", [b"[gate\n", b"\xff\xfe"])
def test_no_toml(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_bytes(content)
    with pytest.raises(UsageProblem, match=r"policy\.toml is not"):
        read_nightly_policy(tmp_path / "policy.toml", known_thresholds=frozenset())


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot read the policy file"):
        read_nightly_policy(tmp_path / "policy.toml", known_thresholds=frozenset())
