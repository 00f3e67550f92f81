from kvcliff.nightly.comparison.model import Comparison
from kvcliff.nightly.window_changes import WindowChange
from kvcliff.nightly.window_report import WindowReport
from kvcliff.nightly.window_series import StoredPart
from kvcliff.report.document import Paragraph, Table
from kvcliff.store.catalog import StoredRun

S = 1_000_000_000
WINDOW = StoredPart("run@window-2", 100 * S, 200 * S)
BEFORE = StoredRun(
    "run@before-1", "run@before", "before=+0ms..+100000ms", "ok", True, 0, 100 * S, 0, 1, "0", 0
)


def report(*changes: WindowChange, reason: str | None = None) -> WindowReport:
    comparison = Comparison(
        ("run@before-1",), "run@window-2", "same", (), (), (), reason, "no regression: nothing changed"
    )
    return WindowReport(comparison, changes, BEFORE, WINDOW)


def table(found: WindowReport) -> Table:
    return next(block for block in found.sections[0].blocks if isinstance(block, Table))


def change(at_s: int, what: str = "KV occupancy", replica_id: str | None = "0") -> WindowChange:
    return WindowChange(at_s * S, S, what, None, replica_id, 0.2, 0.9, "ratio")


def test_nothing_changed_is_said() -> None:
    (block,) = report().sections[0].blocks
    assert isinstance(block, Paragraph)
    assert block.text.startswith("Nothing changed by a relevant amount")


def test_times_are_counted_from_the_window() -> None:
    found = table(report(change(90), change(110)))
    names = [column.name for column in found.columns]
    assert [row[names.index("offset_ns")] for row in found.rows] == [-10 * S, 10 * S]
    # One replica needs no column.
    assert "replica_id" not in names
    assert "replica_id" in [
        column.name for column in table(report(change(90), change(110, "x", "1"))).columns
    ]


def test_of_too_many_changes_those_of_the_window_are_shown() -> None:
    found = table(report(*(change(at_s) for at_s in range(60, 140))))
    places = [column.name for column in found.columns].index("at_ns")
    assert len(found.rows) == 40
    assert found.more_count == 40
    assert found.rows[0][places] == 100 * S
    assert found.rows[-1][places] == 139 * S


def test_the_time_before_is_named_and_another_load_is_told() -> None:
    words = [block.text for block in report(reason="another load: 1 and 2").sections[1].blocks
             if isinstance(block, Paragraph)]  # fmt: skip
    assert words[0] == "No regression: nothing changed."
    assert "run@before-1 (before=+0ms..+100000ms)" in words[1]
    assert words[2] == "The load differs as well: another load: 1 and 2."
