"""The root command: its sub-commands, and the one place where errors become text, JSON and exit codes."""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from kvcliff import __version__
from kvcliff.cli.compare_cmd import compare
from kvcliff.cli.diagnose_cmd import diagnose
from kvcliff.cli.doctor_cmd import database_fault, doctor
from kvcliff.cli.export_cmd import export
from kvcliff.cli.formats_cmd import formats
from kvcliff.cli.howto_cmd import howto
from kvcliff.cli.ingest_cmd import ingest
from kvcliff.cli.inspect_cmd import inspect
from kvcliff.cli.ledger_cmd import ledger
from kvcliff.cli.nightly_cmd import nightly
from kvcliff.cli.options import DEFAULT_DATABASE, environment_name, example, option
from kvcliff.cli.output import Envelope, Problem, say_raw, show_error
from kvcliff.cli.report_cmd import report
from kvcliff.cli.runs_cmd import runs
from kvcliff.cli.sql_cmd import sql
from kvcliff.errors import KvcliffError

PROGRAM = "kvcliff"
EXIT_TOOL_ERROR = 1
EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130

#: Every exit code and what it means; the README prints this table.
EXIT_CODES: tuple[tuple[int, str], ...] = (
    (0, "done; also when some files were damaged or a finding cannot tell (the report exists)"),
    (1, "output or database not writable, locked or full, or another failure of the machine"),
    (2, "wrong usage, or a path that does not exist"),
    (3, "nothing readable (with --strict: anything damaged)"),
    (4, "the one question of the command cannot be answered"),
    (10, "--fail-on or the gate of the nightly job tripped"),
    (70, "a bug in kvcliff"),
    (130, "interrupted"),
)


class RootGroup(click.Group):
    """The root group, which turns every error into a sentence and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and exit with its code (return it when not ``standalone_mode``)."""
        arguments = list(sys.argv[1:] if args is None else args)

        run = partial(
            super().main,
            arguments,
            prog_name=PROGRAM,
            complete_var=complete_var,
            standalone_mode=False,
            **extra,
        )
        code = _run_guarded(run, arguments)
        if standalone_mode:
            sys.exit(code)
        return code

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of a day's work, not of the alphabet."""
        return list(self.commands)


def _run_guarded(run: Callable[[], Any], arguments: Sequence[str]) -> int:
    """Return the exit code of ``run``; print what went wrong."""
    try:
        result = run()
        # Buffered output fails here, where it can still be told, and not at interpreter exit.
        sys.stdout.flush()
    except KvcliffError as error:
        return _fail(Problem.of(error), error.exit_code, arguments)
    except click.exceptions.NoArgsIsHelpError as exc:
        exc.show()
        return EXIT_USAGE
    except click.UsageError as exc:
        where = exc.ctx.command_path if exc.ctx is not None else PROGRAM
        problem = Problem("usage", exc.format_message().replace("\n", " "), f"see: {where} --help")
        return _fail(problem, EXIT_USAGE, arguments)
    except click.ClickException as exc:
        return _fail(Problem("tool_error", exc.format_message()), EXIT_TOOL_ERROR, arguments)
    except (click.Abort, KeyboardInterrupt):
        return _fail_interrupted(arguments)
    except BrokenPipeError:
        # The reader of our output went away; the rest has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_TOOL_ERROR
    except Exception as exc:  # noqa: BLE001 - the last place before the user: a bug becomes a sentence
        return _fail_unexpected(exc, arguments)
    return result if isinstance(result, int) else 0


def _fail_interrupted(arguments: Sequence[str]) -> int:
    problem = Problem("interrupted", "interrupted; nothing of an unfinished run was stored")
    return _fail(problem, EXIT_INTERRUPTED, arguments)


def _is_damage(message: str) -> bool:
    """Return whether DuckDB's message is about a database file that is cut or overwritten."""
    return "Corrupt database" in message or "Could not read enough bytes" in message


