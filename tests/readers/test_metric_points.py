from pathlib import Path

from builders_clients import picked
from builders_metrics import read, source_of

T0_MS = 1_896_134_400_000


def test_dump_of_promtool_lists_series_by_series(tmp_path: Path) -> None:
    """The second series begins before the first one ends: none of its points may be lost."""
    rows = [
        ("running", 0, 1),
        ("running", 1000, 2),
        ("waiting", 0, 3),
        ("waiting", 500, 4),
        ("waiting", 1000, 5),
    ]
    text = "".join(
        f'{{__name__="vllm:num_requests_{name}", engine="0", job="x"}} {value} {T0_MS + at}\n'
        for name, at, value in rows
    )
    source = source_of(tmp_path, "dump.txt", text)
    assert picked(source).name == "prometheus"
    sink, report = read(picked(source), source)
    assert sink.rows("raw_metric_scrapes", "src_ns") == [((T0_MS + at) * 10**6,) for at in (0, 500, 1000)]
    assert sink.rows("raw_metric_samples", "series_id", "scrape_no", "value") == [
        (0, 0, 1.0),
        (0, 2, 2.0),
        (1, 0, 3.0),
        (1, 1, 4.0),
        (1, 2, 5.0),
    ]
    assert (report.skipped_count, report.damage, report.notes) == (0, None, ())


def test_lines_of_a_dump_that_are_no_sample_are_counted(tmp_path: Path) -> None:
    good = [f'{{__name__="vllm:num_requests_running"}} 1 {T0_MS + at}\n' for at in range(9)]
    text = "".join([*good, "noise\n", '{__name__="x"} 1\n', good[0]])
    source = source_of(tmp_path, "dump.txt", text)
    _, report = read(picked(source), source)
    assert report.skipped_count == 2
    assert report.first_skip_reason == "line is no answer, no export line and no stamped sample"
    assert report.notes == ("1 points repeat a time of their series and were dropped",)
