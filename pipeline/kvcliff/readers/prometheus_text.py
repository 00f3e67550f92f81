"""Grammar of Prometheus and OpenMetrics text: sample lines, label sets, marker lines of scrape loops."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kvcliff.readers.stamps import epoch_to_ns, parse_stamp

_LABEL_SET = rb'\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\}'
_NUMBER = rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[Ii]nf|NaN|nan)"
#: Two trailing numbers at most (value, stamp); what follows `` # `` is an exemplar.
_SAMPLE: Final = re.compile(
    rb"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)?(?:[ \t]*(?P<labels>" + _LABEL_SET + rb")[ \t]*|[ \t]+)"
    rb"(?P<value>" + _NUMBER + rb")(?:[ \t]+(?P<stamp>\d[\d.eE+]*))?[ \t]*(?:#.*)?\r?",
    re.DOTALL,
)
_TEXT = r'"((?:[^"\\]|\\.)*)"'
#: A label's name stands in quotes when it holds other characters than letters, digits and underscores.
_LABEL: Final = re.compile(r"(?:([a-zA-Z_][a-zA-Z0-9_]*)|" + _TEXT + r")\s*=\s*" + _TEXT, re.DOTALL)
#: So does a metric's name, which then is the first thing in the braces.
_QUOTED_NAME: Final = re.compile(r"\{\s*" + _TEXT + r"\s*[,}]", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_FIELDS: Final = re.compile(r"(start_unix_ns|end_unix_ns|status)=(\d{1,19})")
_MARKER_WORDS: Final = re.compile(
    r"(?:#\s*(?:scrape|time|timestamp|date)?[:=]?|-{2,}|={2,})\s*(.*?)\s*(?:-{2,}|={2,})?", re.IGNORECASE
)
_EPOCH: Final = re.compile(r"\d{10}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?")
_HTTP_OK: Final = 200


@dataclass(frozen=True)
class Sample:
    """One sample line, taken apart.

    Attributes:
        name: metric name as exposed (in quotes or as ``__name__`` when it stands inside the braces).
        labels: label values, escapes resolved.
        value: the value's text.
        stamp: the stamp's text, or ``None``.
        head: the part of the line before the value; equal heads are equal series.
    """

    name: str
    labels: Mapping[str, str]
    value: bytes
    stamp: bytes | None
    head: bytes


@dataclass(frozen=True)
class ScrapeMarker:
    """What the line before a scrape states: its times, whether they are UTC, whether the scrape worked."""

    start_ns: int
    end_ns: int | None = None
    is_utc: bool = True
    is_ok: bool = True


def parse_sample(line: bytes) -> Sample | None:
    """Return the parts of a sample line, or ``None`` when the line is none."""
    match = _SAMPLE.fullmatch(line)
    if match is None:
        return None
    text = (match["labels"] or b"").decode("utf-8", "replace")
    labels = dict(_parse_labels(text))
    quoted = None if match["name"] else _QUOTED_NAME.match(text)
    if match["name"]:
        name = match["name"].decode("ascii")
    else:
        name = _plain(quoted[1]) if quoted else labels.pop("__name__", "")
    if not name:
        return None
    return Sample(
        name, MappingProxyType(labels), match["value"], match["stamp"], line[: match.start("value")]
    )


def parse_series(text: str) -> tuple[str, Mapping[str, str]] | None:
    """Return name and labels of a series written as a column title (``name{a="b"}``), or ``None``."""
    sample = parse_sample(text.strip().encode() + b" 0")
    return None if sample is None else (sample.name, sample.labels)


def _parse_labels(text: str) -> list[tuple[str, str]]:
    """Return the labels of a set, in the order of the file."""
    return [(key or _plain(quoted), _plain(value)) for key, quoted, value in _LABEL.findall(text)]


def _plain(text: str) -> str:
    """Return a quoted text with its escapes resolved."""
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    """Return what an escape stands for: the letter n is a line end, any other character is itself."""
    return "\n" if match[1] == "n" else match[1]


def parse_marker(line: bytes, zone_offset_s: int | None) -> ScrapeMarker | None:
    """Return what a marker line states, or ``None`` when the line is no marker.

    Known forms: ``# scrape start_unix_ns=N end_unix_ns=N status=N``, ``# scrape EPOCH``, ``# TIME EPOCH``,
    a bare epoch, ``--- ISO``, an ISO stamp alone, and what ``date`` prints.

    Args:
        line: one line of the file.
        zone_offset_s: seconds east of UTC of stamps without a numeric zone, when known.
    """
    if len(line) > 300:
        return None
    text = line.decode("utf-8", "replace").strip()
    fields = dict(_FIELDS.findall(text)) if text.startswith("#") else {}
    if "start_unix_ns" in fields:
        return _marker_of_fields(fields)
    words = _MARKER_WORDS.fullmatch(text)
    stated = words[1] if words else text
    if _EPOCH.fullmatch(stated):
        ns = epoch_to_ns(stated)
        return None if ns is None else ScrapeMarker(ns)
    stamp = parse_stamp(stated, zone_offset_s)
    return None if stamp is None else ScrapeMarker(stamp.ns, is_utc=stamp.is_utc)


def _marker_of_fields(fields: Mapping[str, str]) -> ScrapeMarker | None:
    """Return the marker that ``key=value`` fields state, or ``None`` when its time is out of range."""
    start_ns, end_ns = epoch_to_ns(fields["start_unix_ns"]), epoch_to_ns(fields.get("end_unix_ns", ""))
    if start_ns is None:
        return None
    return ScrapeMarker(start_ns, end_ns, is_ok=int(fields.get("status", _HTTP_OK)) == _HTTP_OK)
