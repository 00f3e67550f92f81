"""The registry of figures: names, places, and what happens when there is nothing to draw."""

import re

import pytest

from builders_marts import add_run, empty_marts
from builders_report import swap_story
from kvcliff.findings.run_time import read_run_time
from kvcliff.report.content import build_content
from kvcliff.report.figures import FIGURES, FOLDER, draw_figures


def test_names_are_their_own_and_safe():
    names = [figure.name for figure in FIGURES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names)
    assert all(figure.svg_name.startswith(f"{FOLDER}/") for figure in FIGURES)
    assert all(figure.title for figure in FIGURES)


def test_the_main_figure_comes_first_and_under_the_verdict():
    assert (FIGURES[0].name, FIGURES[0].section) == ("kv_and_latency", None)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_run_without_data_has_nothing_to_draw(figure):
    for con in (empty_marts("runs"), empty_marts()):
        add_run(con)
        assert figure.draw(con, read_run_time(con), "night") is None


def test_a_figure_without_its_section_stands_under_the_verdict():
    con = swap_story()
    content = build_content(con, "night-1")
    shown = draw_figures(con, content.run_time, "night")
    assert shown[0].text.name == "kv_and_latency"
    assert all(figure.text.caption.endswith(".") for figure in shown)
    assert all(figure.drawn.svg.startswith(b"<?xml") for figure in shown)
    # White ground of their own: they are legible on a dark page too.
    assert all(b"fill: #ffffff" in figure.drawn.svg for figure in shown)
