import io
import sys
import time

import pytest

from kvcliff.cli import progress as progress_module
from kvcliff.cli.progress import progress
from kvcliff.timing import expect, stage


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_quick_stages_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(), stage("quick"):
        pass
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_slow_stages_leave_a_line_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "_SLOW_STAGE_S", -1.0)
    with progress(), stage("read \x1b[2Jserver.log"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "read \N{REPLACEMENT CHARACTER}[2Jserver.log: 0.0 s\n"


def test_nothing_is_shown_after_the_block(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "_SLOW_STAGE_S", -1.0)
    with progress():
        pass
    with stage("later"):
        pass
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_moving_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress(), stage("outer"), stage("inner [red]"):
        pass
    assert capsys.readouterr().out == ""


def test_says_what_may_be_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(time, "perf_counter", lambda: now_s[0])
    expect({"read a": 10.0, "read b": 10.0, "models": 20.0})
    with progress():
        for name in ("read a", "read b", "models"):
            with stage(name):
                now_s[0] += 4.0
    assert capsys.readouterr().err.splitlines() == [
        "read a: 4.0 s, about 12 s left",
        "read b: 4.0 s, about 8 s left",
        "models: 4.0 s",
    ]


def test_work_that_nobody_announced_has_no_estimate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(time, "perf_counter", lambda: now_s[0])
    expect({})
    with progress(), stage("findings"):
        now_s[0] += 4.0
    assert capsys.readouterr().err == "findings: 4.0 s\n"


def test_what_is_left_counts_down_inside_a_long_stage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(time, "perf_counter", lambda: now_s[0])
    expect({"read": 10.0, "models": 20.0})
    with progress():
        with stage("read"):
            now_s[0] += 4.0
        with stage("models"):
            for name in ("steps", "swap points"):
                with stage(name):
                    now_s[0] += 3.0
    assert capsys.readouterr().err.splitlines() == [
        "read: 4.0 s, about 8 s left",
        "steps: 3.0 s, about 5 s left",
        "swap points: 3.0 s, about 2 s left",
        "models: 6.0 s",
    ]
