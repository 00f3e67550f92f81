"""Engine events from gauges and iteration logs against the scheduler's own record of preemptions."""

from bisect import bisect_left
from collections import Counter

import duckdb
import pytest

from accuracy.recordings import ROOT, WHY_SKIPPED, vllm_cpu
from accuracy.score import SLACK_NS
from kvcliff.store.ingest import stage_run
from kvcliff.store.plan import plan_run

pytestmark = [pytest.mark.accuracy, pytest.mark.skipif(not ROOT.is_dir(), reason=WHY_SKIPPED)]

LEAST_TRUE_RATIO = 0.98
_EVENTS_SQL = """
select proof, ts_ns - error_ns, ts_ns + error_ns
from engine_events
where is_under_pressure and ((kind = 'flip' and proof = 'gauges') or (kind = 'preempt' and proof = 'resume'))
order by ts_ns, event_no
"""


def test_events_from_gauges_and_log_are_true() -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for recording in vllm_cpu():
        times = sorted(recording.preemptions_ns)
        with duckdb.connect() as con:
            stage_run(con, plan_run(recording.folder))
            for proof, low_ns, high_ns in con.execute(_EVENTS_SQL).fetchall():
                place = bisect_left(times, low_ns - SLACK_NS)
                is_true = place < len(times) and times[place] <= high_ns + SLACK_NS
                counts[proof, is_true] += 1
    print(f"\nengine events, true and false: {sorted(counts.items())}")
    for proof in ("gauges", "resume"):
        seen = counts[proof, True] + counts[proof, False]
        assert seen >= 100
        assert counts[proof, True] >= LEAST_TRUE_RATIO * seen
