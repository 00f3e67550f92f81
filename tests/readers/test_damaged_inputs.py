import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders_metrics import CountingSink, bench_result, client_line, csv_text, scrape, source_of
from kvcliff.errors import KvcliffError
from kvcliff.readers import (
    client_kvcliff,
    client_vllm_bench,
    device_metrics,
    model_config,
    prometheus,
    series_csv,
)
from kvcliff.readers.base import ReadContext, Reader

_DMON = "#Date Time gpu pwr sm\n#YYYYMMDD HH:MM:SS Idx W %\n 20300201 00:00:00 0 400 60\n"
_SHAPE = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2}
VALID: tuple[tuple[Reader, str], ...] = (
    (
        prometheus.READER,
        scrape({'vllm:num_requests_running{engine="0"}': 1, "up": "2 3"}, "# scrape 1896134400") * 2,
    ),
    (client_kvcliff.READER, client_line(0) + "\n" + client_line(1) + "\n"),
    (client_vllm_bench.READER, json.dumps(bench_result())),
    (
        series_csv.READER,
        csv_text("time [s],num_requests_running,token_usage", [(0.5, 1, 0.5), (1.5, 2, 0.6)]),
    ),
    (device_metrics.READER, _DMON),
    (model_config.READER, json.dumps(_SHAPE)),
)
_PIECES = (
    '"',
    "{",
    "}",
    "\n",
    ",",
    " ",
    "nan",
    "1e999",
    "-1",
    "\x00",
    "\xff",
    "[",
    "null",
    "9" * 30,
    "# EOF\n",
    "1_0",
)
_EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(_PIECES) | st.text(max_size=3)),
    min_size=1,
    max_size=6,
)


def _damaged(text: str, edits: list[tuple[float, int, str]]) -> str:
    """Return the text with pieces put in or in the place of others."""
    for where, length, piece in edits:
        place = int(where * len(text))
        text = text[:place] + piece + text[place + length :]
    return text


def _try(folder: Path, reader: Reader, text: str) -> None:
    """Look at a damaged file and load it; only errors made for users may come out."""
    source = source_of(folder, "x", text.encode("latin-1", "replace"))
    assert 0 <= reader.sniff(source).score <= 100
    try:
        report = reader.load(source, CountingSink(), ReadContext(options={"interval_ms": "1000"}))
    except KvcliffError as problem:
        if not problem.hint:
            raise
        return
    assert (report.skipped_count > 0) is (report.first_skip_reason is not None)


@pytest.mark.parametrize(("reader", "text"), VALID, ids=[reader.name for reader, _ in VALID])
def test_valid_input_is_recognised(tmp_path: Path, reader: Reader, text: str) -> None:
    source = source_of(tmp_path, "x", text)
    assert reader.sniff(source).score >= 80
    scores = {other.name: other.sniff(source).score for other, _ in VALID if other is not reader}
    assert set(scores.values()) == {0}


@pytest.mark.parametrize(("reader", "text"), VALID, ids=[reader.name for reader, _ in VALID])
@given(edits=_EDITS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_never_surfaces_as_a_bug(
    tmp_path: Path, reader: Reader, text: str, edits: list[tuple[float, int, str]]
) -> None:
    _try(tmp_path, reader, _damaged(text, edits))


@pytest.mark.fuzz
@pytest.mark.parametrize(("reader", "text"), VALID, ids=[reader.name for reader, _ in VALID])
@given(edits=_EDITS)
@settings(max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_much_damage_never_surfaces_as_a_bug(
    tmp_path: Path, reader: Reader, text: str, edits: list[tuple[float, int, str]]
) -> None:
    _try(tmp_path, reader, _damaged(text, edits))
