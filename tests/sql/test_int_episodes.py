"""int_episodes: marks of one episode with the proofs and counts behind them."""

from builders_raw import Row, Rows, table
from builders_serving import S, model, ns


def mark(
    mark_no: int, second: float, action_no: int | None = None, episode_no: int = 1, **values: object
) -> Row:
    return {
        "mark_no": mark_no,
        "replica_id": "0",
        "episode_no": episode_no,
        "action_no": action_no,
        "mark_ns": ns(second),
        **values,
    }


def action(action_no: int, second: float, kind: str, proof: str, **values: object) -> Row:
    return {
        "action_no": action_no,
        "replica_id": "0",
        "kind": kind,
        "proof": proof,
        "event_count": 1,
        "high_ns": ns(second),
        "ts_ns": ns(second) - S // 2,
        **values,
    }


def episodes(columns: str, actions: Rows, blocked: Rows = ()) -> list[tuple[object, ...]]:
    """Return episodes of actions that are all marks of episode 1."""
    marks = [
        mark(int(str(row["action_no"])), int(str(row["high_ns"])) / S, int(str(row["action_no"])))
        for row in actions
    ]
    con = model("int_episodes", {}, {"int_episode_marks": [*marks, *blocked], "int_actions_judged": actions})
    return table(con, f"select {columns} from int_episodes order by level, replica_id, episode_no")


COUNTED = action(1, 20, "preempt", "counter", event_count=4)
LOGGED = action(2, 21, "preempt", "log", event_count=50)
RESUMED = action(3, 22, "recompute_step", "resume", tokens=250, mode="recompute")
DROPPED = action(4, 19, "preempt", "resume", event_count=2, mode="recompute")
COPIED = action(5, 23, "copies_out", "copies", mode="swap")
FLIPPED = action(6, 18, "flip", "gauges")


def test_best_proof_wins() -> None:
    order = [COUNTED, LOGGED, RESUMED, COPIED, FLIPPED]
    best = [episodes("e_proof", order[number:])[0][0] for number in range(5)]
    assert best == ["counter", "log", "resume", "copies", "gauges"]


def test_a_single_log_line_is_proof() -> None:
    assert episodes("e_proof, action_count", [{**LOGGED, "event_count": 1}, FLIPPED]) == [("log", 1)]


def test_best_count_wins() -> None:
    order = [COUNTED, LOGGED, DROPPED, FLIPPED, COPIED]
    counts = [episodes("action_count", order[number:])[0][0] for number in range(5)]
    assert counts == [4, 50, 2, 1, 1]


def test_failed_store_into_a_tier_is_no_action_of_the_scheduler() -> None:
    failed = action(7, 20, "offload_store_failed", "log")
    assert episodes("e_proof, evidence", [failed]) == [(None, "offload_store_failed (log)")]
    assert episodes("e_proof", [failed, FLIPPED]) == [("gauges",)]


def test_most_actions_that_any_source_shows() -> None:
    flips = [{**FLIPPED, "action_no": 20 + number} for number in range(6)]
    assert episodes("action_count, seen_actions", [COUNTED, *flips]) == [(4, 6)]
    assert episodes("action_count, seen_actions", [COUNTED, DROPPED]) == [(4, 4)]


def test_blocked_samples_alone_prove_nothing() -> None:
    rows = episodes(
        "e_proof, evidence, action_count, blocked_count, first_high_ns", [], [mark(1, 5), mark(2, 6)]
    )
    assert rows == [(None, None, 0, 2, None)]


def test_evidence_names_each_kind_once_in_order() -> None:
    twice = {**FLIPPED, "action_no": 9, "high_ns": 25 * S}
    rows = episodes("evidence", [FLIPPED, COUNTED, RESUMED, twice])
    assert rows == [("flip (gauges), preempt (counter), recompute_step (resume)",)]


def test_counts_and_tokens_are_summed() -> None:
    rows = episodes(
        "counted_actions, recomputed_tokens",
        [COUNTED, {**COUNTED, "action_no": 9}, RESUMED, {**RESUMED, "action_no": 10, "tokens": 50}],
    )
    assert rows == [(8, 300)]


def test_what_no_source_states_is_unknown() -> None:
    assert episodes("counted_actions, recomputed_tokens, mode", [FLIPPED]) == [(None, None, None)]


def test_times() -> None:
    rows = episodes(
        "first_mark_ns, last_mark_ns, first_high_ns, counter_at_ns, resume_at_ns",
        [FLIPPED, COUNTED, RESUMED],
        [mark(10, 15), mark(11, 30)],
    )
    assert rows == [(15 * S, 30 * S, 18 * S, 20 * S, ns(21.5))]


def test_each_episode_and_replica_is_a_row() -> None:
    marks = [mark(1, 5), mark(2, 50, episode_no=2), mark(3, 5, replica_id="1")]
    assert episodes("replica_id, episode_no", [], marks) == [("0", 1), ("0", 2), ("1", 1)]


def test_level_goes_through() -> None:
    assert episodes("level", [], [mark(1, 5, level="c8"), mark(2, 5, level="c16")]) == [("c16",), ("c8",)]
