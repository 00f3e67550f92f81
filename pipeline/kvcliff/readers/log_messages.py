"""Messages of a log handed to the rules that know them: rows come of each, or a skip with its reason."""

import re
from dataclasses import dataclass, field
from typing import Final

from kvcliff.readers.envelope import Envelope
from kvcliff.readers.lines.base import Record, Row, Rule, SettingRow, UnreadableLineError
from kvcliff.readers.log_dispatch import Dispatch, HeadRules
from kvcliff.readers.log_rows import LogRows

_ORPHAN_HIT: Final = "a prefix cache line has no statistics line before it"
#: Levels whose messages are searched for failures; records of JSON logs may have none.
_SEVERE: Final = frozenset({"WARNING", "ERROR", "CRITICAL", ""})


@dataclass
class ScanCounts:
    """What a scan has met so far.

    Attributes:
        heads: lines with a recognised head.
        access: HTTP access lines, those of a text that is repeated between two stamps once.
        rows: rows by the rule that gave them.
        skipped: lines of interest that could not be read.
        first_skip_reason: why the first of them was skipped.
    """

    heads: int = 0
    access: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    first_skip_reason: str | None = None


class MessageReader:
    """Reads messages by the rules of all grammars.

    Args:
        rows: where rows go.
        dispatch: the rules.
    """

    def __init__(self, rows: LogRows, dispatch: Dispatch) -> None:
        self.counts = ScanCounts()
        self._rows = rows
        self._dispatch = dispatch
        self._is_engine_known = False

    def read(
        self,
        line_no: int,
        src_ns: int | None,
        envelope: Envelope,
        head: re.Match[bytes] | None,
        text: bytes,
        rules: HeadRules | None,
        whole: bytes,
    ) -> None:
        """Hand a message to the rules that its beginning, or for severe ones a literal in it, calls for."""
        start, level, starts = 0, envelope.level, self._dispatch.starts
        if head is not None and rules is not None:
            # A head says whose line it is: only the rules of that producer are asked.
            start, starts = head.end(), rules.starts
            if rules.unwrap is None:
                level = head[1].decode()
        try:
            for literal, rule in starts.get(text[start], ()):
                if text.startswith(literal, start):
                    record = self.record_of(line_no, src_ns, envelope, level, text[start:])
                    if self._apply(rule, record):
                        if rules is not None and rules.engine and not self._is_engine_known:
                            self._is_engine_known = True
                            self._rows.add(SettingRow(line_no, "", "engine", rules.engine, None))
                        return
            if text.startswith(self._dispatch.content, start):
                return
            if level in _SEVERE:
                searched = text[start:] + b"\n" + envelope.trace.encode("utf-8", "replace")
                if self.search(line_no, src_ns, envelope, level, searched):
                    return
        except UnreadableLineError as problem:
            self.skip(str(problem))
            return
        # Of a record that no rule took, other fields may hold what only lines of interest hold.
        self.miss(text if head is not None else text + b"\n" + whole)

    def search(
        self,
        line_no: int,
        src_ns: int | None,
        envelope: Envelope,
        level: str,
        text: bytes,
    ) -> bool:
        """Hand a text to the rules whose literals occur in it; return whether one took it."""
        for literal, rule in self._dispatch.contains:
            if literal in text:
                record = self.record_of(line_no, src_ns, envelope, level, text)
                if self._apply(rule, record):
                    return True
        return False

    def record_of(
        self,
        line_no: int,
        src_ns: int | None,
        envelope: Envelope,
        level: str,
        message: bytes,
    ) -> Record:
        """Return a message as the rules take it."""
        process = envelope.process
        return Record(
            line_no,
            src_ns,
            level,
            message.decode("utf-8", "replace"),
            envelope.replica,
            process.engine_no if process else "0",
            process.scope if process else "",
            process.name if process else "",
        )

    def _apply(self, rule: Rule, record: Record) -> bool:
        rows = rule.parse(record)
        for row in rows:
            self.add(rule.name, row)
        return bool(rows)

    def add(self, rule: str, row: Row) -> None:
        """Keep a row of a rule, or count it as skipped."""
        if self._rows.add(row):
            self.counts.rows[rule] = self.counts.rows.get(rule, 0) + 1
        else:
            self.skip(_ORPHAN_HIT)

    def miss(self, text: bytes) -> None:
        """Count a line that no rule took although it holds what only lines of interest hold."""
        for literal, reason in self._dispatch.interest:
            if literal in text:
                self.skip(reason)
                return

    def skip(self, reason: str) -> None:
        """Count a line of interest that could not be read."""
        self.counts.skipped += 1
        self.counts.first_skip_reason = self.counts.first_skip_reason or reason
