"""``kvcliff inspect``: what each file of a folder is, and what is missing for a full diagnosis."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvcliff.cli.options import INPUT_PATH, config_option, example, format_option
from kvcliff.cli.output import Envelope, format_table, say, say_lines, say_raw
from kvcliff.errors import InputError
from kvcliff.units import format_bytes, format_duration_ns

if TYPE_CHECKING:
    from kvcliff.cli.capture_advice import Capture
    from kvcliff.store.file_clock import FileClock
    from kvcliff.store.plan import PlannedSource, RunPlan

    Clocks = dict[int, FileClock]

#: Topic of ``kvcliff howto`` for each role of a missing file.
_HOWTO = {
    "metrics": "scrape",
    "client": "client",
    "log": "log",
    "trace": "nsys",
    "counters": "ncu",
    "device": "gpu",
}


@click.command(epilog=example("kvcliff inspect sample_traces/gpu_story"))
@click.argument("path", metavar="PATH", type=INPUT_PATH)
@config_option
@format_option("text", "json")
def inspect(path: Path, config_path: Path | None, output_format: str) -> None:
    """Tell what each file of PATH is, which clock it keeps, and what is missing.

    Nothing is stored; clocks are told by the beginning of each file. For what is missing, the
    command that captures it is printed.
    """
    from kvcliff.cli.capture_advice import missing_captures
    from kvcliff.cli.progress import progress
    from kvcliff.store.file_clock import file_clock
    from kvcliff.store.plan import plan_run

    with progress():
        plan = plan_run(path, config_path=config_path)
        clocks = {planned.source_id: file_clock(planned) for planned in plan.sources}
    if not plan.sources:
        raise InputError(f"the run folder {path} is empty", hint="see what is expected: kvcliff formats")
    roles = {planned.reader.role for planned in plan.usable if planned.reader is not None}
    if plan.config.settings():
        # A shape written into run.toml serves as well as the model's own file.
        roles.add("model")
    missing = missing_captures(frozenset(roles))
    if output_format == "json":
        say_raw(Envelope("inspect", _data(plan, clocks, missing)).to_json())
        return
    _say_plan(plan, clocks)
    _say_missing(missing)


def _what(planned: "PlannedSource") -> str:
    if planned.source.name == "run.toml":
        return "run configuration"
    if planned.problem is not None:
        return "unreadable"
    # What stands in parentheses (forms, producers) is for the list of formats.
    return planned.reader.title.split(" (")[0] if planned.reader is not None else "unknown"


def _why(planned: "PlannedSource") -> str:
    if planned.problem is not None:
        return planned.problem
    if planned.source.name == "run.toml":
        return "named run.toml"
    return planned.sniff.reason if planned.reader is not None else "no reader knows its content"


def _clock_cells(clock: "FileClock") -> list[str]:
    """Return kind and resolution as cells of the table."""
    step = "" if clock.resolution_ns is None else format_duration_ns(clock.resolution_ns)
    return [clock.words, step]


def _say_plan(plan: "RunPlan", clocks: "Clocks") -> None:
    say(f"{plan.run_id}", bold=True)
    has_levels = any(planned.level is not None or planned.replica is not None for planned in plan.sources)
    headings = ["file", "what it is", "size", "clock", "resolution", "why"]
    rows = []
    for planned in plan.sources:
        row = [
            planned.source.relative,
            _what(planned),
            format_bytes(planned.size_bytes),
            *_clock_cells(clocks[planned.source_id]),
            _why(planned),
        ]
        if has_levels:
            row[1:1] = [planned.level or "", planned.replica or ""]
        rows.append(row)
    if has_levels:
        headings[1:1] = ["level", "replica"]
    say_lines(format_table(headings, rows))
    if not plan.usable:
        say("")
        say("No file here is in a format that kvcliff reads; see: kvcliff formats")


def _say_missing(missing: tuple["Capture", ...]) -> None:
    say("")
    if not missing:
        say("Nothing is missing for a full diagnosis.")
        return
    say("Missing for a full diagnosis:")
    for capture in missing:
        say(f"- {capture.what}: without it there is no telling {capture.why}")
        say(f"    {capture.command}")
    topics = [_HOWTO[capture.role] for capture in missing if capture.role in _HOWTO]
    if topics:
        say("")
        say(f"More on each, and for other engines: kvcliff howto {'|'.join(topics)}")


def _data(plan: "RunPlan", clocks: "Clocks", missing: tuple["Capture", ...]) -> dict[str, Any]:
    files = [
        {
            "path": planned.source.relative,
            "reader": planned.reader.name if planned.reader is not None else None,
            "what": _what(planned),
            "role": planned.reader.role if planned.reader is not None else None,
            "score": planned.sniff.score,
            "why": _why(planned),
            "level": planned.level,
            "replica": planned.replica,
            "size_bytes": planned.size_bytes,
            "is_readable": planned.problem is None,
            "clock": clocks[planned.source_id].kind,
            "clock_words": clocks[planned.source_id].words,
            "clock_resolution_ns": clocks[planned.source_id].resolution_ns,
        }
        for planned in plan.sources
    ]
    wanted = [
        {
            "role": item.role,
            "what": item.what,
            "why": item.why,
            "command": item.command,
            "howto": f"kvcliff howto {_HOWTO[item.role]}" if item.role in _HOWTO else None,
        }
        for item in missing
    ]
    return {"run_id": plan.run_id, "name": plan.name, "files": files, "missing": wanted}
