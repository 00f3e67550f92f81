"""What a report says, apart from how it is written: one object that Markdown and JSON are made from."""

from dataclasses import dataclass
from typing import Literal

from kvcliff.findings.run_time import RunTime

#: How a column's values are read and written. ``name`` is text from inputs, ``word`` is our own; ``by_unit``
#: goes by the row's column ``unit``, which is ``hidden`` in Markdown.
Kind = Literal[
    "name",
    "word",
    "count",
    "number",
    "ms",
    "seconds",
    "bytes",
    "pct",
    "share",
    "instant",
    "since_start",
    "duration_ns",
    "offset_ns",
    "clock_offset",
    "error_ns",
    "by_unit",
    "hidden",
]
Value = int | float | str | bool | None


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: stable name with unit, the key in JSON.
        title: heading in the report.
        kind: how values are written.
    """

    name: str
    title: str
    kind: Kind


@dataclass(frozen=True)
class Table:
    """A table of raw values.

    Attributes:
        mart: where its numbers come from.
        columns: the columns.
        rows: one tuple per row, in column order.
        more_count: rows that exist beyond those shown.
        more_words: what those rows are (``swap points``).
    """

    mart: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    more_count: int = 0
    more_words: str = "rows"

    def without_empty_columns(self) -> "Table":
        """Return the table without columns in which no row has a value."""
        kept = [
            index for index in range(len(self.columns)) if any(row[index] is not None for row in self.rows)
        ]
        return Table(
            self.mart,
            tuple(self.columns[index] for index in kept),
            tuple(tuple(row[index] for index in kept) for row in self.rows),
            self.more_count,
            self.more_words,
        )


@dataclass(frozen=True)
class Paragraph:
    """Sentences in plain text."""

    text: str


@dataclass(frozen=True)
class Steps:
    """An ordered list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Gap:
    """Questions that could not be answered, and the command that captures what all of them lack."""

    text: str
    capture: str | None


@dataclass(frozen=True)
class Gaps:
    """What could not be told."""

    items: tuple[Gap, ...]


@dataclass(frozen=True)
class Answer:
    """What one finding answered.

    Attributes:
        finding: its name.
        question: what it asked.
        verdict: found or not_found.
        severity: how much it matters when found.
        confidence: 0-1.
        text: the sentence.
    """

    finding: str
    question: str
    verdict: str
    severity: str
    confidence: float | None
    text: str


@dataclass(frozen=True)
class Answers:
    """What was found, and what was looked for and not found."""

    items: tuple[Answer, ...]


@dataclass(frozen=True)
class Commands:
    """Shell commands, one a line."""

    lines: tuple[str, ...]


Block = Table | Paragraph | Steps | Answers | Gaps | Commands


@dataclass(frozen=True)
class Section:
    """A headed part of the report.

    Attributes:
        key: stable id, the key in JSON.
        title: heading.
        blocks: what stands in it, in order.
    """

    key: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Verdict:
    """The first lines of the report.

    Attributes:
        finding: which finding speaks.
        verdict: found, not_found or cannot_tell.
        severity: critical, warning or info.
        confidence: 0-1, ``None`` when it cannot tell.
        sentence: the sentence to trust.
        action: the first thing to do, or ``None``.
        capture: the command that would provide what is missing, or ``None``.
        reason: what the confidence rests on, or ``None``.
    """

    finding: str | None
    verdict: str
    severity: str
    confidence: float | None
    sentence: str
    action: str | None
    capture: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class FigureText:
    """A figure of the report: what it shows, in words, and where its files lie.

    Attributes:
        name: stem of its files.
        title: what it shows in a few words.
        section: key of the section that it opens; ``None`` when it stands under the verdict.
        caption: what is drawn and how to read it.
        level: level shown, or ``None``.
        replica_id: replica shown, or ``None``.
        svg: path of the SVG below the report's folder.
        png: path of the PNG below the report's folder.
    """

    name: str
    title: str
    section: str | None
    caption: str
    level: str | None
    replica_id: str | None
    svg: str
    png: str


@dataclass(frozen=True)
class FindingLine:
    """One row of ``findings``."""

    finding_no: int
    finding: str
    verdict: str
    severity: str
    confidence: float | None
    summary: str
    action: str | None
    capture: str | None
    evidence: str | None
    reason: str | None = None


@dataclass(frozen=True)
class RunLine:
    """The run as its ``runs`` row says; what depends on the moment of reading is left out."""

    name: str
    labels: str | None
    status: str
    utc_known: bool | None
    year_known: bool | None
    started_at_ns: int | None
    ended_at_ns: int | None
    level_count: int | None
    file_count: int | None
    kvcliff_version: str | None


@dataclass(frozen=True)
class ReportContent:
    """Everything a report says.

    Attributes:
        run_id: id of the run.
        run: its row.
        run_time: how instants are written.
        headline: when the run was, how long, of how many files.
        verdict: the first sentence.
        notices: what the reader must know before reading on (synthetic, partial, zone unknown).
        findings: all answers.
        sections: the rest, in order.
        figures: the figures in words; empty before they are drawn, or when nothing can be drawn.
        audience: who reads it, ``engineer`` or ``incident``.
    """

    run_id: str
    run: RunLine
    run_time: RunTime
    headline: str
    verdict: Verdict
    notices: tuple[str, ...]
    findings: tuple[FindingLine, ...]
    sections: tuple[Section, ...]
    figures: tuple[FigureText, ...] = ()
    audience: str = "engineer"

    @property
    def opening_figures(self) -> tuple[FigureText, ...]:
        """The figures under the verdict, and those whose section this report lacks."""
        keys = {section.key for section in self.sections}
        return tuple(figure for figure in self.figures if figure.section not in keys)

    def figures_of(self, section: Section) -> tuple[FigureText, ...]:
        """Return the figures that open a section."""
        return tuple(figure for figure in self.figures if figure.section == section.key)
