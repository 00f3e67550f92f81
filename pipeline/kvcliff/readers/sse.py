"""What one server-sent event of a completion stream carries, without keeping its text."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kvcliff.readers.json_values import elements_of, members_of

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_TEXT_MEMBERS: Final = ("content", "reasoning_content", "reasoning", "text", "tool_calls", "function_call")
_DONE: Final = "[DONE]"


def _decoded(event: object) -> Mapping[str, object]:
    """Return the JSON object of an event, with or without its ``data:`` prefix; empty when it has none."""
    if not isinstance(event, str):
        return _NOTHING
    text = event.strip().removeprefix("data:").strip()
    if not text.startswith("{"):
        return _NOTHING
    try:
        return members_of(json.loads(text))
    except (ValueError, RecursionError):
        return _NOTHING


def has_content(event: object) -> bool:
    """Return whether an event brings generated text (or a tool call)."""
    for choice in elements_of(_decoded(event).get("choices")):
        members = members_of(choice)
        delta = members_of(members.get("delta"))
        if any(delta.get(name) for name in _TEXT_MEMBERS) or members.get("text"):
            return True
    return False


def usage_of(event: object) -> Mapping[str, object]:
    """Return the usage object of an event; empty when it has none."""
    if not isinstance(event, str) or '"usage"' not in event:
        return _NOTHING
    return members_of(_decoded(event).get("usage"))


def is_end_mark(event: object) -> bool:
    """Return whether an event only says that the stream is over, or is empty."""
    return not isinstance(event, str) or event.strip().removeprefix("data:").strip() in {"", _DONE}
