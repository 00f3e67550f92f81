"""Levels that names of kernel counter files state, and names that state none."""

import pytest

from kvcliff.store.plan_counters import CounterFile, counter_levels, serving_levels


def levels(*names: str, known: tuple[str, ...] = ()) -> list[str | None]:
    found = counter_levels((CounterFile(number, name) for number, name in enumerate(names)), known)
    return [found.get(number) for number in range(len(names))]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("decode_c16.ncu-rep", "decode_c32.ncu-rep"), ["c16", "c32"]),
        (("decode-bs8.raw.csv", "decode-bs8.session.csv", "decode-bs16.raw.csv"), ["c8", "c8", "c16"]),
        (("concurrency_4.csv", "concurrency_64.csv"), ["c4", "c64"]),
        (("C1/decode.ncu-rep", "C2/decode.ncu-rep"), ["c1", "c2"]),
        (("c1/decode_c8.csv", "c2/decode_c8.csv"), ["c1", "c2"]),
        (("a/decode_c1.csv", "a/decode_c2.csv"), ["c1", "c2"]),
    ],
)
def test_a_number_that_alone_differs_is_the_level(names: tuple[str, ...], expected: list[str]) -> None:
    assert levels(*names) == expected


@pytest.mark.parametrize(
    "names",
    [
        ("decode_c16.ncu-rep",),
        ("decode_c16.raw.csv", "decode_c16.session.csv"),
        ("a10g_basic_nan_c6.ncu-rep", "a10g_roofline_c4.ncu-rep"),
        ("kernel_0001.csv", "kernel_0002.csv"),
        ("cc80.csv", "cc90.csv"),
        ("abc1.csv", "abc2.csv"),
    ],
)
def test_other_names_state_none(names: tuple[str, ...]) -> None:
    assert levels(*names) == [None] * len(names)


def test_levels_of_other_files_keep_their_label() -> None:
    names = ("ncu/decode_c8.csv", "ncu/decode_c16.csv")
    assert levels(*names, known=("conc-8", "conc-32")) == ["conc-8", "c16"]


@pytest.mark.parametrize(
    ("engine", "clients", "expected"),
    [
        (("server_conc16.log", "server_conc32.log"), (), ["c16", "c32"]),
        (("max_num_seqs_64.log", "max_num_seqs_128.log"), (), ["c64", "c128"]),
        (
            ("server_c16.log", "metrics_c16.prom", "server_c32.log", "metrics_c32.prom"),
            ("bench_c16.json", "bench_c32.json"),
            ["c16", "c16", "c32", "c32", "c16", "c32"],
        ),
        (("server_c1.log", "server_c2.log"), (), [None, None]),
        (("server_c1.log", "server_c2.log"), ("bench_c8.json", "bench_c16.json"), [None] * 4),
        (("server_conc16.log", "server_conc32.log", "metrics.prom"), (), [None] * 3),
        ((), ("bench_c16.json", "bench_c32.json"), [None, None]),
    ],
)
def test_serving_data_has_levels_when_every_file_of_the_engine_names_one(
    engine: tuple[str, ...], clients: tuple[str, ...], expected: list[str | None]
) -> None:
    files = [CounterFile(number, name) for number, name in enumerate((*engine, *clients))]
    found = serving_levels(files[: len(engine)], files[len(engine) :])
    assert [found.get(file.source_id) for file in files] == expected
