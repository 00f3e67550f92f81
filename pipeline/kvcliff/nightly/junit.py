"""The pass as JUnit XML, so that a CI server lists runs and metrics as tests."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from kvcliff.nightly.gate import Check
from kvcliff.nightly.view import NightView, RunLine

#: Characters that XML 1.0 cannot hold, even escaped.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(view: NightView) -> str:
    """Return the pass as JUnit XML: a suite per run, a test per check.

    What failed is a failure, what concludes nothing is skipped (JUnit has no other word for it), a run that
    could not be read is an error. Times are zero: nothing is timed.

    Args:
        view: what there is to say.
    """
    suites = [_run_suite(line) for line in view.told]
    if view.result.set_aside:
        suites.append(_set_aside_suite(view))
    totals = {
        key: sum(int(suite.get(key, "0")) for suite in suites) for key in ("tests", "failures", "errors")
    }
    root = Xml.Element(
        "testsuites",
        {"name": "kvcliff nightly", **{key: str(count) for key, count in totals.items()}, "time": "0"},
    )
    root.extend(suites)
    Xml.indent(root, "  ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _run_suite(line: RunLine) -> Xml.Element:
    judgement = line.stored.judgement
    cases = [_case(line, check) for check in judgement.checks]
    suite = _suite(line.name, cases)
    properties = Xml.Element("properties")
    for name, value in (
        ("run_id", judgement.run_id),
        ("series", judgement.series),
        ("verdict", judgement.verdict),
        ("summary", judgement.summary),
        ("cause", judgement.cause),
        ("diagnosis", line.diagnosis),
        ("report", line.report or ""),
    ):
        Xml.SubElement(properties, "property", {"name": name, "value": _clean(value)})
    suite.insert(0, properties)
    return suite


def _case(line: RunLine, check: Check) -> Xml.Element:
    level = f" [{check.level}]" if check.level is not None else ""
    limit = " limit" if check.outcome == "limit" else ""
    case = Xml.Element(
        "testcase",
        {
            "name": _clean(f"{check.metric}{level}{limit}"),
            "classname": _clean(f"kvcliff.{line.name}"),
            "time": "0",
        },
    )
    message = _clean(check.message)
    if check.severity == "fail":
        failure = Xml.SubElement(case, "failure", {"message": message, "type": check.outcome})
        failure.text = _clean(line.stored.judgement.cause) or message
    elif check.severity == "inconclusive" or check.outcome == "inconclusive":
        Xml.SubElement(case, "skipped", {"message": f"inconclusive: {message}"})
    else:
        Xml.SubElement(case, "system-out").text = message
    return case


def _set_aside_suite(view: NightView) -> Xml.Element:
    """Return the suite of the folders that could not be read; the policy says how bad that is."""
    cases = []
    for state in view.result.set_aside:
        case = Xml.Element(
            "testcase", {"name": _clean(state.folder), "classname": "kvcliff.set_aside", "time": "0"}
        )
        message = _clean(state.reason or "")
        if view.broken_run == "fail":
            error = Xml.SubElement(case, "error", {"message": message, "type": "set_aside"})
            error.text = _clean(state.hint or "") or message
        elif view.broken_run == "inconclusive":
            Xml.SubElement(case, "skipped", {"message": message})
        else:
            Xml.SubElement(case, "system-out").text = message
        cases.append(case)
    return _suite("set aside", cases)


def _suite(name: str, cases: Sequence[Xml.Element]) -> Xml.Element:
    suite = Xml.Element(
        "testsuite",
        {
            "name": _clean(name),
            "tests": str(len(cases)),
            "failures": _count(cases, "failure"),
            "errors": _count(cases, "error"),
            "skipped": _count(cases, "skipped"),
            "time": "0",
        },
    )
    suite.extend(cases)
    return suite


def _count(cases: Sequence[Xml.Element], tag: str) -> str:
    return str(sum(case.find(tag) is not None for case in cases))


def _clean(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
