from datetime import UTC, datetime

import pytest

from kvcliff.readers.envelope import Envelope, EnvelopeReader, calendar_ns, process_of, strip_colours

NS = 1_000_000_000


def peeled(line: str, layers: int = 6) -> Envelope:
    reader, envelope = EnvelopeReader(), Envelope(strip_colours(line.encode()))
    for _ in range(layers):
        if not reader.peel(envelope):
            break
    return envelope


def utc_ns(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * NS


@pytest.mark.parametrize(
    ("line", "text", "outer_ns", "resolution_ns"),
    [
        (
            "2030-10-15T00:04:10.7006Z INFO x",
            "INFO x",
            utc_ns("2030-10-15T00:04:10+00:00") + 700_600_000,
            100_000,
        ),
        ("2030-10-15T00:04:10Z INFO x", "INFO x", utc_ns("2030-10-15T00:04:10+00:00"), NS),
        (
            "2030-10-15T02:04:10.5+02:00 INFO x",
            "INFO x",
            utc_ns("2030-10-15T00:04:10+00:00") + 500_000_000,
            100_000_000,
        ),
        ("2030-10-14T20:34:10-0330 host vllm: INFO x", "INFO x", utc_ns("2030-10-15T00:04:10+00:00"), NS),
        (
            "2030-10-15T02:04:10+02:00 host vllm[81]: INFO x",
            "INFO x",
            utc_ns("2030-10-15T00:04:10+00:00"),
            NS,
        ),
        (
            "2030-10-15T00:04:10.000000001Z stdout F INFO x",
            "INFO x",
            utc_ns("2030-10-15T00:04:10+00:00") + 1,
            1,
        ),
    ],
)
def test_stamp_that_states_its_zone(line: str, text: str, outer_ns: int, resolution_ns: int) -> None:
    envelope = peeled(line)
    assert envelope.text.decode() == text
    assert envelope.outer_ns == outer_ns
    assert envelope.outer_resolution_ns == resolution_ns


@pytest.mark.parametrize(
    ("line", "milliseconds"),
    [
        ("2030-05-30 09:53:45.386 | INFO x", 386),
        ("[2030-05-30 09:53:45] INFO x", 0),
        ("[2030-05-30T09:53:45,5] INFO x", 500),
    ],
)
def test_stamp_with_a_year_but_no_zone_is_local(line: str, milliseconds: int) -> None:
    envelope = peeled(line)
    assert envelope.text == b"INFO x"
    assert envelope.outer_ns is None
    assert envelope.outer_local_ns == utc_ns("2030-05-30T09:53:45+00:00") + milliseconds * 1_000_000


def test_lmcache_keeps_its_own_bracket() -> None:
    assert peeled("[2030-05-30 09:53:45,386] LMCache INFO: x").text.startswith(b"[2030")


def test_journal_stamp_has_neither_year_nor_zone() -> None:
    envelope = peeled("Jan  1 00:00:10 node1 vllm[812]: (APIServer pid=812) INFO x")
    assert (envelope.outer_month_day, envelope.text) == (b"01-01 00:00:10", b"INFO x")
    assert envelope.outer_ns is None
    assert envelope.process is not None
    assert envelope.process.name == "APIServer"


@pytest.mark.parametrize(
    ("line", "replica"),
    [
        ("vllm-a-1  | INFO x", "vllm-a-1"),
        ("[pod/vllm-0/server] INFO x", "vllm-0/server"),
        ("2b | INFO x", "2b"),
        ("INFO | no service", ""),
        ("| a | table |", ""),
    ],
)
def test_replica_of_a_shared_stream(line: str, replica: str) -> None:
    assert peeled(line).replica == replica


def test_layers_stack_in_any_order() -> None:
    envelope = peeled(
        "[pod/v-0/s] 2030-10-15T00:04:10Z stdout F \x1b[0;36m(EngineCore_DP1 pid=1)\x1b[0;0m "
        "(RayWorkerWrapper pid=2, ip=10.0.0.3) INFO x"
    )
    assert envelope.text == b"INFO x"
    assert envelope.replica == "v-0/s"
    assert envelope.outer_ns == utc_ns("2030-10-15T00:04:10+00:00")
    assert envelope.process is not None
    # The worker has no data-parallel number of its own: that of the engine around it counts.
    assert (envelope.process.engine_no, envelope.process.scope) == ("1", "worker2")


@pytest.mark.parametrize(
    ("name", "engine_no", "scope"),
    [
        ("APIServer", "0", ""),
        ("ApiServer_2", "0", ""),
        ("APIServer_DP1", "1", "dp1"),
        ("MainProcess", "0", ""),
        ("EngineCore", "0", ""),
        ("EngineCore_0", "0", ""),
        ("EngineCore_3", "3", "dp3"),
        ("EngineCore_DP0", "0", ""),
        ("EngineCore_DP12", "12", "dp12"),
        ("Worker", "0", ""),
        ("Worker_TP1", "0", "tp1"),
        ("Worker_DP2_PP0_TP1_EP3", "2", "dp2_pp0_tp1_ep3"),
        ("VllmWorker rank=3", "0", "rank3"),
        ("VllmWorker TP3", "0", "tp3"),
        ("VllmWorker-0", "0", "rank0"),
        ("VllmWorkerProcess", "0", "worker77"),
        ("RayWorkerWrapper", "0", "worker77"),
    ],
)
def test_engine_and_rank_of_a_process(name: str, engine_no: str, scope: str) -> None:
    process = process_of(name, "77")
    assert (process.engine_no, process.scope) == (engine_no, scope)


def test_partial_lines_are_marked_and_keep_their_blanks() -> None:
    envelope = peeled("2030-08-01T12:00:40+02:00 stdout P INFO half ")
    assert (envelope.is_partial, envelope.stream, envelope.text) == (True, "stdout", b"INFO half ")
    rest = peeled("2030-08-01T12:00:40+02:00 stdout F  and half")
    assert (rest.is_partial, rest.text) == (False, b" and half")


def test_json_record_gives_message_time_level_and_process() -> None:
    envelope = peeled(
        '{"asctime": "2030-07-01 08:00:10,008", "levelname": "ERROR", "processName": "EngineCore_DP1", '
        '"process": 9, "message": "m", "exc_info": "boom"}'
    )
    assert (envelope.is_record, envelope.text, envelope.level, envelope.trace) == (
        True,
        b"m",
        "ERROR",
        "boom",
    )
    assert envelope.outer_local_ns == utc_ns("2030-07-01T08:00:10+00:00") + 8_000_000
    assert envelope.outer_resolution_ns == 1_000_000
    assert envelope.process is not None
    assert envelope.process.engine_no == "1"


def test_json_record_may_hold_the_message_only() -> None:
    envelope = peeled('{"message": "m"}')
    assert (envelope.is_record, envelope.text, envelope.is_stamped) == (True, b"m", False)


def test_docker_json_file_wraps_a_line() -> None:
    envelope = peeled(
        '{"log":"(APIServer pid=1) INFO x\\n","stream":"stderr","time":"2030-10-15T00:04:10.5Z"}', layers=2
    )
    assert (envelope.text, envelope.stream, envelope.is_partial) == (b"INFO x", "stderr", False)
    assert envelope.outer_ns == utc_ns("2030-10-15T00:04:10+00:00") + 500_000_000


@pytest.mark.parametrize(
    "message",
    [
        '"(APIServer pid=1) \\u001b[32mINFO\\u001b[0m x"',
        str(list(b"(APIServer pid=1) \x1b[32mINFO\x1b[0m x")),
    ],
)
def test_journal_entry_in_json_states_utc_in_microseconds(message: str) -> None:
    envelope = peeled(
        '{"__REALTIME_TIMESTAMP":"1918253050500001","_PID":"7","PRIORITY":"6","MESSAGE":' + message + "}",
        layers=2,
    )
    assert (envelope.text, envelope.is_record) == (b"INFO x", False)
    assert (envelope.outer_ns, envelope.outer_resolution_ns) == (1_918_253_050_500_001_000, 1000)


@pytest.mark.parametrize(
    "stamp", ["", ',"__REALTIME_TIMESTAMP":"-5"', ',"__REALTIME_TIMESTAMP":"' + "9" * 300 + '"']
)
def test_journal_entry_without_a_time_is_text_all_the_same(stamp: str) -> None:
    envelope = peeled('{"MESSAGE":"INFO x"' + stamp + "}")
    assert (envelope.text, envelope.outer_ns) == (b"INFO x", None)


@pytest.mark.parametrize(
    "line",
    [
        '{"MESSAGE": 3}',
        '{"MESSAGE": [1, 900]}',
        '{"MESSAGE": ["a"]}',
        '{"message": 3}',
        '{"message": "cut',
        '["message"]',
        "{" * 5000 + '"message"',
        '{"message":' + "9" * 5000 + "}",
        '{"a": 1}',
    ],
)
def test_other_json_is_left_alone(line: str) -> None:
    assert peeled(line).text == line.encode()


@pytest.mark.parametrize(
    "text", [b"2031-02-29 00:00:00", b"2030-13-01 00:00:00", b"2030-01-01 24:00:00", b"0000-01-01 00:00:00"]
)
def test_impossible_dates_are_none(text: bytes) -> None:
    assert calendar_ns(text) is None


def test_calendar_is_counted_as_utc() -> None:
    assert (
        calendar_ns(b"2032-02-29T23:59:59")
        == int(datetime(2032, 2, 29, 23, 59, 59, tzinfo=UTC).timestamp()) * NS
    )
