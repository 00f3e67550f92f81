"""The HTML report: the same content as the Markdown, harmless whatever the inputs hold."""

import base64
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from builders_marts import add_rows
from builders_report import swap_story
from kvcliff.report.content import build_content
from kvcliff.report.document import Column, Commands, Gap, Gaps, Paragraph, Section, Steps, Table
from kvcliff.report.figures import draw_figures
from kvcliff.report.html import report_html
from kvcliff.report.json_output import report_data
from kvcliff.report.markdown import report_markdown

VOID = {"meta", "img", "br", "link"}
HOSTILE = (
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "]]><svg onload=alert(1)>",
    "<!-- --><b>bold</b>&lt;i&gt;",
    "void kernel<float, (int)3>(T const*) \u202e\x1b[31m",
    "javascript:alert(1)",
)


class Page(HTMLParser):
    """Tags in order, those left open, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def shown():
    con = swap_story()
    content = build_content(con, "night-1")
    figures = draw_figures(con, content.run_time, content.run.name)
    return replace(content, figures=tuple(figure.text for figure in figures)), {
        figure.text.svg: figure.drawn.svg for figure in figures
    }


@pytest.fixture(scope="module")
def html(shown):
    return report_html(*shown)


def test_it_is_well_formed_and_loads_nothing(html):
    page = Page(html)
    assert page.open == []
    assert not {"script", "iframe", "object", "embed", "link", "base", "form"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:image/", "#"))
    assert "http:" not in html.split("base64,")[0]


def test_images_are_inside(html, shown):
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert base64.b64decode(data) == next(iter(shown[1].values()))


def test_every_section_has_an_anchor_that_the_contents_name(html, shown):
    page = Page(html)
    anchors = {attributes["id"] for tag, attributes in page.tags if tag == "section"}
    links = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    assert anchors == {section.key.replace("_", "-") for section in shown[0].sections}
    assert {f"#{anchor}" for anchor in anchors} == links


def test_it_says_what_the_markdown_says(html, shown):
    """Each word of the Markdown stands in the page as often: nothing was lost on the way."""
    lines = [line for line in report_markdown(shown[0]).splitlines() if not line.startswith("![")]
    text = re.sub(r"\\(?=[^\w\s])", "", "\n".join(lines)).replace("\u2060", "")
    text = re.sub(r"\[PNG\]\(figures/\w+\.png\)|^```sh$|^\d+\. ", "", text, flags=re.MULTILINE)
    said, shown_words = (Counter(re.findall(r"\w+", part)) for part in (text, " ".join(Page(html).text)))
    assert dict(said - shown_words) == {}


def test_same_bytes_twice(shown, html):
    assert report_html(*shown) == html


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_inputs_is_only_text(shown, text):
    content, images = shown
    columns = (Column("a", text, "name"), Column("b", "B", "word"), Column("c", "C", "by_unit"))
    unit = Column("unit", "Unit", "hidden")
    blocks = (
        Table("mart", (*columns, unit), ((text, text, 3, text),), more_count=2, more_words=text),
        Paragraph(text),
        Steps((text,)),
        Gaps((Gap(text, text),)),
        Commands((text,)),
    )
    hostile = replace(
        content,
        run=replace(content.run, name=text),
        headline=text,
        verdict=replace(content.verdict, sentence=text, action=text, capture=text, reason=text, finding=text),
        notices=(text,),
        figures=tuple(replace(figure, title=text, caption=text) for figure in content.figures),
        sections=(Section("hostile", text, blocks),),
    )
    page = Page(report_html(hostile, images))
    assert page.open == []
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in Page(report_html(content, images)).tags} | {
        "ol",
        "pre",
    }
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert "\x1b" not in str(attributes)
    assert "\u202e" not in "".join(page.text)


def test_a_hostile_request_id_stays_text():
    con = swap_story()
    add_rows(con, "victims", {"swap_point_id": 1, "replica_id": "0", "request_id": HOSTILE[2], "gap_ms": 9e6})
    content = build_content(con, "night-1")
    page = Page(report_html(content, {}))
    assert HOSTILE[2] in page.text
    assert "img" not in {tag for tag, _ in page.tags}


def test_cells_are_those_of_the_data(shown):
    content, images = shown
    rows = sum(
        len(block["rows"])
        for section in report_data(content)["sections"]
        for block in section["blocks"]
        if block["type"] == "table"
    )
    tables = sum(isinstance(block, Table) for section in content.sections for block in section.blocks)
    page = Page(report_html(content, images))
    assert [tag for tag, _ in page.tags].count("tr") == rows + tables
