"""The rules of all grammars, arranged so that most lines cost a look at a few bytes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kvcliff.readers.envelope import Envelope
from kvcliff.readers.lines.base import Grammar, Rule

Starts = Mapping[int, tuple[tuple[bytes, Rule], ...]]
Unwrap = Callable[[re.Match[bytes], Envelope], Envelope]


@dataclass(frozen=True)
class HeadRules:
    """What follows a head: the rules of its grammar.

    Attributes:
        starts: literal and rule by the first byte of the message.
        engine: the engine that writes such lines, empty when the producer is none.
        producer: name of the grammar.
        unwrap: reads stamp and rank off heads that do not have the usual stamp.
    """

    starts: Starts
    engine: str
    producer: str
    unwrap: Unwrap | None


@dataclass(frozen=True)
class Dispatch:
    """The rules of all grammars by the first byte of a message, and the literals searched in other text.

    Attributes:
        heads: patterns of heads by their first byte.
        of_head: what follows a head, by the text of its pattern.
        starts: literal and rule by first byte of the message, in the order of the grammars.
        contains: literal and rule, for severe lines and lines without a head.
        interest: literal and skip reason.
        content: messages that start so are never searched.
    """

    heads: Mapping[int, tuple[re.Pattern[bytes], ...]]
    of_head: Mapping[bytes, HeadRules]
    starts: Starts
    contains: tuple[tuple[bytes, Rule], ...]
    interest: tuple[tuple[bytes, str], ...]
    content: tuple[bytes, ...]


def dispatch_of(grammars: tuple[Grammar, ...]) -> Dispatch:
    """Return the rules of ``grammars`` as the scan looks them up."""
    heads: dict[int, list[re.Pattern[bytes]]] = {}
    for grammar in grammars:
        for head in grammar.heads:
            for byte in head.first_bytes:
                heads.setdefault(byte, []).append(head.pattern)
    return Dispatch(
        {byte: tuple(found) for byte, found in heads.items()},
        {
            head.pattern.pattern: HeadRules(_starts((grammar,)), grammar.engine, grammar.name, head.unwrap)
            for grammar in grammars
            for head in grammar.heads
        },
        _starts(grammars),
        tuple((literal, rule) for grammar in grammars for rule in grammar.rules for literal in rule.contains),
        tuple(pair for grammar in grammars for pair in grammar.interest),
        tuple(literal for grammar in grammars for literal in grammar.content_starts),
    )


def _starts(grammars: tuple[Grammar, ...]) -> Starts:
    starts: dict[int, list[tuple[bytes, Rule]]] = {}
    for grammar in grammars:
        for rule in grammar.rules:
            for literal in rule.starts:
                starts.setdefault(literal[0], []).append((literal, rule))
    return {byte: tuple(found) for byte, found in starts.items()}
