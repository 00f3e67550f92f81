"""What is carried from line to line of one replica of a log, or of the whole file."""

from dataclasses import dataclass

from kvcliff.readers.log_access import AccessCounter
from kvcliff.readers.log_clock import StreamClock


@dataclass
class StreamState:
    """Clock, counts and last stamp of one stream of lines.

    Attributes:
        clock: resolves its stamps.
        access: counts its access lines.
        last_ns: [ns] the time of the last stamp.
        last_stamp: that stamp as it stands in the file, if no other layer of the line had a say in its time.
        is_plain_noted: whether the clock facts of stamps with no layer around them are noted: later ones
            cannot be weaker.
    """

    clock: StreamClock
    access: AccessCounter
    last_ns: int | None = None
    last_stamp: bytes | None = None
    is_plain_noted: bool = False
