"""Compressed files as binary streams that end at the first damage and remember why."""

import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import BinaryIO, Literal

import zstandard

Compression = Literal["gzip", "xz", "zstd"]
_MAGIC: tuple[tuple[bytes, Compression], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError)
#: A zstd block of four bytes may stand for 128 KiB: what is fed at once bounds the memory that it can take.
_ZSTD_FEED_BYTES = 2 * 1024
#: No real recording grows beyond this: the factor of the format, once there is much of it.
_LARGEST_GROWTH: dict[Compression, int] = {"gzip": 500, "xz": 5000, "zstd": 5000}
_GROWTH_ALLOWED_BYTES = 2 << 30


def compression_of(start: bytes) -> Compression | None:
    """Return the compression that the first bytes of a file tell, or ``None``."""
    return next((name for magic, name in _MAGIC if start.startswith(magic)), None)


class _ZstdFrames(io.RawIOBase):
    """All frames of a zstd file; unlike the library's own reader it does not take a cut for an end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._is_inside = False
        self._left = b""

    def readable(self) -> bool:
        """Return true: this stream can be read."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return decompressed bytes, as many as the next compressed block gives; empty at the end.

        Raises:
            EOFError: the file ends inside a frame.
        """
        while True:
            block, self._left = self._left or self._file.read(_ZSTD_FEED_BYTES), b""
            if not block:
                if self._is_inside:
                    raise EOFError("the zstd frame is not complete")
                return b""
            data = self._frame.decompress(block)
            self._is_inside = not self._frame.eof
            if self._frame.eof:
                self._left = self._frame.unused_data
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            if data:
                return data


class TolerantStream(io.RawIOBase):
    """A binary stream that ends at the first damaged byte and remembers why.

    Text, gzip, xz and zstd files that were cut give the rows before the cut; the reader then puts
    ``damage`` into its report.
    """

    def __init__(self, file: BinaryIO, compression: Compression | None) -> None:
        self._file = file
        self._compression = compression
        self._total_bytes = 0
        # One step at a time: a longer read that meets the damage would lose what it had read so far.
        self._read = _step_reader(file, compression)
        self._pending = b""
        self.damage: str | None = None

    def readable(self) -> bool:
        """Return true: this stream can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill ``buffer``; 0 at the end or at the damage."""
        if not self._pending and self.damage is None:
            try:
                self._pending = self._read(len(buffer))
            except _DAMAGE as exc:
                self.damage = f"compressed data ends or breaks early ({type(exc).__name__})"
            self._total_bytes += len(self._pending)
            self._check_growth()
        data, self._pending = self._pending[: len(buffer)], self._pending[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def _check_growth(self) -> None:
        """Stop at data that is made to fill memory or disk (an archive bomb)."""
        if self._compression is None or self._total_bytes < _GROWTH_ALLOWED_BYTES:
            return
        factor = _LARGEST_GROWTH[self._compression]
        if self._total_bytes > factor * self._file.tell():
            self._pending = b""
            self.damage = (
                f"decompresses to more than {factor} times its size; reading stopped after "
                f"{self._total_bytes / (1 << 30):.1f} GiB"
            )

    def close(self) -> None:
        """Close this stream and the file under it."""
        self._file.close()
        super().close()


def _step_reader(file: BinaryIO, compression: Compression | None) -> Callable[[int], bytes]:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file).read1
    if compression == "xz":
        return lzma.LZMAFile(file).read1
    if compression == "zstd":
        return _ZstdFrames(file).read
    return file.read


class Stream(io.BufferedReader):
    """A buffered binary stream over a :class:`TolerantStream`."""

    def __init__(self, tolerant: TolerantStream) -> None:
        super().__init__(tolerant, buffer_size=1 << 20)
        self._tolerant = tolerant

    @property
    def damage(self) -> str | None:
        """Why the stream ended early, or ``None``; valid after reading to the end."""
        return self._tolerant.damage
