"""What the tests of line grammars share: the corpus of generated lines, and hostile variants of a line."""

import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import strategies as st

from builders_log import SHARED, ListSink, Loaded, load_path
from kvcliff.readers.base import ReadContext, Source
from kvcliff.readers.lines import GRAMMARS
from kvcliff.readers.lines.base import Grammar
from kvcliff.readers.log import READER
from kvcliff.readers.log_rows import LogRows
from kvcliff.readers.log_scan import LogScan

CORPUS = SHARED / "corpus" / "serving_lines"
needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the shared corpus of generated serving lines is not beside this repository"
)
GIB = 1 << 30
#: The corpus says the year and UTC for all of these producers.
CONTEXT = ReadContext(time_zone_offset_s=0, year=2030)


def corpus_rows(name: str) -> list[dict[str, Any]]:
    """The expected rows of a corpus file, without its header."""
    text = (CORPUS / name).with_suffix(".expected.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()][1:]


def corpus_log(name: str) -> Loaded:
    """A corpus file as the log reader loads it; it must also be recognised."""
    path = CORPUS / name
    assert READER.sniff(Source(path, name)).score == 95
    loaded = load_path(path, CONTEXT)
    assert (loaded.report.skipped_count, loaded.report.damage) == (0, None)
    return loaded


def ns(stamp: str) -> int:
    """An ISO stamp with a numeric zone as ns since 1970, exactly."""
    second, zone = stamp[:19], stamp[-6:]
    fraction = stamp[19:-6].lstrip(".").ljust(9, "0")
    return int(datetime.fromisoformat(second + zone).timestamp()) * 1_000_000_000 + int(fraction)


def at(rows: list[dict[str, Any]], line_no: int) -> dict[str, Any]:
    """The one row of a line."""
    found = [row for row in rows if row["line_no"] == line_no]
    assert len(found) == 1, (line_no, found)
    return found[0]


def lines_with_rows(loaded: Loaded) -> set[int]:
    """Numbers of the lines that gave a row, other than facts about the file itself."""
    tables = (
        loaded.stats,
        loaded.iterations,
        loaded.events,
        loaded.requests,
        loaded.lookups,
        loaded.transfers,
        loaded.samples,
        loaded.access,
    )
    return {row["line_no"] for rows in tables for row in rows}


def states(loaded: Loaded, facts: dict[str, str]) -> None:
    """Every fact is stated for the engine or one of its ranks."""
    known = {(row["name"], row["value"]) for row in loaded.settings}
    assert set(facts.items()) <= known, (facts, known)


_PIECES = (
    b"nan",
    b"-1",
    b"inf",
    b"9" * 30,
    b"1e400",
    b", ",
    b"%",
    b"GB",
    b"MB",
    b"\x00",
    b"\xff\xfe",
    b"\r",
    "\u0663".encode(),
    b"{" * 40,
    b"(" * 40,
    b"'",
    b'"',
    b"\x1b[0m",
    b"  ",
)


@st.composite
def hostile(draw: st.DrawFn, lines: tuple[str, ...]) -> bytes:
    """One of the lines: cut, doubled, its fields in another order, with other bytes or numbers in it."""
    line = draw(st.sampled_from(lines)).encode()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(line)))
        end = draw(st.integers(place, min(place + 40, len(line))))
        change = draw(st.sampled_from(("cut", "double", "fields", "piece", "over", "digits", "again")))
        if change == "cut":
            line = line[:place]
        elif change == "double":
            line = line + line[place:]
        elif change == "fields":
            parts = line.split(b", ")
            line = b", ".join(draw(st.permutations(parts)) if len(parts) < 9 else reversed(parts))
        elif change == "piece":
            line = line[:place] + draw(st.sampled_from(_PIECES)) + line[place:]
        elif change == "over":
            line = line[:place] + draw(st.sampled_from(_PIECES) | st.binary(max_size=8)) + line[end:]
        elif change == "digits":
            line = line.replace(draw(st.sampled_from((b"0", b"1", b"3"))), draw(st.sampled_from(_PIECES)))
        else:
            line = line[:end] + line[place:]
    return line.replace(b"\n", b"?")


def check_hostile(grammar: Grammar, line: bytes) -> None:
    """No crash, sane values, and a line that holds what only this producer writes is not lost silently."""
    assert grammar in GRAMMARS
    sink = ListSink()
    rows = LogRows(sink)
    scan = LogScan(rows, ReadContext())
    scan.read(0, [line])
    scan.finish()
    counts = scan.counts
    contents = [text for known in GRAMMARS for text in known.content_starts]
    if any(literal in line for literal, _ in grammar.interest) and not any(text in line for text in contents):
        assert sum(counts.rows.values()) + counts.access + counts.skipped >= 1, line
    assert (counts.skipped > 0) is (counts.first_skip_reason is not None)
    for table in sink.frames:
        for row in sink.rows(table):
            for name, value in row.items():
                if isinstance(value, bool) or name in {"src_ns", "after_src_ns", "before_src_ns"}:
                    continue
                if isinstance(value, int | float):
                    assert value >= 0, (name, value)
                    assert not name.endswith("_ratio") or value <= 1, (name, value)
