"""Coverage-guided fuzzing of one reader: ``python -m fuzz.guided READER SECONDS FOLDER`` (needs atheris).

Whatever breaks is kept in the folder, the smallest input of each kind, and the search goes on. Inputs that an
earlier search of the folder found worth keeping are where the next one starts.
"""

import hashlib
import json
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["kvcliff.readers"]):
    from fuzz.harness import Bench
    from fuzz.mutations import NUMBERS, PIECES
    from fuzz.seeds import Seed, all_seeds
    from kvcliff.readers import READERS
    from kvcliff.readers.base import Source

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
#: Files of the corpus that are taken as they are; of longer texts the head is taken.
_HEAD_BYTES = 1500
_WHOLE_BYTES = 4000
_MAX_BYTES = 1 << 16
_CORPUS_SEEDS = 60


def main() -> None:
    """Fuzz until the time is over; the process ends with the fuzzer."""
    reader, seconds, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    seeds = tuple(seed for seed in all_seeds() if seed.reader == reader)
    inputs, scratch = folder / reader / "inputs", folder / reader / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    for path in (inputs, scratch, folder / reader / "found"):
        path.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate((*_parts(seeds), *_corpus(reader))):
        (inputs / f"{number:03d}").write_bytes(content)
    words = folder / reader / "words"
    words.write_text("".join(f'"{_quoted(word)}"\n' for word in (*PIECES, *NUMBERS) if 1 < len(word) < 60))
    target = Target(seeds, Bench(scratch, is_alone=True), folder / reader)
    atheris.Setup(
        [
            sys.argv[0],
            str(inputs),
            f"-max_total_time={seconds}",
            f"-max_len={_MAX_BYTES}",
            f"-dict={words}",
            "-timeout=60",
            "-rss_limit_mb=6000",
            "-seed=1",
            "-print_final_stats=0",
        ],
        target.run,
    )
    atheris.Fuzz()


def _quoted(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _parts(seeds: tuple[Seed, ...]) -> Iterator[bytes]:
    """Yield each file of each seed; its first byte says which one it is."""
    for number, (_, _, content) in enumerate(_choices(seeds)):
        yield bytes((number % 256,)) + content


def _choices(seeds: tuple[Seed, ...]) -> list[tuple[Seed, str, bytes]]:
    return [(seed, name, content) for seed in seeds for name, content in sorted(seed.files.items())]


def _corpus(reader: str) -> Iterator[bytes]:
    """Yield recordings of the format, where they are."""
    own = next(known for known in READERS if known.name == reader)
    paths = [
        path
        for path in (sorted(CORPUS.rglob("*")) if CORPUS.is_dir() else ())
        if path.is_file() and path.stat().st_size < 1 << 22 and own.sniff(Source(path, path.name)).score > 0
    ]
    for path in paths[:: 1 + len(paths) // _CORPUS_SEEDS]:
        content = path.read_bytes()
        yield b"\x00" + (content if len(content) < _WHOLE_BYTES else content[:_HEAD_BYTES])


class Target:
    """What the fuzzer calls: one input into the reader; what breaks is noted."""

    def __init__(self, seeds: tuple[Seed, ...], bench: Bench, folder: Path) -> None:
        self._choices = _choices(seeds)
        self._reader = seeds[0].reader
        self._bench = bench
        self._folder = folder
        self._started_s = time.monotonic()
        self._read_count = 0
        self._found: dict[str, tuple[int, str]] = {}

    def run(self, data: bytes) -> None:
        """Try one input."""
        seed, part, _ = self._choices[data[0] % len(self._choices)] if data else self._choices[0]
        files = {**seed.files, part: data[1:]}
        try:
            self._read_count += self._bench.try_input(self._reader, seed.name, files)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever comes out is a finding
            self._keep(error, seed.name, data[1:])
        if self._bench.case_count % 100 == 0:
            self._note()

    def _keep(self, error: BaseException, name: str, content: bytes) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        place = next((frame for frame in reversed(frames) if "kvcliff" in frame.filename), frames[-1])
        kind = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
        smallest = self._found.get(kind)
        if smallest is not None and smallest[0] <= len(content):
            return
        mark = hashlib.sha256(kind.encode()).hexdigest()[:8]
        self._found[kind] = (len(content), str(error)[:200])
        (self._folder / "found" / f"{mark}-{name}").write_bytes(content)
        self._note()

    def _note(self) -> None:
        data = {
            "reader": self._reader,
            "cases": self._bench.case_count,
            "read": self._read_count,
            "seconds": round(time.monotonic() - self._started_s),
            "found": self._found,
        }
        (self._folder / "summary.json").write_text(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
