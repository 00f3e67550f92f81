from kvcliff.report.marks import MarkGroup, grouped_marks, merged_spans, thinned_times
from kvcliff.report.series import SwapMark


def _mark(number: int, at_ns: int, class_name: str = "probable", end_ns: int | None = None) -> SwapMark:
    return SwapMark(number, class_name, at_ns, 3, end_ns)


def test_marks_that_can_be_told_apart_stay_single():
    groups = grouped_marks((_mark(1, 0), _mark(2, 10)), 10)
    assert [group.label for group in groups] == ["1", "2"]


def test_close_marks_are_one_with_the_surest_class():
    groups = grouped_marks((_mark(1, 0, "pressure"), _mark(2, 4), _mark(3, 9, "confirmed"), _mark(4, 30)), 10)
    assert groups == (MarkGroup("1-3", "confirmed", 0, 3), MarkGroup("4", "probable", 30, 3))


def test_overlapping_spans_are_shaded_once():
    marks = (_mark(1, 0, end_ns=10), _mark(2, 5, end_ns=8), _mark(3, 9, end_ns=20), _mark(4, 40, end_ns=50))
    assert merged_spans(marks) == ((0, 20), (40, 50))


def test_span_without_an_end_is_not_shaded():
    assert merged_spans((_mark(1, 5), _mark(2, 7, end_ns=7))) == ()


def test_times_are_thinned_from_the_first_on():
    assert thinned_times((9, 0, 4, 5, 14), 5) == (0, 5, 14)
