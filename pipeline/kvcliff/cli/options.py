"""Options that several commands share, each readable from ``KVCLIFF_<OPTION>``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

FUNCTION = TypeVar("FUNCTION", bound=Callable[..., Any])
Decorator = Callable[[FUNCTION], FUNCTION]

ENVIRONMENT_PREFIX = "KVCLIFF_"
DEFAULT_DATABASE = "kvcliff.duckdb"
DEFAULT_REPORTS = Path("kvcliff-reports")
#: Severities that ``--fail-on`` accepts, lowest first; a level includes those above it.
FAIL_LEVELS = ("info", "warning", "critical")


def environment_name(flag: str) -> str:
    """Return the environment variable of a long option (``--db`` gives ``KVCLIFF_DB``)."""
    return ENVIRONMENT_PREFIX + flag.removeprefix("--").replace("-", "_").upper()


def option(*flags: str, **attributes: Any) -> Decorator[Any]:
    """Return a Click option that shows its default and reads ``KVCLIFF_<OPTION>``."""
    long_flag = next(flag for flag in flags if flag.startswith("--"))
    attributes.setdefault("show_default", True)
    return click.option(*flags, envvar=environment_name(long_flag), show_envvar=True, **attributes)


def example(*commands: str) -> str:
    """Return the epilog of a help text: commands to try, one a line."""
    # Click keeps the line breaks of a paragraph that begins with a backspace.
    return "\b\nExample:\n" + "\n".join(f"  {command}" for command in commands)


def format_option(*choices: str) -> Decorator[Any]:
    """Return ``--format`` with the choices of a command; the first one is the default."""
    return option(
        "--format",
        "output_format",
        type=click.Choice(choices),
        default=choices[0],
        help="How the result is printed on standard output.",
    )


#: Type of a run or file argument: whether it can be read is the working modules' to say, with a hint.
INPUT_PATH = click.Path(path_type=Path, readable=False)

db_option = option(
    "--db",
    "db_path",
    type=click.Path(path_type=Path, readable=False),
    default=DEFAULT_DATABASE,
    help="DuckDB file that holds the runs.",
)
config_option = option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    default=None,
    help="run.toml to use instead of the one in the run folder.",
)
policy_option = option(
    "--policy",
    "policy_path",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    default=None,
    help="TOML policy file: other threshold values (name = number), and the gate of the nightly job.",
)
strict_option = option("--strict", is_flag=True, help="Any damaged or unreadable file is an error (exit 3).")
keep_option = option(
    "--keep", is_flag=True, help="Keep earlier runs of the same name instead of replacing them."
)
memory_option = option(
    "--memory-limit",
    type=str,
    default=None,
    help="Memory for the database engine, for example 2GB; more than that spills to disk.",
)
output_option = option(
    "-o",
    "--output",
    "output",
    type=click.Path(path_type=Path, readable=False),
    default=None,
    help="Report folder; '-' prints the Markdown report instead of writing files. "
    f"Without it: {DEFAULT_REPORTS}/<run name>, which is replaced. Of compare the Markdown file, a figure "
    "beside it; without it none is written.",
)
force_option = option(
    "--force",
    is_flag=True,
    help="Overwrite a report or file that is already there; compare runs all the same that differ in GPU, "
    "model or load.",
)
fail_on_option = option(
    "--fail-on",
    type=click.Choice(FAIL_LEVELS),
    default=None,
    help="Exit 10 when a finding of this severity or above is found (the report is still written). Of "
    "compare: critical when the run is worse, warning when any metric is, info on any change.",
)


#: How long a report is; the first is the default.
AUDIENCES = ("engineer", "incident")
audience_option = option(
    "--audience",
    type=click.Choice(AUDIENCES),
    default=AUDIENCES[0],
    help="How long the report is: everything for an engineer, or for an incident the verdict, figure, swap "
    "points, SLO, what to do, what could not be told, and where it comes from.",
)
self_contained_option = option(
    "--self-contained",
    "is_self_contained",
    is_flag=True,
    help="Write report.html too: the whole report in one file, images inside, no scripts "
    "(with --output - it is printed instead of the Markdown).",
)
