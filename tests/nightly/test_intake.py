"""Errors during a pass: which concern one run, which the machine, and which are somebody's wish to stop."""

import errno

import duckdb
import pytest

from kvcliff.errors import InputError, OutputError, StoreError, StoreLockedError
from kvcliff.nightly.intake import is_interrupt, is_machine_error, machine_problem, refusal_of


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InputError("nothing readable"), False),
        (StoreError("the run was stored by another version: its table lacks a column"), False),
        (caused(StoreError("could not take the run"), duckdb.ConversionException("x")), False),
        (caused(StoreError("could not take the run"), duckdb.IOException("no space")), True),
        (caused(StoreError("could not take the run"), duckdb.TransactionException("commit")), True),
        (StoreLockedError("in use"), True),
        (duckdb.FatalException("invalidated"), True),
        (OutputError("the folder is a file"), False),
        (caused(OutputError("cannot write"), PermissionError(errno.EACCES, "denied")), True),
        (OSError(errno.ENOSPC, "no space"), True),
        (FileNotFoundError(errno.ENOENT, "gone"), False),
        (ZeroDivisionError(), False),
    ],
)
def test_what_ends_a_pass(error: Exception, expected: bool) -> None:
    assert is_machine_error(error) is expected


def test_the_first_failure_tells_why() -> None:
    full = duckdb.IOException("no space left")
    later = duckdb.FatalException("database has been invalidated")
    later.__context__ = full
    assert machine_problem(later).message == "the pass stopped: no space left"
    stored = caused(StoreError("could not take the run: no space"), full)
    assert machine_problem(stored) is stored


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyboardInterrupt(), True),
        (duckdb.InterruptException("interrupted"), True),
        (RuntimeError("Query interrupted"), True),
        (RuntimeError("other"), False),
        (caused(InputError("x"), duckdb.InterruptException("interrupted")), True),
    ],
)
def test_a_wish_to_stop(error: BaseException, expected: bool) -> None:
    assert is_interrupt(error) is expected


def test_reasons_in_words() -> None:
    assert refusal_of(InputError("no file", hint="look")).reason == "no file"
    assert refusal_of(MemoryError()).reason == "there is not enough memory for it"
    assert refusal_of(ZeroDivisionError()).reason.endswith("(ZeroDivisionError): this is a bug")
