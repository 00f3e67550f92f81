"""Arrow IPC streams: names, batches and columns as pyarrow reads them, and damage by its place."""

import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcliff.readers.arrow_streams import ArrowDamage, read_batches

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nsight_systems" / "nvtx_samples"
needs_corpus = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the corpus of recordings is not there")


def stream(name: str | None, rows: int, chunk: int) -> bytes:
    table = pa.table({"id": pa.array(range(rows), pa.uint64()), "text": [f"t{row}" for row in range(rows)]})
    sink = io.BytesIO()
    table = table.replace_schema_metadata({"other": "x", "table_name": name} if name else None)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return sink.getvalue()


def test_streams_one_behind_the_other() -> None:
    data = stream("a", 5, 2) + stream(None, 3, 9) + stream("c", 0, 1)
    batches = list(read_batches(memoryview(data)))
    assert [batch.table for batch in batches] == ["a", "a", "a", None, "c"]
    ids = [batch.frame(["id", "absent"])["id"].to_list() for batch in batches]
    assert ids == [[0, 1], [2, 3], [4], [0, 1, 2], []]
    assert batches[-1].frame(["text", "id"]).columns == ["text", "id"]


def test_dictionaries_stay_with_their_batches() -> None:
    table = pa.table({"kind": pa.array(["x", "y", "x"]).dictionary_encode()})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    (batch,) = read_batches(memoryview(sink.getvalue()))
    assert [str(value) for value in batch.frame(["kind"])["kind"]] == ["x", "y", "x"]


def test_a_stream_without_its_end_mark() -> None:
    data = stream("a", 2, 1)[:-8]
    assert [batch.frame(["id"]).height for batch in read_batches(memoryview(data))] == [1, 1]


@pytest.mark.parametrize("cut", [3, 50, 200, -9])
def test_a_cut_stream_is_damage(cut: int) -> None:
    with pytest.raises(ArrowDamage):
        list(read_batches(memoryview(stream("a", 5, 2)[:cut])))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes_give_rows_or_damage(changes: list[tuple[int, int]]) -> None:
    data = bytearray(stream("a", 5, 2))
    for at, value in changes:
        data[at % len(data)] = value
    try:
        for batch in read_batches(memoryview(bytes(data))):
            batch.frame(["id", "text"])
    except ArrowDamage:
        pass


@needs_corpus
@pytest.mark.parametrize("version", ["2022.4.2", "2024.2.3"])
def test_the_tables_of_real_exports(version: str) -> None:
    path = SAMPLES / version / "nvtx_demo.arrows"
    wanted = []
    with path.open("rb") as file:
        while file.tell() < path.stat().st_size:
            table = pa.ipc.open_stream(file).read_all()
            wanted.append((table.schema.metadata[b"table_name"].decode(), table.num_rows))
    batches = list(read_batches(memoryview(path.read_bytes())))
    assert [batch.table for batch in batches] == [name for name, _ in wanted]
    events = {batch.table: batch for batch in batches}["NVTX_EVENTS"]
    assert events.frame(["start"]).height == dict(wanted)["NVTX_EVENTS"]
