"""The swap_streams mart: token streams around the worst swap point."""

from builders_raw import table
from builders_serving import NO_TRANSFERS, STALLS, model, ns, pressure_story


def test_victims_come_first_and_stand_still() -> None:
    con = model("swap_streams", pressure_story(), NO_TRANSFERS)
    rows = table(
        con,
        "select stream_no, any_value(request_no), any_value(is_victim), count(*) filter (where ts_ns "
        f"> {ns(STALLS[0][0])} and ts_ns < {ns(STALLS[0][1] - 0.1)}) from swap_streams group by 1 order by 1",
    )
    assert [row[2] for row in rows] == [True, True, True, False, False, False]
    # The first victim speaks at neither end of its stall, everybody else does.
    silent = {row[1]: row[3] for row in rows}
    assert silent[0] == 0
    assert all(count > 10 for request_no, count in silent.items() if request_no != 0)


def test_the_window_begins_shortly_before_the_first_action() -> None:
    con = model("swap_streams", pressure_story(), NO_TRANSFERS)
    ((first, last),) = table(con, "select min(ts_ns), max(ts_ns) from swap_streams")
    ((at,),) = table(con, "select at_ns from swap_points")
    assert ns(2.5) < at - first <= ns(3)
    assert ns(62.7) < last <= ns(65)


def test_tokens_count_from_the_left_edge() -> None:
    con = model("swap_streams", pressure_story(), NO_TRANSFERS)
    query = "select min(tokens), max(tokens), count(*) from swap_streams where stream_no = 6"
    ((least, most, rows),) = table(con, query)
    assert least == 1
    assert most == rows


def test_without_victims_there_is_nothing_to_look_at() -> None:
    con = model("swap_streams", pressure_story(has_streams=False), NO_TRANSFERS)
    assert table(con, "select * from swap_streams") == []
