"""GPU time under NVTX ranges equals the official projection, row by row, on every recording that has one."""

import csv
from collections import Counter
from pathlib import Path

import pytest
from tests.builders_nsys import raw_tables, read_export

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nsight_systems"
#: The ranges of a thread around a launch, and what the launch put on the GPU. Every enclosing range counts
#: it; kernels of one graph launch count once.
PROJECTION_SQL = """
with ops as (
    select process_id, correlation_id, start_src_ns, end_src_ns from raw_kernels
    union all
    select process_id, correlation_id, start_src_ns, end_src_ns from raw_copies
),

launched as (
    select
        launches.process_id, launches.thread_id, launches.correlation_id,
        launches.start_src_ns as call_start, launches.end_src_ns as call_end,
        min(ops.start_src_ns) as op_start, max(ops.end_src_ns) as op_end
    from ops
    inner join raw_launches as launches
        on ops.process_id = launches.process_id and ops.correlation_id = launches.correlation_id
    group by all
)

select
    ranges.name, min(launched.op_start), max(launched.op_end) - min(launched.op_start),
    ranges.start_src_ns, ranges.end_src_ns - ranges.start_src_ns, count(*)
from raw_nvtx_ranges as ranges
inner join launched
    on
        ranges.process_id = launched.process_id
        and ranges.thread_id = launched.thread_id
        and launched.call_start >= ranges.start_src_ns
        and launched.call_end <= ranges.end_src_ns
where ranges.end_thread_id is null
group by ranges.range_no, ranges.name, ranges.start_src_ns, ranges.end_src_ns
"""


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of recordings is not there")
@pytest.mark.parametrize(("name", "row_count"), [("h100_2gpu_1s", 3242), ("mfu_2gpu_before", 9621)])
def test_the_projection_equals_the_official_one(name: str, row_count: int) -> None:
    con = raw_tables()
    # Only texts that were asked for are kept: here all of them.
    read_export(con, CORPUS / "nsys-ai" / f"{name}.sqlite", options={"nvtx_pattern": r"(?s).*"})
    ours = Counter(con.execute(PROJECTION_SQL).fetchall())
    with (CORPUS / "expected" / name / "nvtx_gpu_proj_trace.csv").open(encoding="utf-8", newline="") as file:
        official = Counter(
            (
                row["Name"],
                *(
                    int(row[column])
                    for column in (
                        "Projected Start (ns)",
                        "Projected Duration (ns)",
                        "Orig Start (ns)",
                        "Orig Duration (ns)",
                        "NumGPUOps",
                    )
                ),
            )
            for row in csv.DictReader(file)
        )
    assert sum(official.values()) == row_count
    assert sum(ours.values()) == row_count
    assert ours == official
