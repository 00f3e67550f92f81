"""The reference of the main job: kernel sums and the split by step, with pandas and sqlite3, written plainly.

python -m tests.benchmarks.reference_split EXPORT.sqlite

Prints the seconds of GPU time by kernel name (how many names) and by kind of step.
"""

import sqlite3
import sys

import pandas as pd

_STEP = r"execute_context_(?P<context>\d+)\(\d+\)_generation_(?P<generation>\d+)\(\d+\)"


def main(path: str) -> None:
    """Print the sums of one export."""
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    kernels = pd.read_sql_query(
        "select start, end, deviceId, correlationId, demangledName from CUPTI_ACTIVITY_KIND_KERNEL", db
    )
    calls = pd.read_sql_query(
        "select start as call_ns, globalTid, correlationId from CUPTI_ACTIVITY_KIND_RUNTIME", db
    )
    ranges = pd.read_sql_query(
        "select n.start as step_ns, n.end as step_end_ns, n.globalTid, coalesce(n.text, s.value) as text "
        "from NVTX_EVENTS as n left join StringIds as s on n.textId = s.id where n.eventType = 59",
        db,
    )
    names = pd.read_sql_query("select id, value from StringIds", db).set_index("id")["value"]
    kernels["busy_ns"] = kernels["end"] - kernels["start"]
    sums = kernels.groupby("demangledName")["busy_ns"].agg(["count", "sum", "median", "max"])
    sums.index = sums.index.map(names)
    parts = ranges["text"].str.extract(_STEP)
    steps = ranges[parts["context"].notna()].assign(
        kind=(parts["context"].astype(float) > 0).map({True: "prefill", False: "decode"})
    )
    launched = kernels.merge(calls, on="correlationId", how="left").dropna(subset=["call_ns"])
    launched = launched.astype({"call_ns": "int64", "globalTid": "int64"}).sort_values("call_ns")
    split = pd.merge_asof(
        launched,
        steps.sort_values("step_ns").astype({"globalTid": "int64"}),
        left_on="call_ns",
        right_on="step_ns",
        by="globalTid",
    )
    split.loc[split["call_ns"] > split["step_end_ns"], "kind"] = "other"
    seconds = split.fillna({"kind": "other"}).groupby("kind")["busy_ns"].sum() / 1e9
    print(len(sums), seconds.round(3).to_dict())


if __name__ == "__main__":
    main(sys.argv[1])
