"""Whether runs can be compared: GPU, model, load, distance in time; and which settings differ."""

import pytest

from kvcliff.nightly.comparison.load import Load, active_ns
from kvcliff.nightly.comparison.matching import incomparable_reason, nearness, setting_differences
from kvcliff.nightly.comparison.reading import RunReading
from kvcliff.nightly.comparison.statistics import Estimate

S = 1_000_000_000
LOAD = Load(128, 192, 1.2, 3.6)


def run(
    name: str = "run", start_s: float | None = 0, load: Load = LOAD, level: str = "", **settings: str
) -> RunReading:
    start_ns = None if start_s is None else round(start_s * S)
    end_ns = None if start_ns is None else start_ns + 40 * S
    stated = {("", key): value for key, value in settings.items()}
    return RunReading(
        name, start_ns, end_ns, stated, {level: load}, {(level, "itl_p50"): {"totals": Estimate(1.0)}}
    )


def near(base: list[float | None], start_s: float | None) -> bool | None:
    return nearness([run(start_s=start) for start in base], run(start_s=start_s), 600).is_near


@pytest.mark.parametrize(
    ("base", "start_s", "expected"),
    [
        ([0], 640, True),
        ([0], 641, False),
        ([640], 0, True),
        ([0], 20, True),
        ([0, 3000], 3100, True),
        ([0], None, None),
        ([0, None], 100, None),
    ],
)
def test_near_is_within_ten_minutes_of_any_baseline_run(
    base: list[float | None], start_s: float | None, expected: bool | None
) -> None:
    assert near(base, start_s) is expected


def test_a_nightly_baseline_shows_the_noise_of_a_day() -> None:
    day = 86_400.0
    assert near([0, day, 2 * day], 3 * day) is True
    assert near([0, day, 2 * day], 3.2 * day) is True
    assert near([0, day, 2 * day], 3.5 * day) is False


def test_two_runs_a_day_apart_do_not() -> None:
    assert near([0, 86_400], 2 * 86_400) is False


def test_repeats_within_minutes_show_nothing_about_the_next_quarter_of_an_hour() -> None:
    assert near([0, 120, 180], 1380) is False


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        ({"gpu_name": "A100"}, {"gpu_name": "H100"}, "another GPU: A100 in base, H100 in run"),
        ({"device_type": "cpu"}, {"device_type": "cuda"}, "another device"),
        ({"gpu_memory_bytes": "80000000000"}, {"gpu_memory_bytes": "64000000000"}, "another GPU"),
        ({"layers": "32"}, {"layers": "40"}, "another model: layers is 32 in base, 40 in run"),
        ({"model_name": "a"}, {"model_name": "b"}, "another model: a in base, b in run"),
    ],
)
def test_other_hardware_or_model_is_named(ours: dict[str, str], theirs: dict[str, str], words: str) -> None:
    reason = incomparable_reason([run("base", **ours)], run("run", **theirs), 0.2)
    assert reason is not None
    assert reason.startswith(words)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"gpu_name": "NVIDIA  H100"}, {"gpu_name": "nvidia h100"}),
        ({"gpu_name": "A100"}, {}),
        ({"gpu_memory_bytes": "80000000000"}, {"gpu_memory_bytes": "79000000000"}),
        (
            {"model_name": "a", "layers": "32", "hidden_size": "4096"},
            {"model_name": "a-finetuned", "layers": "32", "hidden_size": "4096"},
        ),
    ],
)
def test_what_is_not_known_to_differ_can_be_compared(ours: dict[str, str], theirs: dict[str, str]) -> None:
    assert incomparable_reason([run("base", **ours)], run("run", **theirs), 0.2) is None


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (Load(256, 192, 1.2, 3.6), "prompt tokens per request"),
        (Load(128, 96, 1.2, 3.6), "output tokens per request"),
        (Load(128, 192, 2.4, 7.2), "requests/s"),
    ],
)
def test_other_load_is_named(load: Load, words: str) -> None:
    reason = incomparable_reason([run("base")], run("run", load=load), 0.2)
    assert reason is not None
    assert reason.startswith("another load: ")
    assert words in reason


@pytest.mark.parametrize(
    "load", [Load(128, 192, 0.6, 3.6), Load(128, 192, 1.2, 9.0), Load(120, 200, 1.1, 3.5), Load()]
)
def test_a_slower_server_is_no_other_load(load: Load) -> None:
    """A closed loop keeps its concurrency, an open one its rate."""
    assert incomparable_reason([run("base")], run("run", load=load), 0.2) is None


def test_stated_limits_of_the_client() -> None:
    ours, theirs = Load(concurrency_limit=8), Load(concurrency_limit=16)
    reason = incomparable_reason([run("base", load=ours)], run("run", load=theirs), 0.2)
    assert reason == "another load: 8 and 16 concurrency limit of the client"


def test_levels_without_a_common_one() -> None:
    reason = incomparable_reason([run("base", level="c8")], run("run", level="c16"), 0.2)
    assert reason == "another load: levels c8 in base, c16 in run"


def differing(ours: dict[str, str], theirs: dict[str, str]) -> list[tuple[str, str | None, str | None, bool]]:
    found = setting_differences([run("base", **ours)], run("run", **theirs))
    return [(item.name, item.base_value, item.run_value, item.is_relevant) for item in found]


def test_relevant_settings_come_first() -> None:
    ours = {"model_type": "llama", "max_num_seqs": "64"}
    theirs = {"model_type": "mistral", "max_num_seqs": "96"}
    assert differing(ours, theirs) == [
        ("max_num_seqs", "64", "96", True),
        ("model_type", "llama", "mistral", False),
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"max_num_seqs": "64"}, {}),
        ({}, {"max_num_seqs": "64"}),
        ({"num_gpu_blocks": "2657"}, {"num_gpu_blocks": "2627"}),
        ({"peak_torch_memory_bytes": "1"}, {"peak_torch_memory_bytes": "2"}),
        ({"client_clock": "unix"}, {"client_clock": "monotonic"}),
    ],
)
def test_no_difference(ours: dict[str, str], theirs: dict[str, str]) -> None:
    assert differing(ours, theirs) == []


def test_room_for_kv_that_changed_for_good_is_one() -> None:
    assert differing({"num_gpu_blocks": "2657"}, {"num_gpu_blocks": "1300"}) == [
        ("num_gpu_blocks", "2657", "1300", True)
    ]


def test_a_value_that_any_baseline_run_has_is_no_difference() -> None:
    base = [run("a", max_num_seqs="64"), run("b", max_num_seqs="96")]
    assert setting_differences(base, run("run", max_num_seqs="96")) == ()
    assert setting_differences(base, run("run", max_num_seqs="128"))[0].base_value == "64 / 96"


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([], 0),
        ([(0, 10), (5, 15)], 15),
        ([(0, 10), (20, 30)], 20),
        ([(0, 30), (5, 10)], 30),
        ([(5, 9), (0, 5)], 9),
    ],
)
def test_time_that_intervals_cover(intervals: list[tuple[int, int]], expected: int) -> None:
    assert active_ns(intervals) == expected
