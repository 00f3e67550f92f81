"""int_client_replicas: which replica the client's requests went to."""

import pytest

from builders_raw import Row, table
from builders_serving import model, request_row


def sample(replica_id: str, running: float | None = 3.0, level: str | None = None) -> Row:
    return {"replica_id": replica_id, "level": level, "running_count": running, "source_id": 1, "ts_ns": 0}


def replicas(*samples: Row, requests: int = 1) -> list[tuple[object, ...]]:
    raw = {"raw_client_requests": [request_row(number, 1, 2) for number in range(requests)]}
    con = model("int_client_replicas", raw, {"int_kv_samples": samples})
    return table(con, "select level, replica_id from int_client_replicas order by level nulls first")


def test_only_replica() -> None:
    assert replicas(sample("a/0"), sample("a/0")) == [(None, "a/0")]


def test_several_replicas_cannot_be_told_apart() -> None:
    assert replicas(sample("0"), sample("1")) == [(None, "?")]


def test_replica_that_never_runs_anything_is_not_meant() -> None:
    assert replicas(sample("0"), sample("1", 0.0)) == [(None, "0")]


def test_replica_with_unknown_queue_may_be_meant() -> None:
    assert replicas(sample("0"), sample("1", None)) == [(None, "?")]


def test_when_none_runs_anything_all_may_be_meant() -> None:
    assert replicas(sample("0", 0.0), sample("1", 0.0)) == [(None, "?")]


def test_levels_are_looked_at_one_by_one() -> None:
    assert replicas(sample("0", level="c8"), sample("1", level="c16")) == [("c16", "1"), ("c8", "0")]


def test_without_server_data_there_is_one_replica() -> None:
    assert replicas(requests=2) == [(None, "0")]


def test_nothing_at_all() -> None:
    assert replicas(requests=0) == []


ID = "5f0c2f7e-9d1b"


def joined(client_id: str, *logged: tuple[str, str]) -> list[tuple[object, ...]]:
    """Return the rows about the one request of a client, with the ids that the logs of engines name."""
    raw = {
        "raw_client_requests": [request_row(0, 1, 2, request_id=client_id)],
        "raw_log_events": [
            {
                "source_id": 2,
                "line_no": number,
                "engine": engine,
                "kind": "request_added",
                "request_id": log_id,
            }
            for number, (engine, log_id) in enumerate(logged)
        ],
    }
    con = model("int_client_replicas", raw, {"int_kv_samples": [sample("0"), sample("1")]})
    return table(
        con, "select request_no, replica_id from int_client_replicas order by request_no nulls first"
    )


@pytest.mark.parametrize(
    "log_id", [ID, f"cmpl-{ID}-0", f"cmpl-{ID}-0-8a61b2c3", f"chatcmpl-{ID}", f"chatcmpl-{ID}-8a61b2c3"]
)
def test_request_belongs_to_the_replica_whose_log_names_it(log_id: str) -> None:
    assert joined(ID, ("0", "chatcmpl-other-request"), ("1", log_id)) == [(None, "?"), (0, "1")]


@pytest.mark.parametrize(
    ("client_id", "logged"),
    [
        (ID, (("0", "chatcmpl-other-request"),)),
        (ID, (("0", f"cmpl-{ID}-0"), ("1", f"cmpl-{ID}-0"))),
        (ID, (("0", f"chatcmpl-{ID}x"),)),
        ("r1", (("0", "r1"),)),
    ],
)
def test_no_id_two_replicas_and_short_ids_are_no_evidence(
    client_id: str, logged: tuple[tuple[str, str], ...]
) -> None:
    assert joined(client_id, *logged) == [(None, "?")]
