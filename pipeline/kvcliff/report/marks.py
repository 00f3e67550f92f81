"""Marks on the time axis of the figure, joined where they would run into each other."""

from dataclasses import dataclass

from kvcliff.report.series import SwapMark

_CLASS_RANK = {"confirmed": 0, "probable": 1, "pressure": 2}


@dataclass(frozen=True)
class MarkGroup:
    """Swap points that are drawn as one mark.

    Attributes:
        label: number of the swap point, or first and last number.
        class_name: the surest class in the group.
        at_ns: the first of them.
        error_ns: its error.
    """

    label: str
    class_name: str
    at_ns: int
    error_ns: int


def grouped_marks(marks: tuple[SwapMark, ...], min_step_ns: int) -> tuple[MarkGroup, ...]:
    """Return swap points in order of time; those within ``min_step_ns`` of a group's first are one.

    Args:
        marks: swap points in order of time.
        min_step_ns: least distance at which two marks can be told apart.
    """
    groups: list[list[SwapMark]] = []
    for mark in marks:
        if groups and mark.at_ns - groups[-1][0].at_ns < min_step_ns:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return tuple(_group(members) for members in groups)


def _group(members: list[SwapMark]) -> MarkGroup:
    first, last = members[0], members[-1]
    label = str(first.swap_point_id)
    if len(members) > 1:
        label = f"{label}-{last.swap_point_id}"
    surest = min(members, key=lambda mark: _CLASS_RANK.get(mark.class_name, 9))
    return MarkGroup(label, surest.class_name, first.at_ns, first.error_ns or 0)


def merged_spans(marks: tuple[SwapMark, ...]) -> tuple[tuple[int, int], ...]:
    """Return the time from each swap point to its recovery; spans that overlap are one."""
    spans: list[tuple[int, int]] = []
    for mark in sorted(marks, key=lambda item: item.at_ns):
        if mark.end_ns is None or mark.end_ns <= mark.at_ns:
            continue
        if spans and mark.at_ns <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], mark.end_ns))
        else:
            spans.append((mark.at_ns, mark.end_ns))
    return tuple(spans)


def thinned_times(times_ns: tuple[int, ...], min_step_ns: int) -> tuple[int, ...]:
    """Return instants in order, without those closer than ``min_step_ns`` to the one kept before."""
    kept: list[int] = []
    for at_ns in sorted(set(times_ns)):
        if not kept or at_ns - kept[-1] >= min_step_ns:
            kept.append(at_ns)
    return tuple(kept)
