"""Step marks: nothing without a profiler, and texts that the reader takes for steps."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvcliff import annotate
from kvcliff.readers.range_names import is_allowed

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    annotate.is_recording.cache_clear()
    yield
    annotate.is_recording.cache_clear()


class RealDomain:
    pass


def fake_nvtx(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Put an ``nvtx`` in place that a tool is attached to, and return what it records."""
    seen: list[tuple[object, ...]] = []

    @contextmanager
    def mark(message: str, domain: str, payload: int | None) -> Iterator[None]:
        seen.append(("push", message, domain, payload))
        try:
            yield
        finally:
            seen.append(("pop",))

    nvtx = SimpleNamespace(enabled=lambda: True, get_domain=lambda _: RealDomain(), annotate=mark)
    monkeypatch.setattr(annotate, "nvtx", nvtx)
    return seen


def test_a_step_is_a_range_of_the_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = fake_nvtx(monkeypatch)
    with annotate.step(
        context_requests=1,
        context_tokens=256,
        generation_requests=8,
        generation_tokens=9,
        kv_tokens=40_000,
        kv_blocks=77,
    ):
        seen.append(("work",))
    text = "step context=1(256) generation=8(9) kv=40000"
    assert seen == [("push", text, "kvcliff", 77), ("work",), ("pop",)]


def test_the_range_ends_when_the_step_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = fake_nvtx(monkeypatch)
    with pytest.raises(RuntimeError), annotate.step(generation_requests=1):
        raise RuntimeError
    assert seen[-1] == ("pop",)


@pytest.mark.parametrize("counts", [(0, 0, 0, 0, None), (3, 900, 2, 2, 0), (-1, 5, 1, 1, 10**14)])
def test_every_text_is_one_that_the_reader_keeps(counts: tuple[int, int, int, int, int | None]) -> None:
    assert is_allowed(annotate.step_text(*counts))


def test_without_the_package_or_a_profiler_nothing_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not annotate.is_recording()
    first, second = annotate.step(generation_requests=1), annotate.step(context_requests=1)
    assert first is second
    with first:
        pass
    annotate.is_recording.cache_clear()
    monkeypatch.setattr(annotate, "nvtx", None)
    assert not annotate.is_recording()


def test_an_old_package_without_domains_still_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotate, "nvtx", SimpleNamespace(enabled=lambda: True))
    assert annotate.is_recording()


def test_it_imports_nothing_of_kvcliff_and_no_heavy_package() -> None:
    code = (
        "import sys, kvcliff.annotate\n"
        "ours = sorted(name for name in sys.modules if name.startswith('kvcliff.'))\n"
        "heavy = [name for name in ('duckdb', 'polars', 'pyarrow', 'click') if name in sys.modules]\n"
        "print(ours, heavy)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "pipeline")},
    )
    assert done.stdout.strip() == "['kvcliff.annotate'] []"
