"""All errors that kvcliff raises on purpose.

Each class has a stable ``code`` (for machines) and an ``exit_code`` (for shells)::

    KvcliffError                 internal_error    70
    ├── UsageProblem             usage              2   path or option that cannot be used
    ├── InputError               input_unreadable   3   nothing readable
    │   └── DataGapError         data_gap           3   a table or column we need is absent
    ├── StoreError               store_error        1   database cannot be read or written
    │   ├── StoreLockedError     store_locked       1
    │   └── StoreVersionError    store_version      1
    ├── OutputError              output_unwritable  1
    ├── CannotAnswerError        cannot_answer      4   the command's one question has no answer
    └── GateTripped              gate_tripped      10   --fail-on or a gate

A message is one sentence that holds the path or name; ``hint`` is the next command or flag.
"""


class KvcliffError(Exception):
    """Base of every deliberate error.

    Args:
        message: one sentence, with the path or name it is about.
        hint: what to do next (a command, a flag), or ``None``.
    """

    code = "internal_error"
    exit_code = 70

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageProblem(KvcliffError):
    """A path or option that cannot be used as given."""

    code = "usage"
    exit_code = 2


class InputError(KvcliffError):
    """A file that cannot be read, or a run in which nothing can be read."""

    code = "input_unreadable"
    exit_code = 3


class DataGapError(InputError):
    """A table or column that the analysis needs is absent from a file."""

    code = "data_gap"


class StoreError(KvcliffError):
    """The database cannot be opened, read or written."""

    code = "store_error"
    exit_code = 1


class StoreLockedError(StoreError):
    """Another process holds the database."""

    code = "store_locked"


class StoreVersionError(StoreError):
    """The database was written by another schema version, or is not ours."""

    code = "store_version"


class OutputError(KvcliffError):
    """A report or figure cannot be written."""

    code = "output_unwritable"
    exit_code = 1


class CannotAnswerError(KvcliffError):
    """The one question of a command cannot be answered from the data."""

    code = "cannot_answer"
    exit_code = 4


class GateTripped(KvcliffError):
    """A gate or ``--fail-on`` level was reached."""

    code = "gate_tripped"
    exit_code = 10
