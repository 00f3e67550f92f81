import pytest

from kvcliff.errors import UsageProblem
from kvcliff.store.window import (
    RunSpan,
    WindowRequest,
    WindowTime,
    parse_before,
    parse_time,
    place_window,
)

S = 1_000_000_000
DAY = 86_400 * S
#: 2026-11-30 18:49:35 UTC, for 68 s.
BEGIN = 1_796_064_575 * S
SPAN = RunSpan(BEGIN, BEGIN + 68 * S, BEGIN - 40 * S, BEGIN + 69 * S, utc_known=True)
LOCAL = RunSpan(BEGIN, BEGIN + 68 * S, BEGIN, BEGIN + 68 * S, utc_known=False)
RELATIVE = RunSpan(5 * S, 65 * S, 5 * S, 65 * S, utc_known=False)


def time(text: str) -> WindowTime:
    return parse_time(text, 1_796_000_000.5)


def placed(start: str | None, end: str | None, span: RunSpan = SPAN) -> tuple[float, float]:
    """Return the window in seconds after the begin of the run."""
    request = WindowRequest(*(time(text) if text is not None else None for text in (start, end)))
    window = place_window(request, span)
    return (window.start_ns - span.start_ns) / S, (window.end_ns - span.start_ns) / S


@pytest.mark.parametrize(
    ("text", "kind", "ns"),
    [
        ("2026-11-30T18:49:55Z", "utc", BEGIN + 20 * S),
        ("2026-11-30T19:49:55.5+01:00", "utc", BEGIN + 20 * S + S // 2),
        ("2026-11-30T19:50+01:00", "utc", BEGIN + 25 * S),
        ("1796064595", "utc", BEGIN + 20 * S),
        ("1796064595250", "utc", BEGIN + 20 * S + S // 4),
        ("now", "utc", 1_796_000_000 * S + S // 2),
        ("now-1h30m", "utc", (1_796_000_000 - 5400) * S + S // 2),
        ("2026-11-30 18:49:55", "local", BEGIN + 20 * S),
        ("2026-11-30T18:50", "local", BEGIN + 25 * S),
        ("18:49:55", "day", (18 * 3600 + 49 * 60 + 55) * S),
        ("8:05", "day", (8 * 3600 + 5 * 60) * S),
        ("18:49:55.25", "day", (18 * 3600 + 49 * 60 + 55) * S + S // 4),
        ("+5m", "start", 300 * S),
        ("+1m30s", "start", 90 * S),
        ("+250ms", "start", S // 4),
        ("+1.5s", "start", 3 * S // 2),
    ],
)
def test_forms_of_a_time(text: str, kind: str, ns: int) -> None:
    assert time(text) == WindowTime(text, kind, ns)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "24:00:00", "18:61", "5m", "+5", "+5y", "now-10y", "now+5m"]
)
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        time(text)
    assert caught.value.hint is not None
    assert "14:05:00" in caught.value.hint
    assert caught.value.exit_code == 2


def test_a_zone_with_several_meanings_is_refused() -> None:
    with pytest.raises(UsageProblem, match="several meanings"):
        time("2026-11-30 18:49:55 CST")
    assert time("2026-11-30 18:49:55 UTC").kind == "utc"


def test_all_forms_mean_the_same_instants() -> None:
    assert placed("2026-11-30T18:49:55Z", "2026-11-30T18:50:15Z") == (20, 40)
    assert placed("2026-11-30T18:49:55", "18:50:15") == (20, 40)
    assert placed("+20s", "+40s") == (20, 40)
    assert placed("1796064595", "1796064615") == (20, 40)


def test_an_open_end_is_that_of_the_rows_and_edges_are_kept_inside() -> None:
    assert placed("+20s", None) == (20, 69)
    # The start-up of a server belongs to what comes before --to.
    assert placed(None, "+40s") == (-40, 40)
    assert placed("18:00", "19:00") == (-40, 69)


def test_what_was_assumed_is_said() -> None:
    request = WindowRequest(time("18:49:55"), time("+40s"))
    assert place_window(request, SPAN).notes == ("18:49:55 taken as UTC, the run's clock",)
    (note,) = place_window(request, LOCAL).notes
    assert note == "18:49:55 taken as the run's own local time, whose zone is unknown"
    assert place_window(WindowRequest(time("+20s"), None), SPAN).notes == ()


def test_a_time_of_day_after_midnight() -> None:
    begin = BEGIN // DAY * DAY + 86_000 * S
    over = RunSpan(begin, begin + 1000 * S, begin, begin + 1000 * S, utc_known=True)
    assert placed("23:55:00", "00:05:00", over) == (100, 700)


def test_a_window_outside_the_run_names_its_extent() -> None:
    for start, end in (("18:51:00", "18:52:00"), ("18:00:00", "18:48:00")):
        with pytest.raises(UsageProblem, match=r"which is 2026-11-30 18:49:35\.0 to 18:50:43\.0 UTC$"):
            placed(start, end)
    with pytest.raises(UsageProblem, match="ends before it begins"):
        placed("+40s", "+20s")


def test_an_instant_needs_a_clock() -> None:
    with pytest.raises(UsageProblem, match="what its clock is in UTC"):
        placed("2026-11-30T18:49:55Z", None, LOCAL)
    with pytest.raises(UsageProblem, match="no clock time"):
        placed("18:49:55", None, RELATIVE)
    assert placed("+20s", "+40s", RELATIVE) == (20, 40)
    assert placed("2026-11-30T18:49:55", None, LOCAL) == (20, 68)


@pytest.mark.parametrize(
    ("before", "start"), [(None, -20.0), ("10s", 10.0), ("18:49:40", 5.0), ("+1s", 1.0), ("10m", -40.0)]
)
def test_the_time_before(before: str | None, start: float) -> None:
    window = WindowRequest(time("+20s"), time("+80s"))
    begin = parse_before(before, 0) if before is not None else None
    part = place_window(window.time_before(begin), SPAN)
    # Without a length as long as what was asked for, also where the run ends sooner.
    expected = max(20 - 60, -40) if before is None else start
    assert (part.start_ns - BEGIN) / S == expected
    assert part.end_ns == BEGIN + 20 * S - 1


def test_the_time_before_must_be_before() -> None:
    window = WindowRequest(time("+20s"), time("+40s"))
    with pytest.raises(UsageProblem, match="is not before the window"):
        place_window(window.time_before(parse_before("+30s", 0)), SPAN)
    with pytest.raises(UsageProblem, match="nothing to compare with before"):
        place_window(WindowRequest(time("18:48:00"), time("+40s")).time_before(None), SPAN)
    with pytest.raises(UsageProblem, match="longer than nothing"):
        parse_before("0s", 0)


def test_parts_of_a_run_have_identities_of_their_own() -> None:
    one, other = WindowRequest(time("+20s"), None), WindowRequest(time("+21s"), None)
    parts = (one, other, one.time_before(None), one.time_before(parse_before("5s", 0)))
    assert len({part.identity for part in parts}) == len(parts)


def test_edges_are_written_as_options_take_them() -> None:
    window = place_window(WindowRequest(time("+20s"), time("+40.2505s")), SPAN)
    assert window.option_texts == ("2026-11-30T18:49:55Z", "2026-11-30T18:50:15.251Z")
    assert place_window(WindowRequest(time("+20s"), time("+40s")), LOCAL).option_texts[0] == (
        "2026-11-30T18:49:55"
    )
    assert place_window(WindowRequest(time("+20s"), time("+40s")), RELATIVE).option_texts == (
        "+20000ms",
        "+40000ms",
    )
    for text in window.option_texts:
        assert time(text).kind == "utc"


def test_a_year_that_no_file_states_is_not_asked_for() -> None:
    begin = BEGIN - 9496 * DAY
    logged = RunSpan(begin, begin + 68 * S, begin, begin + 68 * S, utc_known=False, year_known=False)
    assert placed("2026-11-30T18:49:55", "18:50:15", logged) == (20, 40)
    window = place_window(WindowRequest(time("+20s"), time("+40s")), logged)
    assert window.option_texts == ("+20000ms", "+40000ms")
    assert window.label == "11-30 18:49:55.0 to 18:50:15.0 local time, zone unknown"
