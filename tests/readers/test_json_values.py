import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcliff.readers.json_values import count, error_kind, label, nanosecond_list, nanoseconds, number
from kvcliff.units import NS_PER_S


@pytest.mark.parametrize(
    ("value", "unit_ns", "expected"),
    [
        (1796059425.073434, 10**9, 1_796_059_425_073_434_114),
        (1796059425073434112, 1, 1_796_059_425_073_434_112),
        (86.673138, 10**6, 86_673_138),
        (0, 10**9, 0),
        (-0.5, 10**9, None),
        (1e300, 10**9, None),
        (float("nan"), 10**9, None),
        (True, 10**9, None),
        ("1", 10**9, None),
    ],
)
def test_times_keep_every_nanosecond_of_the_number(value: object, unit_ns: int, expected: int | None) -> None:
    assert nanoseconds(value, unit_ns) == expected


def test_numbers_and_counts() -> None:
    assert [number(value) for value in (1, 2.5, True, float("inf"), "3", None)] == [
        1.0,
        2.5,
        None,
        None,
        None,
        None,
    ]
    assert [count(value) for value in (1, 2.0, -1, False, 1e300)] == [1, 2, None, None, None]
    assert [label(value) for value in ("x" * 200, "", 7)] == ["x" * 100, None, None]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        (0, None),
        (503, "http_503"),
        (-1, "error"),
        ("TimeoutError: the prompt was private", "TimeoutError"),
        ("Traceback\n  private line\naiohttp.ClientError(private)", "aiohttp.ClientError"),
        ("the prompt was private", "error"),
        ({"error_type": "HTTPError", "error_msg": "private"}, "HTTPError"),
        ({"code": 500, "message": "private"}, "http_500"),
        ({"message": "private"}, "error"),
        (["private"], "error"),
    ],
)
def test_of_an_error_only_the_class_is_kept(value: object, expected: str | None) -> None:
    assert error_kind(value) == expected


@given(
    st.lists(st.one_of(st.floats(), st.floats(0, 2e9), st.integers(-1, 10**20), st.none(), st.booleans())),
    st.sampled_from([1, 1_000_000, NS_PER_S]),
)
def test_lists_of_times_are_read_like_single_ones(values: list[object], unit_ns: int) -> None:
    single = [time for value in values if (time := nanoseconds(value, unit_ns)) is not None]
    assert nanosecond_list(values, unit_ns) == single


@given(st.lists(st.floats(0, 2e9), min_size=1))
def test_lists_of_seconds_are_exact(values: list[float]) -> None:
    assert nanosecond_list(list(values), NS_PER_S) == [nanoseconds(value, NS_PER_S) for value in values]
