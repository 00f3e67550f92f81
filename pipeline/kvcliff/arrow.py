"""Frames as bare Arrow streams: how they reach DuckDB without pyarrow."""

import polars as pl


class ArrowStream:
    """Shows a frame to DuckDB as nothing but an Arrow stream.

    A frame that is handed over as itself is converted with pyarrow, whose import alone takes longer than
    reading most files.
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream's capsule (Arrow PyCapsule interface)."""
        return self._frame.__arrow_c_stream__(requested_schema)
