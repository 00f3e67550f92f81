"""server_latencies: histograms of the server over all its scrapes."""

import pytest

from builders_serving import Row, Rows, rows_of

TTFT = "vllm:time_to_first_token_seconds"
BOUNDS = (0.1, 0.2, 0.4, float("inf"))


def histogram(
    *scrapes: tuple[tuple[float, ...], float], first_id: int = 0, **labels: object
) -> dict[str, Rows]:
    """Return the raw rows of one histogram: per scrape the counts within each bound, and the sum."""
    parts: list[tuple[str, float | None]] = [(f"{TTFT}_bucket", bound) for bound in BOUNDS]
    series: list[Row] = [
        {
            "source_id": 1,
            "series_id": first_id + place,
            "name": name,
            "kind": "histogram",
            "engine": "0",
            "le": bound,
            **labels,
        }
        for place, (name, bound) in enumerate([*parts, (f"{TTFT}_sum", None)])
    ]
    samples: list[Row] = [
        {"source_id": 1, "series_id": first_id + place, "scrape_no": scrape_no, "value": value}
        for scrape_no, (counts, total) in enumerate(scrapes)
        for place, value in enumerate((*counts, total))
    ]
    return {"raw_metric_series": series, "raw_metric_samples": samples}


def summary(
    raw: dict[str, Rows], columns: str = "observation_count, restart_count"
) -> list[tuple[object, ...]]:
    return rows_of("server_latencies", columns, **raw)


def test_counts_before_the_first_scrape_are_left_out() -> None:
    raw = histogram(((90.0, 90.0, 90.0, 90.0), 900.0), ((90.0, 95.0, 100.0, 100.0), 902.0))
    columns = "name, observation_count, restart_count, mean_value, p50_value, p90_value, p99_value"
    ((name, *numbers),) = summary(raw, columns)
    assert name == TTFT
    assert numbers == pytest.approx([10, 0, 0.2, 0.2, 0.36, 0.396])


def test_after_a_restart_all_is_new_and_what_was_before_is_left_out() -> None:
    raw = histogram(
        ((50.0, 50.0, 50.0, 50.0), 5.0), ((60.0, 60.0, 60.0, 60.0), 6.0), ((0.0, 2.0, 4.0, 4.0), 1.0)
    )
    columns = "observation_count, restart_count, mean_value, p50_value"
    assert summary(raw, columns) == [(4, 1, 0.25, 0.2)]


@pytest.mark.parametrize(
    ("counts", "p99"),
    [((10.0, 10.0, 10.0, 10.0), 0.1), ((0.0, 0.0, 0.0, 10.0), 0.4)],
    ids=["no resolution below the first bound", "none beyond the last"],
)
def test_ends_of_the_bounds(counts: tuple[float, ...], p99: float) -> None:
    raw = histogram(((0.0, 0.0, 0.0, 0.0), 0.0), (counts, 1.0))
    assert summary(raw, "p99_value") == [(p99,)]


def test_one_scrape_and_standing_counts_tell_nothing() -> None:
    scrape = ((1.0, 2.0, 3.0, 4.0), 1.0)
    assert summary(histogram(scrape)) == []
    assert summary(histogram(scrape, scrape)) == []


def test_models_labels_and_engines_stay_apart() -> None:
    scrapes = (((0.0, 0.0, 0.0, 0.0), 0.0), ((1.0, 1.0, 1.0, 1.0), 0.1))
    parts = [
        histogram(*scrapes, first_id=10 * number, **labels)
        for number, labels in enumerate(({"model": "a"}, {"model": "b"}, {"label": "k=v"}, {"engine": "1"}))
    ]
    raw: dict[str, Rows] = {name: [row for part in parts for row in part[name]] for name in parts[0]}
    assert len(summary(raw)) == 4
