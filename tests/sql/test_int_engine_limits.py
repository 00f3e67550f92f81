"""int_engine_limits: how many requests an engine may run at once."""

from builders_raw import Row, source, table
from builders_serving import METRICS, Scrape, merge, model, scrape_rows

LOG_2 = source(2, "server.log", "log")


def fact(name: str, value: object, source_id: int = 2) -> Row:
    return {"source_id": source_id, "line_no": 1, "scope": "", "name": name, "value": str(value)}


def limits(*settings: Row, sources: list[Row] | None = None) -> list[tuple[object, ...]]:
    scrapes = scrape_rows(
        [Scrape(0, kv=0.1, running=5), Scrape(1, kv=0.1, running=7), Scrape(2, kv=0.1, running=2)]
    )
    raw = {"raw_settings": list(settings), "sources": sources or [METRICS, LOG_2], **scrapes}
    con = model("int_engine_limits", raw)
    columns = "level, replica_id, running_limit, is_stated, num_blocks, speculative_tokens"
    return table(con, f"select {columns} from int_engine_limits")


def test_stated_limit() -> None:
    assert limits(fact("max_num_seqs", 16), fact("num_gpu_blocks", 128)) == [
        (None, "0", 16.0, True, 128.0, 0.0)
    ]


def test_unstated_limit_is_the_most_that_ever_ran() -> None:
    assert limits() == [(None, "0", 7.0, False, None, 0.0)]


def test_speculative_tokens() -> None:
    assert limits(fact("num_speculative_tokens", 3))[0][5] == 3.0


def test_limit_of_the_own_level_wins_over_the_runs() -> None:
    sources = [
        source(1, "c8/metrics.prom", "metrics", level="c8"),
        source(2, "server.log", "log"),
        source(5, "c8/server.log", "log", level="c8"),
    ]
    rows = limits(fact("max_num_seqs", 16), fact("max_num_seqs", 8, source_id=5), sources=sources)
    assert rows == [("c8", "0", 8.0, True, None, 0.0)]


def test_limit_of_the_run_holds_for_a_level_that_states_none() -> None:
    sources = [source(1, "c8/metrics.prom", "metrics", level="c8"), source(2, "server.log", "log")]
    assert limits(fact("max_num_seqs", 16), sources=sources)[0][2:4] == (16.0, True)


def test_each_replica_has_its_row() -> None:
    both = merge(
        scrape_rows([Scrape(0, kv=0.1, running=5)]), scrape_rows([Scrape(0, kv=0.1, running=9)], engine="1")
    )
    con = model("int_engine_limits", both)
    assert table(con, "select replica_id, running_limit from int_engine_limits order by all") == [
        ("0", 5.0),
        ("1", 9.0),
    ]
