"""Names of the metrics that Nsight Compute's details page prints as labels."""

from typing import Final

_SPEED: Final = "GPU Speed Of Light Throughput"
_MEMORY: Final = "Memory Workload Analysis"
_PCT: Final = ".avg.pct_of_peak_sustained_elapsed"

#: Labels that mean the same in every section.
_ANYWHERE: Final = {
    "DRAM Throughput": f"gpu__dram_throughput{_PCT}",
    "Memory [%]": f"gpu__compute_memory_throughput{_PCT}",
    "Compute (SM) Throughput": f"sm__throughput{_PCT}",
    "Compute (SM) [%]": f"sm__throughput{_PCT}",
    "L2 Cache Throughput": f"lts__throughput{_PCT}",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "Duration": "gpu__time_duration.sum",
    "Elapsed Cycles": "gpc__cycles_elapsed.max",
    "SM Active Cycles": "sm__cycles_active.avg",
    "Average SM Active Cycles": "sm__cycles_active.avg",
    "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "Mem Busy": f"gpu__compute_memory_access_throughput{_PCT}",
    "Max Bandwidth": f"gpu__compute_memory_request_throughput{_PCT}",
    "Mem Pipes Busy": f"sm__memory_throughput{_PCT}",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Block Size": "launch__block_size",
    "Grid Size": "launch__grid_size",
    "Threads": "launch__thread_count",
    "Registers Per Thread": "launch__registers_per_thread",
    "Shared Memory Configuration Size": "launch__shared_mem_config_size",
    "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Function Cache Configuration": "launch__func_cache_config",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "# SMs": "launch__sm_count",
    "One or More Eligible": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "No Eligible": "smsp__issue_inst0.avg.pct_of_peak_sustained_active",
    "Average L2 Active Cycles": "lts__cycles_active.avg",
    "Average DRAM Active Cycles": "dram__cycles_active.avg",
    "Total L2 Elapsed Cycles": "lts__cycles_elapsed.sum",
    "Total DRAM Elapsed Cycles": "dram__cycles_elapsed.sum",
    "DRAM Bandwidth": "dram__bytes.sum.per_second",
    "Theoretical DRAM Bytes Accessible": "dram__bytes.sum.peak_sustained",
}
#: Labels whose meaning depends on the section: one file holds both.
_BY_SECTION: Final = {
    (_SPEED, "Memory Throughput"): f"gpu__compute_memory_throughput{_PCT}",
    (_MEMORY, "Memory Throughput"): "dram__bytes.sum.per_second",
}
_TEXT_LIMIT: Final = 80


def metric_name(section: str, label: str, body_item: str = "") -> str:
    """Return the metric that a details page means by a label in a section.

    Args:
        section: title of the section.
        label: what the page prints: a label, a metric's name, or a label with the name in brackets.
        body_item: part of the section, on pages with body items.
    """
    if "__" in label:
        # 'DRAM Frequency (dram__cycles_elapsed.avg.per_second)' and the bare name.
        inner = label.rpartition("(")[2].removesuffix(")")
        return (inner if "__" in inner else label)[:200]
    known = _BY_SECTION.get((section, label)) or _ANYWHERE.get(label)
    if known is not None:
        return known
    return "/".join(part[:_TEXT_LIMIT] for part in (section, body_item, label) if part)
