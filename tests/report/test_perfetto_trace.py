"""The Perfetto trace, parsed back with Perfetto's own schema."""

import io
from collections import defaultdict

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from builders_marts import START, S, add_rows, swap_point
from builders_report import stored_story, swap_story
from kvcliff.errors import CannotAnswerError, StoreError
from kvcliff.report.perfetto_trace import write_perfetto

RUN_ID = "night_load-12345678"
ZERO = START + 5 * S


def _story():
    con = swap_story()
    con.execute(
        "create temp table steps (level varchar, device_id integer, step_id bigint, phase varchar, "
        "sequence_count bigint, new_tokens bigint, context_tokens bigint, generation_tokens bigint, "
        "kv_read_tokens bigint, recomputed_tokens bigint, gpu_busy_ns bigint, bubble_before_ns bigint, "
        "bubble_cause varchar, confidence double, kernel_count bigint, graph_count bigint, start_ns bigint, "
        "end_ns bigint, gpu_start_ns bigint, gpu_end_ns bigint)"
    ).fetchall()
    for number in range(4):
        # Steps 2 and 3 overlap: the next one is prepared while this one runs.
        start = START + (10 + number) * S
        add_rows(
            con,
            "steps",
            {
                "device_id": 0, "step_id": number, "phase": "decode", "new_tokens": 8, "start_ns": start,
                "end_ns": start + (S if number != 2 else 3 * S // 2),
                "gpu_start_ns": start, "gpu_end_ns": start,
            },
        )  # fmt: skip
    con.execute(
        "create temp table kernel_phases (level varchar, device_id integer, source_id integer, "
        "kernel_no bigint, phase varchar, busy_ns bigint, start_ns bigint, end_ns bigint)"
    ).fetchall()
    kernels = (("prefill", 0, 10), ("prefill", 20, 30), ("decode", 40, 50), ("decode", 5_000_000, 5_000_010))
    for number, (phase, start_ns, end_ns) in enumerate(kernels):
        add_rows(
            con,
            "kernel_phases",
            {
                "device_id": 0, "source_id": 4, "kernel_no": number, "phase": phase,
                "busy_ns": end_ns - start_ns,
                "start_ns": START + 20 * S + start_ns, "end_ns": START + 20 * S + end_ns,
            },
        )  # fmt: skip
    return con


def _with_trace(con, *, count=1):
    for number in range(count):
        source_id = 4 + number
        add_rows(con, "sources", {"source_id": source_id, "path": f"t{number}.sqlite", "role": "trace"})
        add_rows(con, "clocks", {"source_id": source_id, "offset_ns": ZERO, "method": "utc_stated"})
    return con


def _export(con, clock=None):
    buffer = io.BytesIO()
    written = write_perfetto(stored_story(RUN_ID, con), RUN_ID, buffer, clock)
    return written, Trace.FromString(buffer.getvalue())


@pytest.fixture(scope="module")
def exported():
    return _export(_story())


def _tracks(trace):
    return {
        packet.track_descriptor.uuid: packet.track_descriptor
        for packet in trace.packet
        if packet.HasField("track_descriptor")
    }


def _events(trace, name):
    tracks = _tracks(trace)
    return [
        packet
        for packet in trace.packet
        if packet.HasField("track_event") and tracks[packet.track_event.track_uuid].name == name
    ]


def test_every_packet_is_one_that_a_reader_takes(exported):
    """Tracks are described before they are used, slices are closed in their row, and time never runs back."""
    _, trace = exported
    known, open_slices, last = set(), defaultdict(list), {}
    assert trace.packet[0].sequence_flags == 1
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.uuid not in known
            assert not descriptor.HasField("parent_uuid") or descriptor.parent_uuid in known
            known.add(descriptor.uuid)
        if packet.HasField("track_event"):
            event = packet.track_event
            assert event.track_uuid in known
            assert packet.timestamp >= last.get(event.track_uuid, 0)
            last[event.track_uuid] = packet.timestamp
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                assert not open_slices[event.track_uuid]
                open_slices[event.track_uuid].append(event.name)
            elif event.type == TrackEvent.TYPE_SLICE_END:
                open_slices[event.track_uuid].pop()
    assert not any(open_slices.values())


def test_swap_points_are_instants_at_their_first_action(exported):
    points = _events(exported[1], "swap points")
    assert [packet.track_event.type for packet in points] == [TrackEvent.TYPE_INSTANT] * 2
    assert [(packet.timestamp, packet.track_event.name) for packet in points] == [
        (START + 60 * S, "swap point 1 (confirmed)"),
        (START + 100 * S, "swap point 2 (probable)"),
    ]
    notes = {note.name: note for note in points[0].track_event.debug_annotations}
    assert notes["error_ns"].int_value == S // 2
    assert notes["kv_used_ratio"].double_value == 0.993


def test_kv_is_a_counter_of_its_engine(exported):
    values = _events(exported[1], "KV occupancy (HBM)")
    assert values[0].track_event.double_counter_value == pytest.approx(25.0)
    tracks = _tracks(exported[1])
    counters = [track for track in tracks.values() if track.name == "KV occupancy (HBM)"]
    assert [track.counter.unit_name for track in counters] == ["%", "%"]
    assert {tracks[track.parent_uuid].name for track in counters} == {"engine 0", "engine 1"}
    assert {"waiting", "running", "ITL p50", "ITL p99"} <= {track.name for track in tracks.values()}


def test_steps_that_overlap_lie_in_rows_of_one_track(exported):
    tracks = _tracks(exported[1])
    rows = [uuid for uuid, track in tracks.items() if track.name == "steps (host)"]
    assert len(rows) == 2
    begun = [
        packet
        for packet in _events(exported[1], "steps (host)")
        if packet.track_event.type == TrackEvent.TYPE_SLICE_BEGIN
    ]
    assert len(begun) == 4


def test_kernels_of_a_phase_are_one_slice_until_a_pause(exported):
    slices = [
        (packet.timestamp - START - 20 * S, packet.track_event.name)
        for packet in _events(exported[1], "phases")
    ]
    assert slices == [
        (0, "prefill"),
        (30, ""),
        (40, "decode"),
        (50, ""),
        (5_000_000, "decode"),
        (5_000_010, ""),
    ]


def test_without_a_trace_times_are_those_of_the_run(exported):
    written, trace = exported
    assert (written.clock, written.clock_path, written.early_count) == ("run", None, 0)
    snapshot = trace.packet[0].clock_snapshot
    assert [(clock.clock_id, clock.timestamp) for clock in snapshot.clocks] == [(6, START), (1, START)]


def test_times_are_those_of_the_original_trace():
    written, trace = _export(_with_trace(_story()))
    assert (written.clock, written.clock_path) == ("trace", "t0.sqlite")
    assert _events(trace, "swap points")[0].timestamp == 55 * S
    snapshot = trace.packet[0].clock_snapshot
    assert snapshot.clocks == []


def test_what_lies_before_the_zero_of_the_trace_is_counted():
    written, trace = _export(_with_trace(_story()))
    # Five scrapes of two replicas with three values each, and five seconds of three rates.
    assert written.early_count == 5 * 2 * 3 + 5 * 3
    assert min(packet.timestamp for packet in trace.packet if packet.HasField("track_event")) == 0


def test_the_run_clock_can_be_asked_for():
    written, _ = _export(_with_trace(_story()), "run")
    assert (written.clock, written.early_count) == ("run", 0)


@pytest.mark.parametrize("count", [0, 2])
def test_a_trace_clock_that_is_not_clear_is_refused(count):
    with pytest.raises(CannotAnswerError, match="there is no one clock"):
        _export(_with_trace(_story(), count=count), "trace")
    assert _export(_with_trace(_story(), count=count))[0].clock == "run"


def test_text_of_inputs_is_harmless():
    con = _story()
    con.execute("update runs set name = ?", ["a\x1b[31m<b>"])
    _, trace = _export(con)
    assert next(iter(_tracks(trace).values())).name == "kvcliff: a\\x1b[31m<b>"


def test_same_run_same_bytes(exported):
    assert _export(_story())[1].SerializeToString() == exported[1].SerializeToString()


def test_a_swap_point_without_an_end_has_no_episode():
    con = _story()
    add_rows(
        con,
        "swap_points",
        swap_point(swap_point_id=3, at_ns=START + 110 * S, end_ns=None, recovered_at_ns=None),
    )
    _, trace = _export(con)
    assert len(_events(trace, "swap points")) == 3
    assert len(_events(trace, "swap point episodes")) == 4


def test_an_unknown_run_is_said():
    with pytest.raises(StoreError, match="no run nothing"):
        write_perfetto(stored_story(RUN_ID), "nothing", io.BytesIO())
