"""A whole report, byte for byte."""

import json
from dataclasses import replace

import matplotlib
import pytest

from builders_marts import add_run, empty_marts
from builders_report import swap_story
from kvcliff.findings.diagnosis import run_findings
from kvcliff.report.content import build_content
from kvcliff.report.figures import draw_figures
from kvcliff.report.json_output import report_json
from kvcliff.report.kv_figure import kv_figure
from kvcliff.report.markdown import report_markdown

RUN_ID = "night_load-12345678"


@pytest.fixture(scope="module")
def story():
    return swap_story(labels="kind=synthetic")


@pytest.fixture(scope="module")
def content(story):
    return _content(story)


def _content(con):
    """Return what the report says, its figures named."""
    content = build_content(con, RUN_ID)
    shown = draw_figures(con, content.run_time, content.run.name)
    return replace(content, figures=tuple(figure.text for figure in shown))


def _figure(con):
    content = build_content(con, RUN_ID)
    return kv_figure(con, content.run_time, content.run.name)


def test_markdown_is_the_golden_one(content, golden):
    golden("night_load.md", report_markdown(content))


def test_json_is_the_golden_one(content, golden):
    golden("night_load.json", report_json(content))


def test_svg_is_the_golden_one(story, golden):
    first = _figure(story).svg
    assert first == _figure(story).svg
    if matplotlib.__version__ != "3.11.2":
        pytest.skip("the golden SVG was drawn with matplotlib 3.11.2")
    golden("night_load.svg", first.decode())


def test_a_user_style_changes_nothing(story):
    plain = _figure(story).svg
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black", "svg.hashsalt": None}):
        assert _figure(story).svg == plain


def test_png_is_a_light_image(story):
    png = _figure(story).png
    assert png.startswith(b"\x89PNG")
    assert b"Software" not in png[:400]


def test_row_order_does_not_matter(story):
    before = _content(story)
    for mart in ("kv_occupancy", "victims", "swap_points", "requests", "cache_hits", "engine_events"):
        story.execute(f"create or replace temp table {mart} as select * from {mart} order by hash(rowid + 7)")
    assert _content(story) == before


def test_synthetic_is_said_at_the_top(content):
    head = report_markdown(content).split("**")[0]
    assert "Synthetic run" in head


def test_wall_clock_of_ingestion_is_nowhere(content):
    data = json.loads(report_json(content))
    assert "ingested_at_ns" not in data["run"]


def test_json_holds_raw_numbers(content):
    data = json.loads(report_json(content))
    (points,) = [section for section in data["sections"] if section["key"] == "swap_points"]
    row = points["blocks"][0]["rows"][0]
    assert row["at_ns"] == 1_772_445_660 * 10**9
    assert row["kv_used_ratio"] == 0.993


def test_odd_title_is_drawn():
    con = swap_story(name="$\\frac{1}{2}$ <b>&中文\x1b")
    svg = _figure(con).svg
    assert b"<b>" not in svg
    assert b"\x1b" not in svg


def test_run_without_any_data_still_has_a_report():
    con = empty_marts("runs", "findings")
    add_run(con, started_at_ns=None, ended_at_ns=None, utc_known=False, status="partial")
    run_findings(con)
    content = _content(con)
    text = report_markdown(content)
    assert content.figures == ()
    assert content.verdict.verdict == "cannot_tell"
    assert "**Capture first:**" in text
    assert "What users saw: no file holds the times of a client's requests." in text
    assert "> Partial:" in text


def test_relative_run_clock_prints_no_date():
    con = empty_marts()
    add_run(con, started_at_ns=5 * 10**9, ended_at_ns=65 * 10**9, utc_known=False)
    run_findings(con)
    text = report_markdown(_content(con))
    assert "1970" not in text
    assert "Lasted 60 s" in text
