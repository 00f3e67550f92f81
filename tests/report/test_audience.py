from dataclasses import replace

import pytest

from builders_report import swap_story
from kvcliff.cli import options
from kvcliff.report.audience import AUDIENCES, for_audience
from kvcliff.report.content import build_content
from kvcliff.report.document import Commands, FigureText, Table


@pytest.fixture(scope="module")
def content():
    figures = tuple(
        FigureText(name, name, section, "", None, None, f"{name}.svg", f"{name}.png")
        for name, section in (("kv_and_latency", None), ("knee", "levels"))
    )
    return replace(build_content(swap_story(), "night-1"), figures=figures)


def test_an_engineer_gets_everything(content):
    assert for_audience(content, "engineer") == content


def test_an_incident_gets_the_first_page(content):
    short = for_audience(content, "incident")
    assert [section.key for section in short.sections] == [
        "swap_points",
        "slo",
        "actions",
        "gaps",
        "provenance",
    ]
    assert [figure.name for figure in short.figures] == ["kv_and_latency"]
    assert (short.verdict, short.notices) == (content.verdict, content.notices)
    assert short.audience == "incident"


def test_the_origin_of_an_incident_report_is_its_files(content):
    provenance = for_audience(content, "incident").sections[-1]
    assert [block.mart for block in provenance.blocks if isinstance(block, Table)] == ["sources"]
    commands = [line for block in provenance.blocks if isinstance(block, Commands) for line in block.lines]
    assert "kvcliff diagnose night_load --audience incident" in commands


def test_the_command_line_offers_the_same():
    assert options.AUDIENCES == AUDIENCES