def _fail_unexpected(error: Exception, arguments: Sequence[str]) -> int:
    # DuckDB reports the interrupt of a running query as this plain error.
    if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
        return _fail_interrupted(arguments)
    if "--debug" in arguments or os.environ.get(environment_name("--debug")):
        traceback.print_exception(error)
    kind = type(error).__name__
    if isinstance(error, MemoryError):
        hint = "give the database engine less, so that it spills to disk: --memory-limit 2GB"
        return _fail(Problem("out_of_memory", "there is not enough memory", hint), EXIT_TOOL_ERROR, arguments)
    if isinstance(error, OSError):
        text = (
            f"{error.filename}: {error.strerror}"
            if error.filename
            else (error.strerror or str(error) or kind)
        )
        return _fail(Problem("system_error", text, "check space and permissions"), EXIT_TOOL_ERROR, arguments)
    if type(error).__module__.endswith("duckdb") and _is_damage(str(error)):
        text = f"the database cannot be read: {str(error).splitlines()[0]}"
        hint = "restore a copy of it, or ingest the runs again into a new --db"
        return _fail(Problem("store_error", text, hint), EXIT_TOOL_ERROR, arguments)
    # A database that somebody else changed can fail anywhere; looking at it first would slow every command.
    if (db_path := _database(arguments)) is not None and (fault := database_fault(db_path)) is not None:
        return _fail(Problem.of(fault), fault.exit_code, arguments)
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(place.filename)}:{place.lineno}"
    problem = Problem(
        "internal_error",
        f"kvcliff failed on something it did not expect ({kind} in {where}): this is a bug",
        "repeat the command as 'kvcliff --debug ...' for the traceback",
    )
    return _fail(problem, EXIT_BUG, arguments)


def _fail(problem: Problem, exit_code: int, arguments: Sequence[str]) -> int:
    """Print a problem where the caller of the command looks for it and return ``exit_code``."""
    if _wants_json(arguments):
        say_raw(Envelope(_command_name(arguments), None, "error", (problem,)).to_json())
    else:
        show_error(problem)
    return exit_code


def _given(flag: str, arguments: Sequence[str]) -> str | None:
    """Return the value of an option; read here because parsing itself may have failed."""
    for index, argument in enumerate(arguments):
        if argument == flag and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(f"{flag}="):
            return argument.removeprefix(f"{flag}=")
    return os.environ.get(environment_name(flag))


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return whether the arguments ask for JSON."""
    return _given("--format", arguments) == "json"


def _database(arguments: Sequence[str]) -> Path | None:
    """Return the database that the command works on, or ``None`` when it has none."""
    if not any(parameter.name == "db_path" for parameter in _command_path(arguments)[-1].params):
        return None
    return Path(_given("--db", arguments) or DEFAULT_DATABASE)


def _command_name(arguments: Sequence[str]) -> str:
    """Return the command that the arguments name (``sql run``), as far as it can be told."""
    return " ".join(command.name or "" for command in _command_path(arguments)[1:])


def _command_path(arguments: Sequence[str]) -> list[click.Command]:
    """Return the command that the arguments name, after the groups that lead to it."""
    path: list[click.Command] = [root]
    for argument in arguments:
        group = path[-1]
        if isinstance(group, click.Group) and argument in group.commands:
            path.append(group.commands[argument])
    return path


@click.group(
    name=PROGRAM,
    cls=RootGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example("kvcliff diagnose sample_traces/kv_stress"),
)
@option("--debug", is_flag=True, help="Print the traceback of an unexpected error.")
@click.version_option(__version__, prog_name=PROGRAM)
def root(debug: bool) -> None:
    """Explain slow token generation of an LLM server, and find its KV-cache cliff.

    Give a folder with whatever one load test left behind: server logs, metric scrapes, client
    results, GPU traces.
    """


for _command in (
    diagnose,
    ingest,
    report,
    compare,
    nightly,
    ledger,
    inspect,
    export,
    howto,
    runs,
    sql,
    formats,
    doctor,
):
    root.add_command(_command)


def main() -> None:
    """Run the ``kvcliff`` command and exit with its code."""
    _prepare_streams()
    # Where it may not write its cache (a read-only home), matplotlib works without, but says so at length.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    root.main()


def _prepare_streams() -> None:
    """Let output be written to whatever the caller gave, or did not give, as standard streams."""
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream = getattr(sys, name)
        if stream is None:
            # A file that is opened later must not get the number: prints would go into the database.
            while os.open(os.devnull, os.O_RDWR) < number:
                pass
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
        elif number and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace" if number == 1 else "backslashreplace")
