"""A whole report, byte for byte."""

import json

import matplotlib
import pytest

from builders_marts import add_run, empty_marts
from builders_report import swap_story
from kvcliff.findings.diagnosis import run_findings
from kvcliff.report.content import build_content
from kvcliff.report.figure import draw_figure, figure_png, figure_svg
from kvcliff.report.focus import choose_focus
from kvcliff.report.json_output import report_json
from kvcliff.report.markdown import report_markdown
from kvcliff.report.series import read_series

RUN_ID = "night_load-12345678"


@pytest.fixture(scope="module")
def story():
    return swap_story(labels="kind=synthetic")


def _markdown(con) -> str:
    content = build_content(con, RUN_ID)
    return report_markdown(content, figure_svg="figures/a.svg", figure_png="figures/a.png")


def test_markdown_is_the_golden_one(story, golden):
    golden("night_load.md", _markdown(story))


def test_json_is_the_golden_one(story, golden):
    golden("night_load.json", report_json(build_content(story, RUN_ID)))


def test_svg_is_the_golden_one(story, golden):
    content = build_content(story, RUN_ID)
    series = read_series(story, choose_focus(story))
    first = figure_svg(series, content.run_time, content.run.name)
    assert first == figure_svg(series, content.run_time, content.run.name)
    if matplotlib.__version__ != "3.11.2":
        pytest.skip("the golden SVG was drawn with matplotlib 3.11.2")
    golden("night_load.svg", first.decode())


def test_a_user_style_changes_nothing(story):
    content = build_content(story, RUN_ID)
    series = read_series(story, choose_focus(story))
    plain = figure_svg(series, content.run_time, content.run.name)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black", "svg.hashsalt": None}):
        assert figure_svg(series, content.run_time, content.run.name) == plain


def test_png_is_a_light_image(story):
    content = build_content(story, RUN_ID)
    png = figure_png(read_series(story, choose_focus(story)), content.run_time, content.run.name)
    assert png.startswith(b"\x89PNG")
    assert b"Software" not in png[:400]


def test_drawing_both_formats_at_once_changes_neither(story):
    content = build_content(story, RUN_ID)
    series = read_series(story, choose_focus(story))
    drawn = draw_figure(series, content.run_time, content.run.name)
    assert drawn.svg == figure_svg(series, content.run_time, content.run.name)
    # Width and height stand in the header of a PNG; what the pixels show was laid out for the SVG.
    alone = figure_png(series, content.run_time, content.run.name)
    assert drawn.png[:24] == alone[:24]
    assert abs(len(drawn.png) - len(alone)) < len(alone) / 10


def test_row_order_does_not_matter(story):
    before = _markdown(story), report_json(build_content(story, RUN_ID))
    for mart in ("kv_occupancy", "victims", "swap_points", "requests", "cache_hits", "engine_events"):
        story.execute(f"create or replace temp table {mart} as select * from {mart} order by hash(rowid + 7)")
    assert (_markdown(story), report_json(build_content(story, RUN_ID))) == before


def test_synthetic_is_said_at_the_top(story):
    head = _markdown(story).split("**")[0]
    assert "Synthetic run" in head


def test_wall_clock_of_ingestion_is_nowhere(story):
    data = json.loads(report_json(build_content(story, RUN_ID)))
    assert "ingested_at_ns" not in data["run"]


def test_json_holds_raw_numbers(story):
    data = json.loads(report_json(build_content(story, RUN_ID)))
    (points,) = [section for section in data["sections"] if section["key"] == "swap_points"]
    row = points["blocks"][0]["rows"][0]
    assert row["at_ns"] == 1_772_445_660 * 10**9
    assert row["kv_used_ratio"] == 0.993


def test_odd_title_is_drawn():
    con = swap_story(name="$\\frac{1}{2}$ <b>&中文\x1b")
    content = build_content(con, RUN_ID)
    svg = figure_svg(read_series(con, choose_focus(con)), content.run_time, content.run.name)
    assert b"<b>" not in svg
    assert b"\x1b" not in svg


def test_run_without_any_data_still_has_a_report():
    con = empty_marts("runs", "findings")
    add_run(con, started_at_ns=None, ended_at_ns=None, utc_known=False, status="partial")
    run_findings(con)
    content = build_content(con, RUN_ID)
    text = _markdown(con)
    assert content.figure is None
    assert content.verdict.verdict == "cannot_tell"
    assert "**Capture first:**" in text
    assert "What users saw: no file holds the times of a client's requests." in text
    assert "> Partial:" in text


def test_relative_run_clock_prints_no_date():
    con = empty_marts()
    add_run(con, started_at_ns=5 * 10**9, ended_at_ns=65 * 10**9, utc_known=False)
    run_findings(con)
    text = _markdown(con)
    assert "1970" not in text
    assert "Lasted 60 s" in text
