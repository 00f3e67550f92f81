"""Making text from inputs harmless: control characters, Markdown, HTML, mentions and links."""

import hashlib
import re

_MAX_CHARS = 200
#: Sentences are ours but may quote inputs.
MAX_SENTENCE = 2000
#: Commands are ours and must stay whole.
MAX_COMMAND = 1000
#: Characters that could change a terminal or hide text: C0 and C1 controls, DEL, line separators,
#: direction overrides, zero-width marks, surrogates and the byte-order mark.
_UNSAFE = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
#: Inside a word an underscore is no markup, and names read better without the backslash.
_MARKDOWN = re.compile(r"([\\`*\[\]<>|~{}]|(?<![^\W_])_|_(?![^\W_]))")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_LINE_START = re.compile(r"^(\s*)([#+\-=]|\d+[.)](?=\s|$))")
_LINK_SCHEME = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*):(?=//)|\b(www)\.|\b(mailto|javascript|data):(?=\S)")
#: Breaks @mentions and #references, which forges resolve in rendered text, escaped or not.
_REFERENCE = re.compile(r"((?<!&)[@#!])(?=\w)")
_WORD_JOINER = "\u2060"
_UNSAFE_IN_FILE = re.compile(r"[^\w.+-]+")
#: File systems allow 255 bytes; there must be room for a suffix.
_MAX_FILE_BYTES = 150


def plain(text: str, *, max_chars: int = _MAX_CHARS) -> str:
    """Return text whose characters that steer a terminal or hide something stand as hex codes.

    Args:
        text: anything.
        max_chars: longer text is cut, with an ellipsis.
    """
    cut = text if len(text) <= max_chars else text[: max_chars - 1] + "…"
    return _UNSAFE.sub(_visible, cut)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def file_name(text: str) -> str:
    """Return text as the name of one file or folder: no path, not hidden, short enough for every disk."""
    safe = _UNSAFE_IN_FILE.sub("_", text).strip(".") or "run"
    data = safe.encode()
    if len(data) <= _MAX_FILE_BYTES:
        return safe
    # Two long names that begin alike must not become one.
    digest = hashlib.sha256(data).hexdigest()[:8]
    return f"{data[: _MAX_FILE_BYTES - 9].decode(errors='ignore')}-{digest}"


def markdown_text(text: str) -> str:
    """Return a sentence that renders as itself in Markdown: no markup, HTML, links, mentions."""
    escaped = _MARKDOWN.sub(r"\\\1", plain(text, max_chars=MAX_SENTENCE))
    escaped = _ENTITY.sub("&amp;", escaped)
    escaped = _LINE_START.sub(_escape_line_start, escaped)
    escaped = _LINK_SCHEME.sub(_escape_link, escaped)
    return _REFERENCE.sub(rf"\1{_WORD_JOINER}", escaped)


def _escape_line_start(match: re.Match[str]) -> str:
    mark = match[2]
    return f"{match[1]}{mark[:-1]}\\{mark[-1]}"


def _escape_link(match: re.Match[str]) -> str:
    if match[2]:
        return f"{match[2]}\\."
    return f"{match[1] or match[3]}\\:"


def code_span(text: str, *, in_table: bool = False, max_chars: int = _MAX_CHARS) -> str:
    """Return text as a Markdown code span, where nothing in it is markup.

    Args:
        text: anything; empty text gives an empty string.
        in_table: whether it stands in a table cell, where a bar must be escaped.
        max_chars: longer text is cut; a command must not be.
    """
    content = plain(text, max_chars=max_chars)
    if not content.strip():
        return ""
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if content.startswith("`") or content.endswith("`") or content != content.strip() else ""
    if in_table:
        content = content.replace("|", "\\|")
    return f"{fence}{pad}{content}{pad}{fence}"
