import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcliff.cli.output import Envelope, Problem, format_table, is_coloured, printable
from kvcliff.errors import InputError


def test_envelope_is_strict_json_with_sorted_keys() -> None:
    text = Envelope("x", {"b": float("nan"), "a": (1, 2.5, None, True), "c": float("inf")}).to_json()
    document = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert document["data"] == {"a": [1, 2.5, None, True], "b": None, "c": None}
    assert list(document) == ["command", "data", "errors", "schema", "status"]
    assert document["schema"] == "kvcliff.result/1"


def test_envelope_keeps_ns_exact() -> None:
    at_ns = 1_790_000_000_123_456_789
    assert json.loads(Envelope("x", {"at_ns": at_ns}).to_json())["data"]["at_ns"] == at_ns


def test_problem_of_an_error() -> None:
    problem = Problem.of(InputError("no", hint="do this"))
    assert (problem.code, problem.message, problem.hint) == ("input_unreadable", "no", "do this")


@given(st.text())
def test_printable_text_cannot_steer_a_terminal(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(char.isprintable() or char in "\n\t" for char in shown)


def test_printable_keeps_ordinary_text() -> None:
    assert printable("Größe 5 µs → ok") == "Größe 5 µs → ok"
    assert printable("a\x1b[31mb") == "a\N{REPLACEMENT CHARACTER}[31mb"


def test_table_is_aligned_and_keeps_cells_on_their_line() -> None:
    assert format_table(("a", "bb"), [("1", "x\ny"), ("long", "")]).splitlines() == [
        "a     bb",
        "----  ---",
        "1     x y",
        "long",
    ]


def test_no_terminal_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert not is_coloured(io.StringIO())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert is_coloured(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not is_coloured(io.StringIO())
