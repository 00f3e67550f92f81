"""HTTP access lines of a log: never kept one by one, but counted between the stamps around them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from kvcliff.readers.log_rows import LogRows
from kvcliff.units import NS_PER_S

#: What stands between the client's address and the method.
ACCESS_MARK: Final = b' - "'
#: How uvicorn begins an access line.
ACCESS_HEAD: Final = b"INFO:     "
#: The client's address at the beginning of an access line is never longer than this.
ADDRESS_LIMIT: Final = 128
_PROFILE: Final = "_profile"
#: A stamp this little before the last one is another process's late line.
_LATE_NS: Final = 60 * NS_PER_S
#: Different texts of access lines told apart between two stamps, and the longest; others are counted as well.
_SLOT_LIMIT: Final = 1024
_TEXT_LIMIT: Final = 256
_URL_CACHE_LIMIT: Final = 4096
_ACCESS = re.compile(rb' - "[A-Z]+ (?P<path>\S+) HTTP/[\d.]+" (?P<status>\d{3})\b')
_STAMPED = re.compile(
    rb"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(?P<fraction>\d{1,9})(?P<rest>\D.{0,160}?INFO:     )",
    re.DOTALL,
)
#: Access lines of SGLang stand behind the whole-second stamp of its other lines.
_BRACKETED = re.compile(rb"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] INFO:     ")
_CLASSES: Mapping[bytes, str] = MappingProxyType(
    {
        b"/metrics": "metrics",
        b"/v1/completions": "completions",
        b"/v1/chat/completions": "completions",
        b"/v1/responses": "completions",
        b"/v1/messages": "completions",
        b"/generate": "completions",
        b"/inference/v1/generate": "completions",
        b"/health": "health",
        b"/ping": "health",
        b"/health_generate": "health",
        b"/start_profile": "start_profile",
        b"/stop_profile": "stop_profile",
    }
)
PathClass = tuple[str, int]


def classify_access(text: bytes) -> PathClass | None:
    """Return path class and status of an access line, given from `` - "`` on; ``None`` when it is none."""
    match = _ACCESS.match(text)
    if match is None:
        return None
    path = match["path"].partition(b"?")[0].rstrip(b"/")
    return _CLASSES.get(path, "other"), int(match["status"])


def is_profile(kind: PathClass) -> bool:
    """Return whether it is a request to the profiler: an event, of which each is looked at."""
    return kind[0].endswith(_PROFILE)


def is_next_period(after_ns: int | None, src_ns: int) -> bool:
    """Return whether a stamp ends what is counted since another; one of its second does not."""
    return after_ns is None or not (
        src_ns // NS_PER_S == after_ns // NS_PER_S or 0 < after_ns - src_ns < _LATE_NS
    )


@dataclass(frozen=True)
class _StampedForm:
    """How the stamped access lines of one second look, so that the next one is known without a parser.

    Attributes:
        second: the stamp up to its seconds.
        rest_at: where the fraction ends.
        rest: what follows it, up to the client's address.
        second_ns: [ns] the stamp without its fraction.
        unit_ns: [ns] the last digit of the fraction.
    """

    second: bytes
    rest_at: int
    rest: bytes
    second_ns: int
    unit_ns: int


