"""The command line: ``main`` is the entry point of the ``kvcliff`` command."""

from kvcliff.cli.root import main

__all__ = ["main"]
