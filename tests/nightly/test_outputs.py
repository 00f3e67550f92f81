"""The outputs of a pass: JSON against its published schema, JUnit, OpenMetrics with a real parser."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from builders_nightly import comparison, metric
from kvcliff.errors import OutputError
from kvcliff.nightly.comparison.compare import Cause
from kvcliff.nightly.discovery import RunFolder
from kvcliff.nightly.files import write_file, write_files
from kvcliff.nightly.gate import Judgement, Subject, judge
from kvcliff.nightly.index_page import figure_path, index_files
from kvcliff.nightly.intake import Refusal
from kvcliff.nightly.json_output import SCHEMA_PATH, night_data
from kvcliff.nightly.junit import junit_xml
from kvcliff.nightly.night import NightResult
from kvcliff.nightly.openmetrics import openmetrics_text
from kvcliff.nightly.policy import NightlyPolicy
from kvcliff.nightly.sparkline import Point, sparkline
from kvcliff.nightly.state import FolderState, StoredJudgement
from kvcliff.nightly.summary import summary_line
from kvcliff.nightly.view import NightVerdict, NightView, RunLine, SeriesTrend
from kvcliff.store.catalog import StoredRun

EVIL = 'evil"\\ \n<b>&|@all\x1b[31m\x00'
START_NS = 1_790_000_000_000_000_000


def line(
    number: int, *, judgement: Judgement | None = None, series: str = "model=llama", folder: str | None = None
) -> RunLine:
    """Return a run whose comparison says the same, unless a judgement is given."""
    run_id = f"run-{number}"
    subject = Subject(run_id, series, f"night-{number}", ("base-1",), 0)
    usual = judge(
        subject,
        comparison(
            metric("itl_p50", run=20.0 + number),
            metric("tokens_per_s", unit="tokens/s", run=100.0),
            metric("phase:decode", "better", run=10.0, is_gating=False),
            metric("kv_peak", unit="ratio", base=0.5, run=0.6, is_gating=False),
        ),
        NightlyPolicy(),
    )
    started = START_NS + number * 86_400_000_000_000
    run = StoredRun(run_id, "night", None, "ok", True, started, started + 1, 0, 1, "0.1.0", started)
    return RunLine(
        StoredJudgement(judgement or usual, started, None, None),
        run,
        folder or f"night-{number}",
        f"runs/{run_id}/report.md",
        "No swap point.",
    )


def failed(number: int, name: str = "slower") -> RunLine:
    """Return a run that failed, with all kinds of checks and awkward texts."""
    whole = comparison(
        metric("itl_p50", "worse", run=30.0),
        metric("itl_p99", "inconclusive", run=22.0, level=EVIL),
        metric("ttft_p50", run=None),
        metric("preemptions", "worse", base=0.0, run=7.0, unit="count"),
        verdict="worse",
        causes=(Cause("why", "setting", "x", f"max_num_seqs differs {EVIL}"),),
    )
    subject = Subject(f"run-{number}", "model=llama", name, ("base-1",), 2)
    return line(number, judgement=judge(subject, whole, NightlyPolicy()), folder=name)


def view(*lines: RunLine, verdict: NightVerdict = "failed", has_trouble: bool = True) -> NightView:
    """Return what a pass says of these runs, with a folder set aside and one that waits."""
    aside = FolderState(EVIL, "f", "set_aside", None, 0, f"nothing {EVIL}", "look", "0.1.0", 1)
    waiting = RunFolder(Path("x"), "late", "f", 1, "it changed")
    trouble = has_trouble
    result = NightResult(
        judged=tuple(entry.stored for entry in lines),
        set_aside=(aside,) if trouble else (),
        waiting=(waiting,) if trouble else (),
        new_count=len(lines),
        report_problems=(("run-9", Refusal("a bug", None)),) if trouble else (),
        raw_removed=("run-0",) if trouble else (),
    )
    trends = (SeriesTrend("model=llama", lines),) if lines else ()
    return NightView(verdict, result, lines, trends, (aside,) if trouble else (), "inconclusive")


FULL = view(line(1), line(2), failed(3), failed(4, EVIL))
EMPTY = view(verdict="passed", has_trouble=False)


# -- JSON


def schema_errors(
    value: Any, schema: dict[str, Any], root: dict[str, Any], place: str = "$"
) -> Iterator[str]:
    """Yield where a value breaks a schema of the words that ours uses; an unknown word is an error too."""
    for word, rule in schema.items():
        if word == "$ref":
            target: Any = root
            for part in rule.removeprefix("#/").split("/"):
                target = target[part]
            yield from schema_errors(value, target, root, place)
        elif word == "type":
            if not any(_is_type(value, name) for name in ([rule] if isinstance(rule, str) else rule)):
                yield f"{place} is no {rule}"
        elif word == "const":
            yield from () if value == rule else (f"{place} is not {rule}",)
        elif word == "enum":
            yield from () if value in rule else (f"{place} is none of {rule}",)
        elif word == "minimum":
            yield from () if value >= rule else (f"{place} is below {rule}",)
        elif word == "required":
            yield from (f"{place} lacks {name}" for name in rule if name not in value)
        elif word == "properties":
            for name, inner in rule.items():
                if name in value:
                    yield from schema_errors(value[name], inner, root, f"{place}.{name}")
        elif word == "additionalProperties":
            assert rule is False
            known = schema["properties"]
            yield from (f"{place} has {name} too" for name in value if name not in known)
        elif word == "items":
            for number, item in enumerate(value):
                yield from schema_errors(item, rule, root, f"{place}[{number}]")
        elif word == "anyOf":
            if all(list(schema_errors(value, inner, root, place)) for inner in rule):
                yield f"{place} is none of the alternatives"
        else:
            assert word in ("$schema", "$defs", "title"), word


def _is_type(value: Any, name: str) -> bool:
    types: dict[str, tuple[type, ...]] = {
        "object": (dict,),
        "array": (list,),
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "null": (type(None),),
    }
    return isinstance(value, types[name]) and not isinstance(value, bool)


def envelope(data: Any, *errors: dict[str, Any]) -> Any:
    text = json.dumps(
        {
            "schema": "kvcliff.result/1",
            "command": "nightly",
            "status": "ok",
            "data": data,
            "errors": list(errors),
        },
        allow_nan=False,
    )
    return json.loads(text)


def problems(document: Any) -> list[str]:
    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    return list(schema_errors(document, schema, schema))


@pytest.mark.parametrize(("shown", "code"), [(FULL, 10), (EMPTY, 0)])
def test_json_follows_its_schema(shown: NightView, code: int) -> None:
    error = {"code": "gate_tripped", "message": "m", "hint": None}
    assert problems(envelope(night_data(shown, code), error)) == []
    assert problems(envelope(None, error)) == []


def test_the_schema_refuses_what_is_wrong() -> None:
    document = envelope(night_data(FULL, 10))
    document["data"]["runs"][0]["verdict"] = "fine"
    document["data"]["runs"][1]["checks"][0].pop("message")
    document["data"]["more"] = 1
    assert problems(document) == ["$.data is none of the alternatives"]
    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    assert len(list(schema_errors(document["data"], {"$ref": "#/$defs/night"}, schema))) == 3


# -- JUnit

#: The xUnit schema that Jenkins publishes (junit-10.xsd): attributes (* = required) and children.
JUNIT_RULES: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {
            "name*", "tests*", "failures*", "errors*", "group", "time", "skipped", "timestamp", "hostname",
            "id", "package", "file", "log", "url",
        },
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name*", "value*"}, set()),
    "testcase": (
        {"name*", "time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message", "type"}, set()),
    "system-out": (set(), set()),
}  # fmt: skip
SUREFIRE_TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")
COUNTS = {"tests", "failures", "errors", "skipped"}


def check_junit(element: Xml.Element) -> None:
    attributes, children = JUNIT_RULES[element.tag]
    assert set(element.attrib) <= {name.removesuffix("*") for name in attributes}, element.tag
    assert {name[:-1] for name in attributes if name.endswith("*")} <= set(element.attrib), element.tag
    for name, value in element.attrib.items():
        if name in COUNTS:
            assert re.fullmatch(r"\d+", value)
        if name == "time":
            assert SUREFIRE_TIME.fullmatch(value)
    for child in element:
        assert child.tag in children, (element.tag, child.tag)
        check_junit(child)


@pytest.mark.parametrize("shown", [FULL, EMPTY])
def test_junit_follows_its_schema(shown: NightView) -> None:
    check_junit(Xml.fromstring(junit_xml(shown)))


def test_junit_counts_and_words() -> None:
    suites = Xml.fromstring(junit_xml(view(line(1), failed(2))))
    ok, bad, aside = suites
    assert (ok.get("failures"), ok.get("skipped"), ok.get("tests")) == ("0", "0", "5")
    assert (bad.get("failures"), bad.get("skipped"), bad.get("errors")) == ("2", "1", "0")
    assert aside.get("skipped") == "1"
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("11", "2", "0")
    failure = bad.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "title of itl_p50 worse, 20 ms -> 30 ms (+50.0 %)"
    assert str(failure.text).startswith("max_num_seqs differs evil")
    skipped = bad.find("testcase/skipped")
    assert skipped is not None
    assert str(skipped.get("message")).startswith("inconclusive: ")


# -- OpenMetrics


@pytest.mark.parametrize("shown", [FULL, EMPTY])
def test_openmetrics_is_read_by_both_parsers(shown: NightView) -> None:
    text = openmetrics_text(shown)
    families = list(parse_openmetrics(text))
    assert all(family.type == "gauge" for family in families)
    older = {family.name: family.samples for family in parse_prometheus(text)}
    assert {family.name: family.samples for family in families} == older


def test_openmetrics_values_are_in_base_units() -> None:
    families = {family.name: family.samples for family in parse_openmetrics(openmetrics_text(view(line(3))))}
    series = {"series": "model=llama"}
    (latency,) = families["kvcliff_nightly_itl_p50_seconds"]
    assert (latency.labels, latency.value) == (series, 0.023)
    (phase,) = families["kvcliff_nightly_phase_seconds"]
    assert (phase.labels, phase.value) == ({**series, "name": "decode"}, 0.01)
    assert families["kvcliff_nightly_tokens_per_s"][0].value == 100
    assert families["kvcliff_nightly_kv_peak_ratio"][0].value == 0.6
    changes = {sample.labels["metric"]: sample.value for sample in families["kvcliff_nightly_change_ratio"]}
    assert changes["itl_p50"] == pytest.approx(0.15)
    words = {item.labels["verdict"]: item.value for item in families["kvcliff_nightly_verdict"]}
    assert [word for word, value in words.items() if value] == ["passed"]
    assert families["kvcliff_nightly_set_aside_folders"][0].value == 1


# -- summary, page, figures


def test_summary_is_one_line() -> None:
    text = summary_line(FULL)
    assert text.startswith(
        "kvcliff nightly failed: 4 new runs: 2 failed, 2 passed; slower: the whole is worse; "
    )
    assert text.isprintable()
    assert len(text) <= 400
    assert summary_line(EMPTY) == "kvcliff nightly passed: no new run"


def test_the_page_shows_trends_and_escapes_text() -> None:
    files = index_files(FULL)
    page = files["index.md"].decode()
    assert "| [`night-1`](runs/run-1/report.md) |" in page
    assert "**failed**" in page
    assert "<b>" not in re.sub(r"`[^`]*`", "", page).replace(r"\<", "")
    assert "\x1b" not in page
    rows = [row for row in page.splitlines() if row.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) >= 5 for row in rows)
    linked = re.findall(r"!\[trend\]\(([^)]+)\)", page)
    assert set(linked) == set(files) - {"index.md"}
    for name in linked:
        Xml.fromstring(files[name].decode())


def test_columns_of_every_table_add_up() -> None:
    width = None
    for row in index_files(FULL)["index.md"].decode().splitlines():
        if not row.startswith("|"):
            width = None
            continue
        bars = len(re.findall(r"(?<!\\)\|", row))
        width = width or bars
        assert bars == width, row


def test_sparkline_shapes() -> None:
    text = sparkline([Point(1.0), Point(None), Point(2.0, True), Point(3.0)], "a < b")
    figure = Xml.fromstring(text)
    tags = [child.tag.rpartition("}")[2] for child in figure]
    assert tags == ["title", "polyline", "rect", "circle"], "a hole breaks the line, one point alone has none"
    assert "<title>a &lt; b</title>" in text
    assert sparkline([], "nothing") == sparkline([], "nothing")


def test_a_flat_trend_looks_flat() -> None:
    (heights,) = re.findall(r'points="([^"]+)"', sparkline([Point(100.0), Point(101.0)], "flat"))
    first, second = (float(pair.split(",")[1]) for pair in heights.split())
    assert abs(first - second) < 5


def test_figures_of_series_do_not_collide() -> None:
    other = SeriesTrend("model=qwen", (line(1, series="model=qwen"),))
    check = other.metrics[0]
    assert figure_path(other, check) != figure_path(FULL.trends[0], check)


# -- writing


def test_files_appear_whole_and_stay_when_equal(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/b.txt": b"one", "c.txt": b"two"})
    before = (tmp_path / "c.txt").stat().st_mtime_ns
    write_files(tmp_path, {"a/b.txt": b"new", "c.txt": b"two"})
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"new"
    assert (tmp_path / "c.txt").stat().st_mtime_ns == before
    write_file(tmp_path / "c.txt", b"two", is_always=True)
    assert (tmp_path / "c.txt").stat().st_mtime_ns > before
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["b.txt", "c.txt"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no folder", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot write"):
        write_files(tmp_path, {"a/b.txt": b"one"})
