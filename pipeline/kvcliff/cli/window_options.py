"""Options that name a time window: what is cut out of a run, or what is asked of a server of metrics."""

from dataclasses import dataclass

from kvcliff.cli.options import option

#: Value of ``--before`` without one: as long as the window.
AS_LONG = "as long"


@dataclass(frozen=True)
class WindowTexts:
    """The edges of a window as given on the command line."""

    start: str | None
    end: str | None


from_option = option(
    "--from",
    "from_time",
    metavar="TIME",
    default=None,
    help="First instant of the time window: ISO 8601 with a zone, unix seconds or now-30m; of a run that is "
    "read also a time without zone (on the run's clock, which is UTC when a file states it), a time of day "
    "14:05:00, or +5m after the run's begin. Of the run only the window is read; with --prometheus the "
    "window is what the server is asked for.",
)
to_option = option(
    "--to",
    "to_time",
    metavar="TIME",
    default=None,
    help="Last instant of the time window, written as for --from; without it the run's end, or now with "
    "--prometheus.",
)
before_option = option(
    "--before",
    "before",
    metavar="[LENGTH|TIME]",
    is_flag=False,
    flag_value=AS_LONG,
    default=None,
    help="Compare the window with the time before it, and say what changed when: a length (5m) or the "
    "instant that it begins at; as long as the window when it stands last, without a value.",
)
