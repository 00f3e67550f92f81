"""int_iterations_timed: whole-second stamps made finer by the steps between them."""

from builders_raw import Row, table
from builders_serving import MS, S, log_row, model, ns


def step(line_no: int, second: float, elapsed_ms: float, **values: object) -> Row:
    counts = {"context_requests": 0, "context_tokens": 0, "generation_requests": 1, "generation_tokens": 1}
    return log_row(line_no, second, elapsed_ms=elapsed_ms, kv_used_ratio=0.5, **counts, **values)


def timed(*steps: Row, uncertainty_ns: int | None = None) -> list[tuple[object, ...]]:
    clocks = [{"source_id": 2, "offset_ns": 0, "uncertainty_ns": uncertainty_ns, "method": "zone"}]
    con = model("int_iterations_timed", {"raw_log_iterations": list(steps), "clocks": clocks})
    columns = f"line_no, start_ns // {MS}, end_ns // {MS}, error_ns // {MS}"
    return table(con, f"select {columns} from int_iterations_timed order by line_no")


def test_one_step_lies_in_the_middle_of_its_second() -> None:
    assert timed(step(1, 10, 100)) == [(1, 10_400, 10_500, 500)]


def test_steps_in_one_second_bound_each_other() -> None:
    # Three steps of 300 ms end in the same second: the first before 10.4 s, the last after 10.6 s.
    rows = timed(step(1, 10, 300), step(2, 10, 300), step(3, 10, 300))
    assert rows == [(1, 9_900, 10_200, 200), (2, 10_200, 10_500, 200), (3, 10_500, 10_800, 200)]


def test_idle_time_between_steps_is_possible() -> None:
    # Nothing says that the second step followed at once: each keeps its whole second.
    assert [row[2:] for row in timed(step(1, 10, 200), step(2, 11, 200))] == [(10_500, 500), (11_500, 500)]


def test_a_full_second_of_steps_pins_the_next() -> None:
    # Ten steps of 100 ms, the first at 10 s and the rest at 11 s: the tenth ends within 11.9 and 12.0.
    steps = [step(1, 10, 100), *[step(number, 11, 100) for number in range(2, 12)]]
    assert timed(*steps)[-1][2:] == (11_950, 50)


def test_stamps_finer_than_a_second_are_kept() -> None:
    rows = timed(step(1, 10.25, 20), step(2, 10.4, 20))
    assert [row[2] for row in rows] == [10_250, 10_400]
    assert all(row[3] == 0 for row in rows)


def test_stamp_that_contradicts_the_steps_falls_back_to_its_own_second() -> None:
    # Three seconds of steps between two stamps a second apart cannot be: the clock stepped.
    rows = timed(step(1, 10, 100), step(2, 11, 4_000))
    assert rows == [(1, 10_400, 10_500, 500), (2, 7_500, 11_500, 500)]


def test_clock_uncertainty_widens_the_error() -> None:
    assert timed(step(1, 10, 100), uncertainty_ns=30 * MS)[0][3] == 530


def test_padding_steps_are_left_out_and_take_no_time() -> None:
    rows = timed(step(1, 10, 100), step(2, 10, 900, is_dummy=True), step(3, 10, 100))
    assert [row[0] for row in rows] == [1, 3]
    # 100 ms apart, both in the second of their stamp: the last ends between 10.1 and 11.0.
    assert rows[1][2] == 10_550


def test_two_engines_in_one_log_do_not_bound_each_other() -> None:
    first, second = step(1, 10, 900), {**step(2, 10, 900), "engine": "1"}
    assert [row[2] for row in timed(first, second)] == [10_500, 10_500]


def test_times_are_nanoseconds_on_the_run_clock() -> None:
    con = model(
        "int_iterations_timed",
        {
            "raw_log_iterations": [step(1, 10, 100)],
            "clocks": [{"source_id": 2, "offset_ns": 5 * S, "uncertainty_ns": 0, "method": "zone"}],
        },
    )
    assert table(con, "select start_ns, end_ns from int_iterations_timed") == [(ns(15.4), ns(15.5))]
