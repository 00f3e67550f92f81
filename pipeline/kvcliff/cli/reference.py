"""The reference tables of the README, written from the code they describe."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from kvcliff.cli.capture_advice import CAPTURES
from kvcliff.cli.howto_topics import TOPICS, explain
from kvcliff.cli.options import environment_name
from kvcliff.cli.root import EXIT_CODES, root
from kvcliff.findings import FINDINGS
from kvcliff.readers import READERS


@dataclass(frozen=True)
class DocumentedOption:
    """One option of one or more commands."""

    flags: str
    environment: str
    commands: tuple[str, ...]
    meaning: str


def walk_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, with its full name (``sql run``)."""
    for name, command in root.commands.items():
        if isinstance(command, click.Group):
            yield from ((f"{name} {sub_name}", sub) for sub_name, sub in command.commands.items())
        else:
            yield name, command


def documented_options() -> tuple[DocumentedOption, ...]:
    """Return every option once, in the order in which commands first use it."""
    found: dict[str, DocumentedOption] = {}
    for name, command in (("kvcliff", root), *walk_commands()):
        for parameter in command.params:
            # Click adds --help and --version itself; they take nothing from the environment.
            if not isinstance(parameter, click.Option) or parameter.envvar is None:
                continue
            long_flag = next(flag for flag in parameter.opts if flag.startswith("--"))
            known = found.get(long_flag)
            commands = (*(known.commands if known is not None else ()), name)
            flags = ", ".join(f"`{flag}`" for flag in parameter.opts)
            meaning = known.meaning if known is not None else _meaning(parameter)
            found[long_flag] = DocumentedOption(flags, environment_name(long_flag), commands, meaning)
    return tuple(found.values())


def _meaning(parameter: click.Option) -> str:
    text = parameter.help or ""
    if isinstance(parameter.type, click.Choice) and parameter.name != "output_format":
        text += f" One of {', '.join(parameter.type.choices)}."
    has_default = isinstance(parameter.default, str) and parameter.name != "output_format"
    return f"{text} Default: `{parameter.default}`." if has_default else text


def render_commands() -> str:
    """Return the table of commands."""
    rows = []
    for name, command in walk_commands():
        context = click.Context(command)
        metavars = [item.make_metavar(context) for item in command.params if isinstance(item, click.Argument)]
        usage = " ".join(("kvcliff", name, *metavars))
        first_line = (command.help or "").splitlines()[0]
        rows.append((f"`{usage}`", first_line, ", ".join(_output_formats(command))))
    return _table(("command", "what it does", "`--format`"), rows)


def _output_formats(command: click.Command) -> tuple[str, ...]:
    for item in command.params:
        if item.name == "output_format" and isinstance(item.type, click.Choice):
            return tuple(str(choice) for choice in item.type.choices)
    return ()


def render_options() -> str:
    """Return the table of options that several commands share, with their environment variables."""
    command_count = sum(1 for _ in walk_commands())
    rows = []
    for entry in documented_options():
        if len(entry.commands) > 1 or entry.commands == (root.name,):
            where = "all" if len(entry.commands) == command_count else ", ".join(entry.commands)
            rows.append((entry.flags, f"`{entry.environment}`", where, entry.meaning))
    return _table(("option", "environment", "commands", "meaning"), rows)


def render_own_options() -> str:
    """Return the options that one command alone has, folded away under its name."""
    own: dict[str, list[tuple[str, ...]]] = {name: [] for name, _ in walk_commands()}
    for entry in documented_options():
        if len(entry.commands) == 1 and entry.commands[0] in own:
            own[entry.commands[0]].append((entry.flags, f"`{entry.environment}`", entry.meaning))
    return "\n".join(
        f"<details><summary><code>kvcliff {name}</code> ({len(rows)})</summary>\n\n"
        f"{_table(('option', 'environment', 'meaning'), rows)}\n</details>\n"
        for name, rows in own.items()
        if rows
    )


def render_exit_codes() -> str:
    """Return the table of exit codes."""
    return _table(("exit", "meaning"), [(str(code), meaning) for code, meaning in EXIT_CODES])


def render_formats() -> str:
    """Return the table of file formats."""
    rows = [
        (f"`{reader.name}`", reader.role, reader.title, "yes" if reader.tried_on_real_files else "no")
        for reader in READERS
    ]
    return _table(("format", "role", "what it is", "tried on real files"), rows)


def render_findings() -> str:
    """Return the table of diagnoses."""
    return _table(("finding", "question"), [(f"`{finding.name}`", finding.question) for finding in FINDINGS])


def render_captures() -> str:
    """Return how each kind of file is captured: what it tells, and the command."""
    blocks = [f"{item.what}: tells {item.why}.\n\n```sh\n{item.command}\n```\n" for item in CAPTURES]
    return "\n".join(block[0].upper() + block[1:] for block in blocks)


def render_howto() -> str:
    """Return the table of the topics of ``kvcliff howto``."""
    rows = []
    for topic in TOPICS:
        found = explain(topic.name)
        rows.append((f"`kvcliff howto {topic.name}`", found.title, found.purpose))
    return _table(("command", "what is recorded", "what it tells"), rows)


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
