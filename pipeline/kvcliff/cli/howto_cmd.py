"""``kvcliff howto``: the exact commands that record what a diagnosis needs."""

import textwrap
from typing import TYPE_CHECKING, Any

import click

from kvcliff.cli.options import example, format_option, option
from kvcliff.cli.output import Envelope, say, say_lines, say_raw

if TYPE_CHECKING:
    from kvcliff.cli.howto import Howto, Placeholder

#: Names only, so that ``--help`` loads nothing; a test compares them with the registries.
TOPIC_NAMES = ("nsys", "ncu", "scrape", "log", "client", "gpu", "stress")
ENGINE_NAMES = ("vllm", "sglang", "tensorrt_llm")
_WIDTH = 100


@click.command(epilog=example("kvcliff howto stress", "kvcliff howto nsys --engine sglang"))
@click.argument("topic", metavar="TOPIC", type=click.Choice(TOPIC_NAMES))
@option(
    "--engine",
    "engine_name",
    type=click.Choice(ENGINE_NAMES),
    default=ENGINE_NAMES[0],
    help="Serving engine that the commands are for.",
)
@format_option("text", "json")
def howto(topic: str, engine_name: str, output_format: str) -> None:
    """Print the commands that record one kind of evidence.

    TOPIC is nsys, ncu (GPU profilers), scrape, log (the server), client (per-token times), gpu
    (telemetry) or stress (the KV stress test, from empty to full). Every command comes with its
    reason; run them in the run's folder, then: kvcliff diagnose FOLDER
    """
    from kvcliff.cli.howto import MODEL
    from kvcliff.cli.howto_topics import explain

    found = explain(topic, engine_name)
    has_model = any(MODEL.name in step.command for step in found.steps)
    placeholders = (MODEL, *found.placeholders) if has_model else found.placeholders
    if output_format == "json":
        say_raw(Envelope("howto", _data(topic, engine_name, found, placeholders)).to_json())
        return
    _say_howto(found, placeholders)


def _data(
    topic: str, engine_name: str, found: "Howto", placeholders: "tuple[Placeholder, ...]"
) -> dict[str, Any]:
    return {
        "topic": topic,
        "engine": engine_name,
        "title": found.title,
        "purpose": found.purpose,
        "placeholders": [{"name": item.name, "meaning": item.meaning} for item in placeholders],
        "steps": [{"what": item.what, "why": item.why, "command": item.command} for item in found.steps],
    }


def _say_howto(found: "Howto", placeholders: "tuple[Placeholder, ...]") -> None:
    say(found.title, bold=True)
    _say_indented(f"Tells {found.purpose}.", "")
    for number, step in enumerate(found.steps, start=1):
        say("")
        say(f"{number}. {step.what}", bold=True)
        _say_indented(f"Why: {step.why}.", "   ")
        # Commands keep their one line, so that they can be copied.
        say(f"   {step.command}")
    if placeholders:
        say("")
        say("Names in these commands:", bold=True)
        for item in placeholders:
            _say_indented(f"{item.name}: {item.meaning}", "   ")


def _say_indented(text: str, indent: str) -> None:
    say_lines(
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
