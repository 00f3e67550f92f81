import pytest

from kvcliff.readers.stamps import Stamp, epoch_to_ns, parse_stamp, scaled_to_ns

T = 1_896_134_400_000_000_000  # 2030-02-01T00:00:00Z


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1896134400", T),
        ("1896134400.25", T + 250_000_000),
        ("1896134400250", T + 250_000_000),
        ("1896134400250123", T + 250_123_000),
        ("1896134400250123456", T + 250_123_456),
        ("1.8961344e+09", T),
        ("1.8961344e9.5", None),
        ("", None),
        ("nan", None),
        ("-5", None),
        ("9999999999999999999", None),
    ],
)
def test_epoch_unit_is_told_by_magnitude(text: str, ns: int | None) -> None:
    assert epoch_to_ns(text) == ns


def test_decimal_seconds_are_rounded_once() -> None:
    assert scaled_to_ns("1901.066200275", 10**9) == 1_901_066_200_275
    assert scaled_to_ns("0.1302993237040937", 10**9) == 130_299_324


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2030-02-01T00:00:00Z", Stamp(T, True)),
        ("2030-02-01 02:00:00.613+02:00", Stamp(T + 613_000_000, True)),
        ("2030-02-01T02:00:00+0200", Stamp(T, True)),
        ("2030/02/01 00:00:00.613", Stamp(T + 613_000_000, False)),
        ("20300201 00:00:00", Stamp(T, False)),
        ("20300201-000000", Stamp(T, False)),
        ("Fri Feb  1 00:00:00 UTC 2030", Stamp(T, True)),
        ("Fri Feb  1 12:00:00 AM UTC 2030", Stamp(T, True)),
        ("Fri 01 Feb 2030 12:00:00 PM UTC", Stamp(T + 43_200_000_000_000, True)),
        ("Fri Feb  1 00:00:00 CST 2030", Stamp(T, False)),
        ("2030-02-30 00:00:00", None),
        ("2030-02-01 25:00:00", None),
        ("yesterday", None),
    ],
)
def test_written_dates(text: str, expected: Stamp | None) -> None:
    assert parse_stamp(text) == expected


def test_given_zone_applies_only_to_stamps_that_state_none() -> None:
    hour = 3_600_000_000_000
    assert parse_stamp("2030-02-01 00:00:00", 3600) == Stamp(T - hour, True)
    assert parse_stamp("2030-02-01 00:00:00Z", 3600) == Stamp(T, True)
