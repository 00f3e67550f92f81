"""int_episode_dates: the first engine action of an episode, from the promptest evidence."""

from builders_raw import Row, Rows, table
from builders_serving import model, ns

EPISODE = {"replica_id": "0", "episode_no": 1, "e_proof": "counter"}
KINDS = {"gauges": "flip", "counter": "preempt", "log": "preempt", "copies": "copies_out"}


def action(low: float, high: float, proof: str, *, earliest: float | None = None, **values: object) -> Row:
    return {
        "replica_id": "0",
        "kind": KINDS.get(proof, "preempt"),
        "proof": proof,
        "is_prompt": proof != "counter",
        "earliest_ns": ns(low if earliest is None else earliest),
        "low_ns": ns(low),
        "high_ns": ns(high),
        **values,
    }


def stall(low: float, high: float) -> Row:
    return {
        "replica_id": "0",
        "episode_no": 1,
        "source_id": 3,
        "request_no": 0,
        "start_ns": ns((low + high) / 2),
        "low_ns": ns(low),
        "high_ns": ns(high),
    }


def date(
    *actions: Row, stalls: Rows = (), samples: Rows = (), episode: Row = EPISODE
) -> tuple[object, ...] | None:
    """Return what dates the episode, when and how well, in seconds."""
    numbered = [{**row, "action_no": number} for number, row in enumerate(actions)]
    marks = [
        {
            "mark_no": number,
            "replica_id": "0",
            "episode_no": 1,
            "action_no": number,
            "mark_ns": row["high_ns"],
        }
        for number, row in enumerate(numbered)
    ]
    stubs = {
        "int_episode_marks": marks,
        "int_actions_judged": numbered,
        "int_episode_stalls": stalls,
        "int_episodes": [episode],
        "int_kv_pressure": samples,
    }
    con = model("int_episode_dates", {}, stubs)
    rows = table(con, "select dated_by, at_ns / 1e9, error_ns / 1e9 from int_episode_dates")
    assert len(rows) <= 1
    return rows[0] if rows else None


def test_sampled_evidence_keeps_the_whole_distance_as_error() -> None:
    assert date(action(19, 20, "gauges")) == ("flip", 19.5, 1.0)


def test_earlier_action_that_cannot_be_excluded_widens_the_error() -> None:
    assert date(action(19, 20, "gauges", earliest=15)) == ("flip", 19.5, 4.5)


def test_exact_evidence_has_half_its_width_as_error() -> None:
    assert date(action(19.4, 19.6, "resume")) == ("drop", 19.5, 0.1)


def test_exact_evidence_wins_when_it_overlaps_the_first() -> None:
    assert date(action(19, 20, "gauges"), action(19.9, 20.1, "resume")) == ("drop", 20.0, 0.1)


def test_exact_evidence_of_a_later_action_does_not_win() -> None:
    assert date(action(19, 20, "gauges"), action(24.9, 25.1, "resume")) == ("flip", 19.5, 1.0)


def test_victim_that_falls_silent_dates_the_action() -> None:
    assert date(action(19, 20, "gauges"), stalls=[stall(19.1, 19.3)]) == ("stall", 19.2, 0.1)


def test_counter_dates_only_when_nothing_else_does() -> None:
    late = action(19.2, 19.8, "counter", earliest=14)
    assert date(late, action(19, 20, "gauges")) == ("flip", 19.5, 1.0)
    assert date(late) == ("counter", 19.5, 5.5)


def test_recompute_step_is_late_like_the_counter() -> None:
    late = action(19.2, 19.4, "resume", earliest=14.2, kind="recompute_step", is_prompt=False)
    assert date(late) == ("resume", 19.3, 5.1)


def test_log_line_dates_within_its_second() -> None:
    assert date(action(19, 20, "log")) == ("log", 19.5, 1.0)


def test_copies_date_exactly() -> None:
    assert date(action(19.5, 19.5, "copies")) == ("copies", 19.5, 0.0)


def test_of_two_equal_kinds_the_earlier_dates() -> None:
    assert date(action(19.4, 20.4, "gauges"), action(19, 20, "log")) == ("log", 19.5, 1.0)


def test_of_two_that_end_together_the_narrower_dates() -> None:
    assert date(action(18, 20, "log"), action(19, 20, "gauges")) == ("flip", 19.5, 1.0)


def test_episode_without_proof_has_no_date() -> None:
    assert date(stalls=[stall(19.1, 19.3)], episode={**EPISODE, "e_proof": None}) is None


def test_counter_that_moved_before_the_flip_dates_it() -> None:
    counter, flip = action(39, 40, "counter", earliest=34), action(39.99, 41, "gauges")
    assert date(counter, flip) == ("counter", 39.5, 5.5)


def sample(interval: float, possible_since: float | None) -> Row:
    """Return the sample that follows the stall at 40 s."""
    return {
        "replica_id": "0",
        "source_id": 1,
        "origin": "metrics",
        "sample_no": 0,
        "ts_ns": ns(40.1),
        "previous_ts_ns": ns(40.1 - interval),
        "interval_ns": ns(interval),
        "possible_since_ns": None if possible_since is None else ns(possible_since),
    }


def test_stall_reaches_back_over_samples_that_exclude_no_shorter_wait() -> None:
    silence = stall(39.9, 40.1)
    assert date(stalls=[silence], samples=[sample(1, None)]) == ("stall", 40.0, 0.1)
    assert date(stalls=[silence], samples=[sample(1, 38)]) == ("stall", 40.0, 2.0)
    assert date(stalls=[silence], samples=[sample(1, 20)]) == ("stall", 40.0, 3.1)
    finer = {**sample(0.2, None), "source_id": 2}
    assert date(stalls=[silence], samples=[sample(1, 20), finer]) == ("stall", 40.0, 0.1)
