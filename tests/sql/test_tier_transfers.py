"""tier_transfers: KV that log lines of a cache tier say was moved."""

import pytest

from builders_serving import LOG, MS, Row, S, rows_of

GIB = 1 << 30


def moved(line_no: int, direction: str = "load", **values: object) -> Row:
    return {
        "source_id": 2,
        "line_no": line_no,
        "src_ns": line_no * S,
        "engine": "0",
        "scope": "",
        "tier": "lmcache",
        "direction": direction,
        **values,
    }


def transfers(columns: str, *lines: Row) -> list[tuple[object, ...]]:
    return rows_of(
        "tier_transfers", columns, order="direction", sources=[LOG], raw_tier_transfers=list(lines)
    )


def test_directions_are_never_added() -> None:
    rows = transfers(
        "direction, line_count, tokens, bytes, longest_ns, busy_ns, bytes_per_s, ts_ns, end_ns",
        moved(1, "store", tokens=512, bytes=GIB, duration_ms=50.0),
        moved(2, "load", tokens=256, bytes=GIB // 2, duration_ms=10.0),
        moved(4, "load", tokens=256, bytes=GIB // 2, duration_ms=30.0),
    )
    assert rows == [
        ("load", 2, 512, GIB, 30 * MS, 40 * MS, GIB / 0.04, 2 * S, 4 * S),
        ("store", 1, 512, GIB, 50 * MS, 50 * MS, GIB / 0.05, 1 * S, 1 * S),
    ]


@pytest.mark.parametrize(("asked", "missing"), [(None, None), (256, 0), (300, 44), (200, 0)])
def test_tokens_that_were_asked_for_and_did_not_come(asked: int | None, missing: int | None) -> None:
    assert transfers("missing_tokens", moved(1, tokens=256, asked_tokens=asked)) == [(missing,)]


def test_rate_counts_only_lines_with_bytes_and_time() -> None:
    rows = transfers(
        "bytes, bytes_per_s",
        moved(1, bytes=1000, duration_ms=1.0),
        moved(2, bytes=9000),
        moved(3, duration_ms=7.0),
    )
    assert rows == [(10_000, 1e6)]


def test_printed_rates_stand_in_where_nothing_else_is_stated() -> None:
    rows = transfers(
        "bytes, busy_ns, bytes_per_s",
        moved(1, "both", printed_bytes_per_s=2e9),
        moved(2, "both", printed_bytes_per_s=4e9),
    )
    assert rows == [(None, None, 3e9)]


def test_without_lines_there_is_no_row() -> None:
    assert transfers("tier") == []
