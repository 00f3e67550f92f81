"""Units of Nsight Compute metrics: printed ones with their factor, and those that a metric's name tells."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

_TIMES_NS: Final = {
    **dict.fromkeys(("second", "s"), 1e9),
    **dict.fromkeys(("msecond", "ms"), 1e6),
    **dict.fromkeys(("usecond", "us"), 1e3),
    **dict.fromkeys(("nsecond", "ns"), 1.0),
}
_PREFIXES: Final = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SCALED: Final = re.compile(r"(?P<prefix>[KMGT]?)(?P<base>byte|sector|request|inst|cycle|hz)")


@dataclass(frozen=True)
class Unit:
    """A printed unit: its base unit, and the factor that turns a printed value into one of it."""

    base: str
    factor: float


@cache
def base_unit(printed: str) -> Unit:
    """Return the base unit of a printed unit; one that is not known stands for itself and is never scaled.

    Time becomes ns, a clock rate hz; prefixes are decimal (Mbyte is 10^6 byte). Both generations of names
    are known (``usecond`` and ``us``, ``cycle/nsecond`` and ``Ghz``).
    """
    if printed in _TIMES_NS:
        return Unit("ns", _TIMES_NS[printed])
    above, slash, below = printed.partition("/")
    match = _SCALED.fullmatch(above)
    if match is None:
        # A unit without its upper half is an import of a newer file by an older tool.
        return Unit(printed, 1.0)
    base, factor = match["base"], _PREFIXES[match["prefix"]]
    if not slash:
        return Unit(base, factor)
    if below in _TIMES_NS:
        return Unit("hz" if base == "cycle" else f"{base}/s", factor * 1e9 / _TIMES_NS[below])
    return Unit(f"{base}/{below}", factor)


_LAUNCH: Final = {
    "launch__thread_count": "thread",
    "launch__registers_per_thread": "register/thread",
    "launch__registers_per_thread_allocated": "register/thread",
    "launch__shared_mem_config_size": "byte",
    "launch__sm_count": "SM",
    "launch__cluster_max_active": "cluster",
    "launch__cluster_max_potential_size": "block",
    "profiler__replayer_passes": "pass",
    "profiler__replayer_passes_type_warmup": "pass",
}
#: Words of a metric's name and what it counts; the first that is in the name decides.
_COUNTED: Final = (
    ("bytes", "byte"),
    ("thread_inst", "inst"),
    ("time_duration", "ns"),
    ("cycles", "cycle"),
    ("writeback_active", "cycle"),
    ("sectors", "sector"),
    ("requests", "request"),
    ("inst_", "inst"),
    ("warps", "warp"),
)


@cache
def unit_of_metric(metric: str) -> str:
    """Return the base unit of a metric as its name tells it; '' for plain numbers and names not known.

    Reports hold values in base units but no unit texts.
    """
    if metric in _LAUNCH:
        return _LAUNCH[metric]
    if ".pct" in metric or metric.endswith("_pct"):
        return "%"
    if metric.startswith("launch__"):
        return _unit_of_launch(metric)
    if metric.startswith("device__") or metric.endswith((".ratio", ".peak_sustained_frequency")):
        return ""
    if metric.startswith("derived__"):
        return "thread" if "thread_inst" in metric else ""
    counted = next((unit for word, unit in _COUNTED if word in metric), "")
    if not counted:
        return ""
    if ".per_second" in metric:
        return "hz" if counted == "cycle" else f"{counted}/s"
    if ".peak_sustained" in metric or ".per_cycle" in metric:
        # Warps per cycle are warps that were there.
        return {"cycle": "", "warp": "warp"}.get(counted, f"{counted}/cycle")
    return counted


def _unit_of_launch(metric: str) -> str:
    """Return the unit of a launch statistic."""
    if "shared_mem_per_block" in metric:
        return "byte/block"
    if metric.startswith(("launch__occupancy_limit_", "launch__block_dim_")):
        return "block"
    return ""
