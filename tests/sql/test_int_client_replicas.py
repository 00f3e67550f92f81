"""int_client_replicas: which replica the client's requests went to."""

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
