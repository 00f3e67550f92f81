"""Numbers to text."""

import pytest

from kvcliff import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "n/a"),
        (0, "0 B"),
        (512, "512 B"),
        (1024, "1 KiB"),
        (524_288, "512 KiB"),
        (2 << 30, "2 GiB"),
        (5 << 40, "5 TiB"),
    ],
)
def test_bytes(value: int | None, text: str) -> None:
    assert units.format_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "n/a"),
        (0, "0 ns"),
        (999, "999 ns"),
        (1_500, "1.5 µs"),
        (40_000_000, "40 ms"),
        (1_250_000_000, "1.25 s"),
        (180_000_000_000, "3 min"),
    ],
)
def test_durations(value: int | None, text: str) -> None:
    assert units.format_duration_ns(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "n/a"), (0.9468, "94.7 %"), (1.0, "100.0 %"), (0.0, "0.0 %")]
)
def test_percentages(value: float | None, text: str) -> None:
    assert units.format_pct(value) == text


@pytest.mark.parametrize(("value", "text"), [(1234567, "1,234,567"), (0, "0"), (2.5, "2"), (None, "n/a")])
def test_counts(value: float | None, text: str) -> None:
    assert units.format_count(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.02346, "0.0235"), (3.14159, "3.14"), (1234.5, "1,234"), (None, "n/a")]
)
def test_numbers_keep_three_digits(value: float | None, text: str) -> None:
    assert units.format_number(value) == text


def test_instants_are_utc_arithmetic_with_milliseconds() -> None:
    assert units.format_instant(1_796_064_598_140_097_100) == "2026-11-30 18:49:58.140"
    assert units.format_instant(1_796_064_598_140_097_100, with_date=False, decimals=0) == "18:49:58"
    assert units.format_instant(None) == "n/a"
