"""What wraps a log line on its way to a file: colours, container and journal prefixes, processes, JSON."""

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from kvcliff.units import NS_PER_S

#: Layers taken off one line at most; more is no log.
MAX_LAYERS: Final = 6
_CACHE_LIMIT: Final = 4096
_PREFIX_LIMIT: Final = 200
#: What a record of a known JSON wrapping holds.
_JSON_KEYS: Final = (b'"message"', b'"log"', b'"MESSAGE"')
#: Enough for the microseconds since 1970 of two hundred years.
_MICROSECOND_DIGITS: Final = 16
_ANSI = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
_CLOCK = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
_STAMP = rb"(?P<ts>" + _CLOCK + rb")(?:\.(?P<fraction>\d+))?"
#: docker, kubectl --timestamps; with stream and tag a CRI file, where content begins after one blank.
_RFC3339 = re.compile(
    _STAMP + rb"(?P<zone>Z|[+-]\d\d:?\d\d)(?: (?P<stream>stdout|stderr) (?P<tag>[FP])(?: |$)|\s+|$)"
)
#: journalctl -o short-iso: host and unit follow the stamp; without a pid, only a zone without colon tells it.
_JOURNAL_UNIT = re.compile(rb"\S+\s+[^\s:\[\]]+(?P<pid>\[\d+\])?:\s")
_VIEWER = re.compile(rb"(?P<ts>" + _CLOCK + rb")[.,](?P<fraction>\d+)\s+\|\s+")
_BRACKET = re.compile(rb"\[(?P<ts>" + _CLOCK + rb")(?:[.,](?P<fraction>\d+))?\]\s+(?!LMCache)")
_JOURNAL = re.compile(
    rb"(?P<month>[A-Z][a-z]{2}) (?P<day>[ \d]\d) (?P<clock>\d\d:\d\d:\d\d)\s+\S+\s+[^\s:\[\]]+(?:\[\d+\])?:\s"
)
_COMPOSE = re.compile(rb"(?P<service>[A-Za-z0-9][\w.-]{0,127})\s{1,64}\|\s?")
_POD = re.compile(rb"\[pod/(?P<pod>[^\]\s]{1,253})\]\s+")
_PROCESS = re.compile(
    rb"\((?P<name>[A-Za-z]\w*(?:[ _-][\w=]+){0,4}) pid=(?P<pid>\d+)(?:,\s*ip=[^)\s]+)?\)\s+"
)
_BULLET = re.compile(rb"[-*]\s+(?=\(|INFO|WARN|ERROR|DEBUG)")
_LEVEL_WORD = re.compile(rb"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b")
_MONTHS: Final = (
    b"Jan",
    b"Feb",
    b"Mar",
    b"Apr",
    b"May",
    b"Jun",
    b"Jul",
    b"Aug",
    b"Sep",
    b"Oct",
    b"Nov",
    b"Dec",
)
_RANK_PART = re.compile(r"(?<![A-Za-z])((?:DP|PP|TP|EP|DCP|PCP)\d+)")
_RANK_NUMBER = re.compile(r"(?:rank=|^VllmWorker-)(\d+)")
_ENGINE_NUMBER = re.compile(r"(?:(?<![A-Za-z])DP|^EngineCore_)(\d+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Process:
    """The process named in front of a line.

    Attributes:
        name: as printed (``EngineCore_DP0``).
        engine_no: its data-parallel number, ``0`` when none.
        scope: its rank (``tp1``, ``rank0``), empty for a front end or the only engine.
    """

    name: str
    engine_no: str
    scope: str


@dataclass(slots=True)
class Envelope:
    """One line while its layers come off; ``text`` is what is left.

    Attributes:
        text: the line without the layers taken off so far.
        outer_ns: [ns] UTC of a stamp that states its zone.
        outer_local_ns: [ns] a stamp with a year but no zone, taken as if it were UTC.
        outer_month_day: a stamp without year and zone, as ``MM-DD HH:MM:SS``.
        month_day_fraction_ns: [ns] what ``outer_month_day`` leaves out below a second.
        day_ns: [ns] a stamp that is a time of day only.
        elapsed_ns: [ns] a stamp that counts from the start of the process.
        outer_resolution_ns: [ns] step of the outer stamp.
        stream: ``stdout`` or ``stderr`` when the container runtime says so.
        is_partial: the line goes on in the next one of the same stream.
        replica: service or pod, empty when none.
        process: the innermost process prefix.
        level: level of a JSON record.
        is_record: the text is a complete message (of a JSON record), no head is needed.
        trace: exception text of a JSON record.
    """

    text: bytes
    outer_ns: int | None = None
    outer_local_ns: int | None = None
    outer_month_day: bytes | None = None
    month_day_fraction_ns: int = 0
    day_ns: int | None = None
    elapsed_ns: int | None = None
    outer_resolution_ns: int = NS_PER_S
    stream: str = ""
    is_partial: bool = False
    replica: str = ""
    process: Process | None = None
    level: str = ""
    is_record: bool = False
    trace: str = ""

    @property
    def is_stamped(self) -> bool:
        """Whether a layer of the line states a time."""
        return (
            self.outer_ns is not None
            or self.outer_local_ns is not None
            or self.outer_month_day is not None
            or self.day_ns is not None
            or self.elapsed_ns is not None
        )

    def inner_step_ns(self, fraction: bytes | None = None) -> int:
        """Return the step that holds when a head with these digits of a second lies in this envelope."""
        return stamp_step_ns(fraction) if self.outer_ns is None else self.outer_resolution_ns


def strip_colours(line: bytes) -> bytes:
    """Return the line without terminal escape sequences."""
    return _ANSI.sub(b"", line)


def process_of(name: str, pid: str) -> Process:
    """Return what a process prefix such as ``Worker_DP0_TP1 pid=7`` says about engine and rank."""
    engine = _ENGINE_NUMBER.search(name)
    engine_no = str(int(engine[1][:9])) if engine else "0"
    parts = [part.lower() for part in _RANK_PART.findall(name)]
    number = _RANK_NUMBER.search(name)
    if "Worker" not in name:
        scope = f"dp{engine_no}" if engine_no != "0" and not name.startswith("ApiServer") else ""
    elif parts:
        scope = "_".join(parts)
    elif number:
        scope = f"rank{int(number[1][:9])}"
    else:
        # A lone "Worker" is the only one; elsewhere workers without a rank in their name differ by the pid.
        scope = "" if name == "Worker" else f"worker{int(pid[:9])}"
    return Process(name, engine_no, scope)


def calendar_ns(text: bytes) -> int | None:
    """Return ``YYYY-MM-DD?HH:MM:SS`` as ns since 1970 as if it were UTC; ``None`` for an impossible date."""
    try:
        moment = datetime(
            int(text[:4]),
            int(text[5:7]),
            int(text[8:10]),
            int(text[11:13]),
            int(text[14:16]),
            int(text[17:19]),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    since = moment - _EPOCH
    ns = (since.days * 86_400 + since.seconds) * NS_PER_S
    return ns if 0 <= ns < 1 << 62 else None


def moment_ns(stamp: bytes, fraction: bytes | None) -> int | None:
    """Return ``calendar_ns`` of a stamp with the digits behind its seconds."""
    second_ns = calendar_ns(stamp)
    return None if second_ns is None else second_ns + fraction_ns(fraction)


def stamp_step_ns(fraction: bytes | None) -> int:
    """Return the step of a stamp with these digits behind its seconds."""
    return _STEPS_NS[min(len(fraction), 9)] if fraction else NS_PER_S


def fraction_ns(fraction: bytes | None) -> int:
    """Return the digits behind the seconds of a stamp in ns."""
    return int(fraction[:9].ljust(9, b"0")) if fraction else 0


@dataclass
class EnvelopeReader:
    """Takes layers off lines and remembers what it saw, since prefixes repeat."""

    _processes: dict[bytes, tuple[int, Envelope]] = field(default_factory=dict)
    _second: tuple[bytes, int | None] = (b"", None)

    def peel(self, envelope: Envelope) -> bool:
        """Take one layer off ``envelope.text``; false when none is there."""
        first = envelope.text[:1]
        if first.isdigit():
            return self._peel_stamp(envelope) or self._peel_name(envelope)
        if first == b"(":
            return self._peel_process(envelope)
        if first == b"[":
            return self._peel_bracket(envelope)
        if first == b"{":
            return self._peel_json(envelope)
        if first in {b"-", b"*"}:
            return _cut(envelope, _BULLET.match(envelope.text))
        return first.isalpha() and self._peel_name(envelope)

    def of_process(self, line: bytes) -> tuple[int, Envelope] | None:
        """Return where the process prefix of ``line`` ends and an envelope that names the process, no more.

        The envelope is shared by all lines with this prefix; nobody may change it.
        """
        prefix = line[: line.find(b") ", 0, _PREFIX_LIMIT) + 2]
        known = self._processes.get(prefix)
        if known is None:
            match = _PROCESS.match(line)
            if match is None:
                return None
            process = process_of(match["name"].decode(), match["pid"].decode())
            known = (match.end(), Envelope(b"", process=process))
            if prefix == match[0]:
                if len(self._processes) >= _CACHE_LIMIT:
                    self._processes.clear()
                self._processes[prefix] = known
        return known

    def _peel_process(self, envelope: Envelope) -> bool:
        known = self.of_process(envelope.text)
        if known is None or known[1].process is None:
            return False
        envelope.text = envelope.text[known[0] :]
        # Prefixes stack from the outer process to the inner one; an outer engine still names the engine.
        outer, inner = envelope.process, known[1].process
        if outer is not None and inner.engine_no == "0":
            inner = Process(inner.name, outer.engine_no, inner.scope)
        envelope.process = inner
        return True

    def _peel_stamp(self, envelope: Envelope) -> bool:
        text = envelope.text
        match = _RFC3339.match(text)
        if match is None:
            return self._peel_local(envelope, _VIEWER.match(text))
        stamp, fraction, zone, stream, tag = match.groups()
        local = self._local_ns(stamp, fraction)
        if local is not None:
            envelope.outer_ns = local - _zone_ns(zone)
            envelope.outer_resolution_ns = stamp_step_ns(fraction)
        _cut(envelope, match)
        if stream:
            envelope.stream = stream.decode()
            envelope.is_partial = tag == b"P"
        elif envelope.text[:1].isalnum() and not _LEVEL_WORD.match(envelope.text):
            unit = _JOURNAL_UNIT.match(envelope.text)
            if unit is not None and (unit["pid"] is not None or (len(zone) == 5)):
                _cut(envelope, unit)
        return True

    def _peel_bracket(self, envelope: Envelope) -> bool:
        pod = _POD.match(envelope.text)
        if pod is not None:
            envelope.replica = pod["pod"].decode("utf-8", "replace")
            return _cut(envelope, pod)
        return self._peel_local(envelope, _BRACKET.match(envelope.text))

    def _peel_local(self, envelope: Envelope, match: re.Match[bytes] | None) -> bool:
        if match is None:
            return False
        envelope.outer_local_ns = self._local_ns(match["ts"], match["fraction"])
        if envelope.outer_ns is None:
            envelope.outer_resolution_ns = stamp_step_ns(match["fraction"])
        return _cut(envelope, match)

    def _peel_name(self, envelope: Envelope) -> bool:
        text = envelope.text
        journal = _JOURNAL.match(text)
        if journal is not None and journal["month"] in _MONTHS:
            month = _MONTHS.index(journal["month"]) + 1
            envelope.outer_month_day = b"%02d-%02d %s" % (month, int(journal["day"]), journal["clock"])
            return _cut(envelope, journal)
        if b"|" not in text[:256] or _LEVEL_WORD.match(text):
            return False
        service = _COMPOSE.match(text)
        if service is None:
            return False
        envelope.replica = service["service"].decode("utf-8", "replace")
        return _cut(envelope, service)

    def _peel_json(self, envelope: Envelope) -> bool:
        """Unwrap a record of Docker's json-file driver, of the journal (``-o json``) or a log formatter."""
        if not any(key in envelope.text for key in _JSON_KEYS):
            return False
        try:
            # A number of thousands of digits or deep nesting is no log record either.
            record = json.loads(envelope.text)
        except (ValueError, RecursionError):
            return False
        if not isinstance(record, dict):
            return False
        message, wrapped = record.get("message"), record.get("log")
        if isinstance(message, str):
            self._open_record(envelope, record, message)
            return True
        if isinstance(wrapped, str) and isinstance(record.get("time"), str):
            self._open_wrapped(envelope, record, wrapped)
            return True
        return _open_journal(envelope, record)

    def _open_record(self, envelope: Envelope, record: dict[str, object], message: str) -> None:
        envelope.text = strip_colours(message.encode("utf-8", "replace"))
        envelope.is_record = True
        level, trace, stamp = record.get("levelname"), record.get("exc_info"), record.get("asctime")
        envelope.level = level if isinstance(level, str) else ""
        envelope.trace = trace if isinstance(trace, str) else ""
        if isinstance(stamp, str):
            match = _ASCTIME.fullmatch(stamp.encode("utf-8", "replace"))
            if match is not None:
                envelope.outer_local_ns = self._local_ns(match["ts"], match["fraction"])
                if envelope.outer_ns is None:
                    envelope.outer_resolution_ns = stamp_step_ns(match["fraction"])
        name, pid = record.get("processName"), record.get("process")
        if isinstance(name, str) and name.isascii() and len(name) <= 64:
            envelope.process = process_of(name, str(pid) if isinstance(pid, int) and pid >= 0 else "0")

    def _open_wrapped(self, envelope: Envelope, record: dict[str, object], wrapped: str) -> None:
        match = _RFC3339.fullmatch(str(record["time"]).encode("utf-8", "replace"))
        if match is not None:
            local = self._local_ns(match["ts"], match["fraction"])
            if local is not None:
                envelope.outer_ns = local - _zone_ns(match["zone"])
                envelope.outer_resolution_ns = stamp_step_ns(match["fraction"])
        envelope.stream = str(record.get("stream", "stdout"))[:16]
        # The driver cuts long lines; only the last piece ends with a line end.
        envelope.is_partial = not wrapped.endswith("\n")
        envelope.text = strip_colours(wrapped.rstrip("\r\n").encode("utf-8", "replace"))

    def _local_ns(self, stamp: bytes, fraction: bytes | None) -> int | None:
        if stamp != self._second[0]:
            self._second = (stamp, calendar_ns(stamp))
        ns = self._second[1]
        return ns if ns is None else ns + fraction_ns(fraction)


def _open_journal(envelope: Envelope, record: dict[str, object]) -> bool:
    """Unwrap an entry of ``journalctl -o json``: UTC in us, the text as such or as a list of its bytes."""
    text, stamp = record.get("MESSAGE"), record.get("__REALTIME_TIMESTAMP")
    if isinstance(text, list):
        try:
            message = bytes(text)
        except (TypeError, ValueError):
            return False
    elif isinstance(text, str):
        message = text.encode("utf-8", "replace")
    else:
        return False
    if isinstance(stamp, str) and stamp.isascii() and stamp.isdigit() and len(stamp) <= _MICROSECOND_DIGITS:
        envelope.outer_ns = int(stamp) * 1000
        envelope.outer_resolution_ns = 1000
    envelope.text = strip_colours(message.rstrip(b"\r\n"))
    return True


_ASCTIME = re.compile(rb"(?P<ts>" + _CLOCK + rb")(?:[.,](?P<fraction>\d{1,9}))?")


def _cut(envelope: Envelope, match: re.Match[bytes] | None) -> bool:
    if match is None:
        return False
    envelope.text = envelope.text[match.end() :]
    return True


def _zone_ns(zone: bytes) -> int:
    if zone == b"Z":
        return 0
    digits = zone[1:].replace(b":", b"")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return (-seconds if zone[:1] == b"-" else seconds) * NS_PER_S


#: Step of a stamp by the number of digits of its fraction.
_STEPS_NS: Final = tuple(NS_PER_S // 10**digits for digits in range(10))
