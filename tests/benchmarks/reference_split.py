"""The reference of the main job with pandas and sqlite3: sums, split, idle time, hidden copies.

python -m tests.benchmarks.reference_split EXPORT.sqlite

Prints how many names kernels have, the seconds of GPU time by kind of step, how long each kind waited for its
first kernel behind an idle GPU, and which share of the copies lies under kernels. Nothing is stored, and no
kernel is given a phase by its name.
"""

import sqlite3
import sys
from typing import Any

import numpy as np
import pandas as pd

_Array = np.ndarray[Any, Any]
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
    split = split.fillna({"kind": "other"})
    seconds = split.groupby("kind")["busy_ns"].sum() / 1e9
    print(len(sums), seconds.round(3).to_dict())
    print(_idle_seconds(split), _hidden_ratio(kernels, db))


def _idle_seconds(split: pd.DataFrame) -> dict[str, float]:
    """Return the idle time of the GPU before a kernel, by kind of step."""
    ordered = split.sort_values(["deviceId", "start"])
    busy_until = ordered.groupby("deviceId")["end"].cummax().groupby(ordered["deviceId"]).shift()
    idle = (ordered["start"] - busy_until).clip(lower=0).fillna(0)
    seconds: dict[str, float] = (idle.groupby(ordered["kind"]).sum() / 1e9).round(3).to_dict()
    return seconds


def _hidden_ratio(kernels: pd.DataFrame, db: sqlite3.Connection) -> float:
    """Return which share of the copies' time lies under kernels of their device."""
    copies = pd.read_sql_query("select start, end, deviceId from CUPTI_ACTIVITY_KIND_MEMCPY", db)
    hidden_ns = 0
    for device, part in kernels.sort_values("start").groupby("deviceId"):
        end = part["end"].cummax()
        is_first = part["start"] > end.shift(fill_value=-1)
        begins = part["start"][is_first].to_numpy()
        ends = end.groupby(is_first.cumsum()).max().to_numpy()
        before = np.concatenate([[0], np.cumsum(ends - begins)])
        own = copies[copies["deviceId"] == device]
        until_end, until_start = (
            _busy_until(own[name].to_numpy(), begins, ends, before) for name in ("end", "start")
        )
        hidden_ns += int((until_end - until_start).sum())
    return round(hidden_ns / max(int((copies["end"] - copies["start"]).sum()), 1), 3)


def _busy_until(times: _Array, begins: _Array, ends: _Array, before: _Array) -> _Array:
    """Return how long a device was busy until each time, by its busy intervals and the sums before each."""
    place = np.searchsorted(begins, times, side="right")
    last = np.maximum(place - 1, 0)
    inside = np.where(place > 0, np.minimum(times, ends[last]) - begins[last], 0)
    busy_ns: _Array = before[last] + inside
    return busy_ns


if __name__ == "__main__":
    main(sys.argv[1])
