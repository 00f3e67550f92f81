"""Compressed sources: whole, in several frames, cut, and not compressed at all."""

import gzip
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from kvcliff.errors import InputError
from kvcliff.readers import decompression
from kvcliff.readers.base import Source

CONTENT = random.Random(7).randbytes(600_000) + b"line of text\n" * 20_000
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zstd": zstandard.compress,
}


def source(tmp_path: Path, data: bytes) -> Source:
    path = tmp_path / "file"
    path.write_bytes(data)
    return Source(path, "file")


@pytest.mark.parametrize("name", COMPRESSORS)
def test_compression_is_known_by_content(tmp_path: Path, name: str) -> None:
    assert source(tmp_path, COMPRESSORS[name](CONTENT)).compression == name


@pytest.mark.parametrize("name", COMPRESSORS)
def test_whole_files_read_whole_without_damage(tmp_path: Path, name: str) -> None:
    two_members = COMPRESSORS[name](CONTENT) + COMPRESSORS[name](b"tail")
    with source(tmp_path, two_members).open() as stream:
        assert stream.read() == CONTENT + b"tail"
        assert stream.damage is None


@pytest.mark.parametrize("name", COMPRESSORS)
def test_cut_files_give_what_lies_before_the_cut_and_say_so(tmp_path: Path, name: str) -> None:
    packed = COMPRESSORS[name](CONTENT)
    with source(tmp_path, packed[: len(packed) // 2]).open() as stream:
        data = stream.read()
        assert stream.damage is not None
    assert len(data) > len(CONTENT) // 4
    assert CONTENT.startswith(data)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_overwritten_files_give_what_lies_before_the_damage_and_say_so(tmp_path: Path, name: str) -> None:
    text = b"".join(b"line %d of a log\n" % number for number in range(100_000))
    packed = bytearray(COMPRESSORS[name](text))
    for place in range(len(packed) // 2, len(packed) // 2 + 400):
        packed[place] ^= 0x5A
    with source(tmp_path, bytes(packed)).open() as stream:
        data = stream.read()
        assert stream.damage is not None
    assert data.count(b"\n") < 100_000


def test_plain_files_are_read_as_they_are(tmp_path: Path) -> None:
    plain = source(tmp_path, CONTENT)
    assert plain.compression is None
    with plain.open() as stream:
        assert stream.read() == CONTENT
        assert stream.damage is None


def test_an_empty_file_is_empty_and_whole(tmp_path: Path) -> None:
    with source(tmp_path, b"").open() as stream:
        assert stream.read() == b""
        assert stream.damage is None


def test_a_missing_file_is_an_input_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read gone\.log"):
        Source(tmp_path / "gone.log", "gone.log").open()


@pytest.mark.parametrize("suffix", ["gz", "xz", "zst"])
def test_the_name_leaves_out_the_compression_suffix(suffix: str) -> None:
    assert Source(Path("a"), f"logs/Server.LOG.{suffix}").name == "server.log"


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_file_made_to_fill_the_disk_ends_early_and_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompression, "_GROWTH_ALLOWED_BYTES", 1 << 20)
    with source(tmp_path, COMPRESSORS[name](bytes(64 << 20))).open() as stream:
        size_bytes = sum(len(block) for block in iter(lambda: stream.read(1 << 16), b""))
        assert stream.damage is not None
        assert "times its size; reading stopped after" in stream.damage
    assert size_bytes < 48 << 20


@pytest.mark.parametrize("name", COMPRESSORS)
def test_repetitive_recordings_are_no_bombs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompression, "_GROWTH_ALLOWED_BYTES", 1 << 20)
    content = b"".join(b"vllm:num_requests_running %d\n" % number for number in range(100_000))
    with source(tmp_path, COMPRESSORS[name](content)).open() as stream:
        assert stream.read() == content
        assert stream.damage is None
