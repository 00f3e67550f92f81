"""The metrics and commands that findings about kernel counters ask for."""

#: What a cache or bandwidth verdict on a kernel needs, and no more: each metric costs passes.
NCU_METRICS: tuple[str, ...] = (
    "gpu__time_duration.sum",
    "gpc__cycles_elapsed.avg.per_second",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__bytes.sum.peak_sustained",
    "dram__cycles_elapsed.avg.per_second",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sector_hit_rate.pct",
    "lts__t_sectors.sum",
    "lts__t_sectors.max",
    "lts__t_sectors.avg",
    "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum",
    "lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "lts__d_sectors_fill_sysmem.sum",
    "lts__lts2xbar_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
)
#: Traffic between the two halves of the L2, on chips that have two.
NCU_FABRIC_METRICS: tuple[str, ...] = (
    "lts__t_sectors_srcunit_ltcfabric.sum",
    "lts__t_sectors_srcunit_ltcfabric.avg.pct_of_peak_sustained_elapsed",
    "lts__ltcfabric2lts_cycles_active.avg.pct_of_peak_sustained_elapsed",
)
#: What L2 reuse alone needs: short enough to be typed.
_REUSE_METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__bytes.sum.peak_sustained",
    "dram__cycles_elapsed.avg.per_second",
    "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum",
    "lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum",
)
_SETTINGS = "--target-processes all --nvtx --clock-control none -f"
#: Kernel by kernel, caches flushed: what limits each one.
ATTRIBUTION = (
    f"ncu {_SETTINGS} --launch-skip 20 --launch-count 60 --section LaunchStats --section Occupancy "
    "--section SpeedOfLight --section MemoryWorkloadAnalysis_Tables --section WarpStateStats -o decode_c32 "
    'vllm serve "$MODEL"'
)
_IN_SITU_STEP = (
    f'ncu {_SETTINGS} --replay-mode app-range --cache-control none --nvtx-include "decode]" '
    f"--metrics {','.join(_REUSE_METRICS)}"
)
#: One decode step as a range, caches as the engine left them.
IN_SITU = f"{_IN_SITU_STEP} -o decode_warm_c32 python decode_step.py"
#: The same at six loads, three on each side of a collapse; the script takes the number of requests.
IN_SITU_SWEEP = (
    f"for n in 4 8 16 32 64 128; do {_IN_SITU_STEP} -o decode_warm_c$n python decode_step.py $n; done"
)
