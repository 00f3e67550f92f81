"""Writes synthetic sweeps of kernel counters: one raw page and one session page per load, with known hits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from builders_ncu import PCT, RAW, page

ATTENTION = "void flash_fwd_splitkv_kernel<Traits<1>, 0, 0>(Params)"
GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"
SECTOR_BYTES = 32
#: A calm kernel on a GPU of 1 TB/s: 100 us, four waves, nothing near its peak.
DURATION_NS = 100_000
PEAK_BYTES_PER_S = 1_000 * 1_000_000_000


@dataclass(frozen=True)
class Counted:
    """One profiled kernel with what was counted.

    Attributes:
        name: kernel.
        hits: L2 look-ups of SM reads that hit.
        misses: those that missed; each is 32 bytes of DRAM traffic.
        fabric_pct: traffic between the L2 partitions over its peak, ``None`` where it has no counter.
        slice_max_to_mean: busiest L2 slice over the mean one, by active cycles.
        more: further metrics, or others in place of the calm ones.
    """

    name: str = ATTENTION
    hits: int = 0
    misses: int = 1_000_000
    fabric_pct: float | None = None
    slice_max_to_mean: float = 1.01
    more: Mapping[str, float] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, float | None]:
        """Return every metric of the page; ``None`` is printed as ``n/a``."""
        lookups = self.hits + self.misses
        fabric = None if self.fabric_pct is None else self.fabric_pct / 100 * lookups
        return {
            "gpu__time_duration.sum": DURATION_NS,
            f"sm__throughput{PCT}": 30.0,
            f"gpu__compute_memory_throughput{PCT}": 40.0,
            f"gpu__dram_throughput{PCT}": self.misses * SECTOR_BYTES / 1e8 * 100,
            f"lts__throughput{PCT}": 35.0,
            "sm__warps_active.avg.pct_of_peak_sustained_active": 50.0,
            "launch__waves_per_multiprocessor": 4.0,
            "dram__bytes_read.sum": self.misses * SECTOR_BYTES,
            "dram__bytes_write.sum": 0.0,
            "dram__bytes.sum.peak_sustained": 1000.0,
            "dram__cycles_elapsed.avg.per_second": PEAK_BYTES_PER_S / 1000,
            "lts__t_sector_hit_rate.pct": 62.1,
            "lts__t_sectors_srcunit_tex.sum": lookups,
            "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum": self.hits,
            "lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum": self.misses,
            "lts__t_sectors_srcunit_ltcfabric.sum": fabric,
            f"lts__t_sectors_srcunit_ltcfabric{PCT}": self.fabric_pct,
            "lts__cycles_active.avg": 1000.0,
            "lts__cycles_active.max": 1000.0 * self.slice_max_to_mean,
            "lts__cycles_active.sum": 80_000.0,
            "lts__cycles_elapsed.sum": 100_000.0,
            "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 8.0,
            "smsp__average_warp_latency_per_inst_issued.ratio": 10.0,
            "profiler__replayer_passes": 9.0,
            "device__attribute_l2_cache_size": 40_000_000.0,
            "device__attribute_multiprocessor_count": 100.0,
            **self.more,
        }


def at_rate(hit_ratio: float, lookups: int = 1_000_000, **more: object) -> Counted:
    """Return an attention kernel whose SM reads hit at this rate."""
    hits = round(hit_ratio * lookups)
    return replace(Counted(hits=hits, misses=lookups - hits), **more)  # type: ignore[arg-type]


def write_level(
    folder: Path,
    load: int,
    kernels: Sequence[Counted],
    *,
    options: str = "--replay-mode application --cache-control none --clock-control none",
    capability: str = "8.0",
) -> None:
    """Write ``decode_c<load>.raw.csv`` and its session page."""
    names = list(kernels[0].metrics)
    units = ["ns" if name == "gpu__time_duration.sum" else _unit(name) for name in names]
    body = [
        (
            *(str(number), "7", "python", "127.0.0.1", kernel.name, "1", "7", "(128, 1, 1)", "(1, 400, 1)"),
            *("0", capability),
            *("n/a" if value is None else f"{value:.6f}" for value in kernel.metrics.values()),
        )
        for number, kernel in enumerate(kernels)
    ]
    text = page((*RAW, *names), [("",) * len(RAW) + tuple(units), *body])
    (folder / f"decode_c{load}.raw.csv").write_text(text, encoding="utf-8")
    command = f"ncu {options} -o decode_c{load} python step.py"
    session = f'Launch Settings\n"Launch Attribute","Value"\n"Profiler Command Line","{command}"\n'
    (folder / f"decode_c{load}.session.csv").write_text(session, encoding="utf-8")


def _unit(name: str) -> str:
    if "pct" in name:
        return "%"
    if name.startswith("dram__bytes"):
        return "byte/cycle" if name.endswith("peak_sustained") else "byte"
    return "hz" if name.endswith("per_second") else ""
