from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kvcliff.report.escape import code_span, file_name, markdown_text, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("red\x1b[31m", "red\\x1b[31m"),
        ("two\nlines\r", "two\\x0alines\\x0d"),
        ("c1 \x9b0m", "c1 \\x9b0m"),
        ("left\u202eright", "left\\u202eright"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("lone \ud800", "lone \\ud800"),
        ("plain 100 % ± µs", "plain 100 % ± µs"),
    ],
)
def test_plain_shows_what_would_steer_a_terminal(text, shown):
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kv_stress", "kv_stress"),
        ("a/../b c", "a_.._b_c"),
        ("..", "run"),
        ("", "run"),
        ("x:y", "x_y"),
        (".hidden", "hidden"),
        ("\u202ea\x00b\x1b", "_a_b_"),
    ],
)
def test_file_name_is_one_safe_part(name: str, expected: str) -> None:
    assert file_name(name) == expected
    assert Path("x", file_name(name)).resolve().parent == Path("x").resolve()


def test_long_file_names_are_cut_and_stay_apart():
    names = {file_name("漢" * 4000 + tail) for tail in ("a", "b")}
    assert len(names) == 2
    assert {len(name.encode()) <= 150 for name in names} == {True}


def test_plain_cuts_long_text():
    assert plain("x" * 300) == "x" * 199 + "…"


def _rendered(markdown: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "**bold** _it_ `code` ~~gone~~",
        "[link](http://x.y) ![img](z)",
        "# heading",
        "1. item",
        "- item",
        "> quote",
        "&lt; &amp; &#65;",
        "a | b",
        "back\\slash",
        "=== ---",
        "<!-- hidden -->",
        "|---|",
        "+ plus",
        "__double__ _a__b_",
    ],
)
def test_markdown_text_renders_as_itself(text):
    html = _rendered(markdown_text(text))
    expected = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    assert html.replace("\u2060", "") == f"<p>{expected}</p>\n"


def test_names_inside_words_stay_readable():
    assert markdown_text("max_num_seqs at 99.2 % (5 s)") == "max_num_seqs at 99.2 % (5 s)"


def test_mentions_and_references_are_broken():
    assert markdown_text("ask @root about #12") == "ask @\u2060root about #\u206012"


def test_links_are_not_made():
    assert markdown_text("see https://a.b and www.c.d") == "see https\\://a.b and www\\.c.d"


@given(st.text(alphabet=st.characters(), max_size=60))
def test_no_text_becomes_markup(text):
    html = _rendered(markdown_text("x " + text))
    assert html.startswith("<p>x")
    assert html.count("<") == 2, html


@given(st.text(alphabet="`|\\ab<>&*_ \n\x1b", max_size=40))
def test_code_span_keeps_its_text_in_one_cell(text):
    span = code_span(text, in_table=True)
    html = _rendered(f"| a | b |\n|---|---|\n| {span} | end |\n")
    assert html.count("<td>") == 2, html
    assert "<td>end</td>" in html


def test_code_span_with_backticks():
    assert code_span("a`b") == "``a`b``"
    assert code_span("`a`") == "`` `a` ``"
    assert code_span("") == ""