@dataclass
class AccessCounter:
    """Counts the access lines of one stream between two different stamps.

    Stamps of one second count as one, since finer ones would make a row of nearly every line.

    Attributes:
        rows: where full counts go.
        slots: the count (and line number) of each text met since the last stamp; texts of one kind share it.
        has_own_stamps: whether the lines counted now have stamps of their own.
        begun_count: lines that :meth:`take` counted and that were the first of their text since a stamp.
    """

    rows: LogRows
    slots: dict[bytes, list[int]] = field(default_factory=dict)
    has_own_stamps: bool = False
    begun_count: int = 0
    _counts: dict[PathClass, list[int]] = field(default_factory=dict)
    _kinds: dict[bytes, PathClass | None] = field(default_factory=dict)
    _form: _StampedForm | None = None
    _bracket: bytes = b""
    _after_ns: int | None = None
    _own_first_ns: int | None = None
    _own_last_ns: int | None = None

    def take(self, line: bytes, start: int, line_no: int) -> bool:
        """Count a line that begins like uvicorn's at ``start``, if its text came before."""
        if self.has_own_stamps:
            return False
        at = line.find(ACCESS_MARK, start)
        text = line[at:]
        slot = self.slots.get(text)
        if slot is not None:
            slot[0] += 1
            return True
        kind = self._kinds.get(text)
        address_at = start + len(ACCESS_HEAD)
        if kind is None or at > address_at + ADDRESS_LIMIT or b" " in line[address_at:at] or is_profile(kind):
            return False
        self.begun_count += 1
        self.count(text, kind, line_no, None)
        return True

    def repeat_stamped(self, line: bytes) -> bool:
        """Count a line with a stamp in front, if form, second and text are those of one counted before."""
        form = self._form
        if form is None or not line.startswith(form.second) or not line.startswith(form.rest, form.rest_at):
            return False
        fraction = line[20 : form.rest_at]
        slot = self.slots.get(line[line.find(ACCESS_MARK, form.rest_at) :])
        if slot is None or not fraction.isdigit():
            return False
        slot[0] += 1
        self._widen(form.second_ns + int(fraction) * form.unit_ns)
        return True

    def repeat_bracketed(self, line: bytes) -> bool:
        """Count a line behind a bracket, if bracket and text are those of one counted before."""
        bracket = self._bracket
        if not bracket or not line.startswith(bracket):
            return False
        slot = self.slots.get(line[line.find(ACCESS_MARK, len(bracket)) :])
        if slot is None:
            return False
        slot[0] += 1
        return True

    def kind_of(self, text: bytes) -> PathClass | None:
        """Return what :func:`classify_access` says, remembered."""
        if text in self._kinds:
            return self._kinds[text]
        kind = classify_access(text)
        if len(text) <= _TEXT_LIMIT:
            if len(self._kinds) >= _URL_CACHE_LIMIT:
                self._kinds.clear()
            self._kinds[text] = kind
        return kind

    def observe(self, src_ns: int) -> None:
        """Take note of a stamp; one a little earlier than the last is another process's late line."""
        if is_next_period(self._after_ns, src_ns):
            self.flush(src_ns)
            self._after_ns = src_ns

    @property
    def after_ns(self) -> int | None:
        """The stamp after which lines are counted now."""
        return self._after_ns

    def add(self, kind: PathClass, line_no: int, count: int) -> None:
        """Count several lines of a kind without stamps of their own, ``line_no`` the first of them."""
        self._counts.setdefault(kind, [0, line_no])[0] += count

    def move_to(self, src_ns: int) -> None:
        """Count from this stamp on; lines counted before it must have been written."""
        self._after_ns = src_ns

    def count(
        self, text: bytes, kind: PathClass, line_no: int, stamp_ns: int | None, line: bytes = b""
    ) -> None:
        """Count one access line; one with a stamp of its own (container log) lies where that says.

        Args:
            text: the line from `` - "`` on.
            kind: path class and status.
            line_no: line in the file.
            stamp_ns: [ns] the line's own stamp.
            line: the whole line as it stands in the file, to learn its form from.
        """
        if self._counts and (stamp_ns is not None) != self.has_own_stamps:
            self.flush(self._after_ns)
        if stamp_ns is not None:
            self._widen(stamp_ns)
            self._learn(line, stamp_ns)
        known = self._counts.get(kind)
        if known is None:
            known = self._counts[kind] = [1, line_no]
        else:
            known[0] += 1
        if len(text) <= _TEXT_LIMIT and len(self.slots) < _SLOT_LIMIT and not is_profile(kind):
            self.slots[text] = known

    def flush(self, before_ns: int | None) -> None:
        """Write the counts since the last stamp; ``before_ns`` is the next, ``None`` at the file's end."""
        if not self._counts:
            return
        after_ns = self._after_ns
        if self.has_own_stamps:
            after_ns, before_ns = self._own_first_ns, self._own_last_ns
            self._form = self._own_first_ns = self._own_last_ns = None
            self._bracket, self.has_own_stamps = b"", False
        for (path_class, status), (count, line_no) in self._counts.items():
            self.rows.add_access((line_no, path_class, status, count, after_ns, before_ns))
        self._counts.clear()
        self.slots.clear()

    def _widen(self, stamp_ns: int) -> None:
        self.has_own_stamps = True
        if self._own_first_ns is None or stamp_ns < self._own_first_ns:
            self._own_first_ns = stamp_ns
        if self._own_last_ns is None or stamp_ns > self._own_last_ns:
            self._own_last_ns = stamp_ns

    def _learn(self, line: bytes, stamp_ns: int) -> None:
        bracketed = _BRACKETED.match(line)
        if bracketed is not None:
            # Stamps in brackets have no fraction: within their second the first one stands for all.
            self._bracket = bracketed[0]
            return
        match = _STAMPED.match(line)
        if match is not None:
            fraction = match["fraction"]
            unit_ns = 10 ** (9 - len(fraction))
            self._form = _StampedForm(
                match["second"],
                match.end("fraction"),
                match["rest"],
                stamp_ns - int(fraction) * unit_ns,
                unit_ns,
            )
