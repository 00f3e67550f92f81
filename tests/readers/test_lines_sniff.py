from pathlib import Path

import pytest

from builders_lines import CORPUS, needs_corpus
from kvcliff.readers import pick_reader
from kvcliff.readers.base import Source


def _files() -> list[Path]:
    if not CORPUS.is_dir():
        return []
    return sorted(path for path in CORPUS.iterdir() if path.is_file() and ".expected." not in path.name)


@needs_corpus
@pytest.mark.parametrize("path", _files(), ids=lambda path: path.name)
def test_logs_are_claimed_and_nothing_else(path: Path) -> None:
    reader, sniff = pick_reader(Source(path, path.name))
    name = reader.name if reader is not None else None
    if path.suffix == ".log":
        assert (name, sniff.score) == ("log", 95)
    elif path.name == "trtllm_iteration_stats.jsonl":
        assert (name, sniff.score) == ("tensorrt_llm_stats", 95)
    else:
        assert name not in {"log", "tensorrt_llm_stats"}


@pytest.mark.parametrize(
    "text",
    [
        "[2030-01-14 09:00:02] some other program says something\n",
        "time,value\n1.5,2\n",
        '{"iter": 1, "loss": 0.5}\n',
        "I0124 09:00:10.001500 6 a.cpp:40] something else of glog\n",
        "slot machine: no server\n",
        "time=2030-01-20T09:00:05Z level=INFO msg=hello\n",
    ],
)
def test_texts_that_look_alike_are_not_claimed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text * 20)
    reader, _ = pick_reader(Source(path, path.name))
    assert reader is None or reader.name not in {"log", "tensorrt_llm_stats"}
