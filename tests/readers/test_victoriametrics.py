import json
from pathlib import Path

from builders_clients import lines_of, picked
from builders_metrics import read, source_of

T0_MS = 1_896_134_400_000


def line(*points: tuple[int, float | None], **labels: str) -> dict[str, object]:
    """Return one export line of a metric."""
    return {
        "metric": {"__name__": "sglang:token_usage", "tp_rank": "0", **labels},
        "values": [value for _, value in points],
        "timestamps": [T0_MS + at for at, _ in points],
    }


def test_lines_of_one_series_join_and_null_is_no_value(tmp_path: Path) -> None:
    text = lines_of(line((5000, 0.5), (10000, None)), line((0, 0.25)), line((5000, 1.0), job="other"))
    source = source_of(tmp_path, "export.jsonl", text)
    assert picked(source).name == "victoriametrics"
    sink, report = read(picked(source), source)
    assert sink.rows("raw_metric_scrapes", "src_ns") == [((T0_MS + at) * 10**6,) for at in (0, 5000, 10000)]
    assert sink.rows("raw_metric_samples", "series_id", "scrape_no", "value") == [
        (0, 1, 0.5),
        (0, 0, 0.25),
        (1, 1, 1.0),
    ]
    assert report.notes == ('1 values say "no value" (NaN, infinity or a placeholder) and were dropped',)
    assert (report.skipped_count, report.damage) == (0, None)


def test_uneven_and_broken_lines_are_counted(tmp_path: Path) -> None:
    uneven = {**line((0, 0.5)), "timestamps": [T0_MS, T0_MS + 1]}
    text = lines_of(uneven, line((1000, 0.75))) + json.dumps(line((2000, 1.0)))[:-10]
    source = source_of(tmp_path, "export.jsonl", text)
    sink, report = read(picked(source), source)
    assert sink.frame("raw_metric_samples")["value"].to_list() == [0.5, 0.75]
    assert report.skipped_count == 2
    assert report.first_skip_reason == "values and time stamps of a series differ in number"
    assert report.damage is not None
