from kvcliff.report.document import FindingLine
from kvcliff.report.verdict import answers, choose_verdict, ordered_actions


def _line(number, finding, verdict="found", severity="warning", **columns):
    row = {"confidence": 0.8, "summary": f"{finding} says so.", "action": f"do {finding}", "capture": None}
    return FindingLine(
        finding_no=number,
        finding=finding,
        verdict=verdict,
        severity=severity,
        evidence=None,
        **{**row, **columns},
    )


def test_hit_but_slow_opens_the_report():
    lines = (_line(1, "hit_but_slow"), _line(2, "swap_point", severity="critical"))
    assert choose_verdict(lines).finding == "hit_but_slow"


def test_swap_point_comes_next():
    lines = (
        _line(1, "hit_but_slow", "not_found"),
        _line(2, "swap_point"),
        _line(3, "other_jump", severity="critical"),
    )
    assert choose_verdict(lines).finding == "swap_point"


def test_gravest_other_finding_comes_then():
    lines = (
        _line(1, "hit_but_slow", "not_found"),
        _line(2, "swap_point", "not_found"),
        _line(3, "other_jump", severity="info"),
        _line(4, "bandwidth_bound"),
        _line(5, "headroom", severity="critical"),
    )
    assert choose_verdict(lines).finding == "bandwidth_bound"


def test_positive_no_opens_a_quiet_run():
    lines = (_line(1, "swap_point", "not_found"), _line(2, "headroom", severity="info"))
    verdict = choose_verdict(lines)
    assert (verdict.finding, verdict.verdict, verdict.confidence) == ("swap_point", "not_found", 0.8)


def test_cannot_tell_has_no_confidence_but_a_capture():
    verdict = choose_verdict((_line(1, "swap_point", "cannot_tell", action=None, capture="scrape it"),))
    assert (verdict.confidence, verdict.capture) == (None, "scrape it")


def test_no_findings_is_not_no_problem():
    assert choose_verdict(()).verdict == "cannot_tell"


def test_actions_are_ordered_and_said_once():
    lines = (
        _line(1, "a", severity="info"),
        _line(2, "b", severity="critical", action="same"),
        _line(3, "c", action="same"),
        _line(4, "d", "cannot_tell"),
    )
    assert ordered_actions(lines) == ("same (finding: b, c)", "do a (finding: a)")


def test_answers_leave_out_the_opening_sentence_and_the_unknown():
    lines = (_line(1, "a", "not_found"), _line(2, "swap_point"), _line(3, "c"), _line(4, "d", "cannot_tell"))
    assert [answer.finding for answer in answers(lines, choose_verdict(lines))] == ["c", "a"]


def test_a_limit_opens_a_report_that_has_no_word_on_swapping():
    limit = _line(3, "counter_limits", severity="info")
    assert choose_verdict((_line(2, "swap_point", "cannot_tell"), limit)).finding == "counter_limits"
    assert choose_verdict((_line(2, "swap_point", "not_found"), limit)).finding == "swap_point"
