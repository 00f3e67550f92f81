"""The rules of all grammars, arranged so that most lines cost a look at a few bytes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kvcliff.readers.lines.base import Grammar, Rule


@dataclass(frozen=True)
class Dispatch:
    """The rules of all grammars by the first byte of a message, and the literals searched in other text.

    Attributes:
        heads: patterns of heads by their first byte.
        starts: literal and rule by first byte of the message, in the order of the grammars.
        contains: literal and rule, for severe lines and lines without a head.
        interest: literal and skip reason.
        content: messages that start so are never searched.
    """

    heads: Mapping[int, tuple[re.Pattern[bytes], ...]]
    starts: Mapping[int, tuple[tuple[bytes, Rule], ...]]
    contains: tuple[tuple[bytes, Rule], ...]
    interest: tuple[tuple[bytes, str], ...]
    content: tuple[bytes, ...]


def dispatch_of(grammars: tuple[Grammar, ...]) -> Dispatch:
    """Return the rules of ``grammars`` as the scan looks them up."""
    heads: dict[int, list[re.Pattern[bytes]]] = {}
    starts: dict[int, list[tuple[bytes, Rule]]] = {}
    for grammar in grammars:
        for head in grammar.heads:
            for byte in head.first_bytes:
                heads.setdefault(byte, []).append(head.pattern)
        for rule in grammar.rules:
            for literal in rule.starts:
                starts.setdefault(literal[0], []).append((literal, rule))
    return Dispatch(
        {byte: tuple(found) for byte, found in heads.items()},
        {byte: tuple(found) for byte, found in starts.items()},
        tuple((literal, rule) for grammar in grammars for rule in grammar.rules for literal in rule.contains),
        tuple(pair for grammar in grammars for pair in grammar.interest),
        tuple(literal for grammar in grammars for literal in grammar.content_starts),
    )
