"""What the columns of nvidia-smi and dcgmi tables mean: canonical counters, units, words for "no value"."""

import re
from dataclasses import dataclass
from typing import Final

_MIB: Final = float(1 << 20)
_MEGA: Final = 1e6


@dataclass(frozen=True)
class DeviceColumn:
    """A column title of a foreign tool, the canonical counter, and what to multiply values with."""

    title: str
    counter: str
    factor: float = 1.0


#: ``nvidia-smi --query-gpu`` fields, without the unit in brackets.
QUERY_COLUMNS: Final[tuple[DeviceColumn, ...]] = (
    # Share of time in which any kernel ran: a busy GPU, not a well used one.
    DeviceColumn("utilization.gpu", "gpu_busy_pct"),
    DeviceColumn("utilization.memory", "mem_busy_pct"),
    DeviceColumn("memory.total", "memory_total_bytes", _MIB),
    DeviceColumn("memory.used", "memory_used_bytes", _MIB),
    DeviceColumn("memory.free", "memory_free_bytes", _MIB),
    DeviceColumn("memory.reserved", "memory_reserved_bytes", _MIB),
    DeviceColumn("clocks.sm", "sm_clock_mhz"),
    DeviceColumn("clocks.current.sm", "sm_clock_mhz"),
    DeviceColumn("clocks.mem", "mem_clock_mhz"),
    DeviceColumn("clocks.current.memory", "mem_clock_mhz"),
    DeviceColumn("clocks.max.sm", "max_sm_clock_mhz"),
    DeviceColumn("power.draw", "power_w"),
    DeviceColumn("power.draw.instant", "power_w"),
    DeviceColumn("power.limit", "power_limit_w"),
    DeviceColumn("enforced.power.limit", "power_limit_w"),
    DeviceColumn("temperature.gpu", "temperature_c"),
    DeviceColumn("temperature.memory", "memory_temperature_c"),
    DeviceColumn("pcie.link.gen.current", "pcie_generation"),
    DeviceColumn("pcie.link.width.current", "pcie_lanes"),
)
#: ``nvidia-smi dmon`` columns, from its first header line. Its MB of memory are MiB.
DMON_COLUMNS: Final[tuple[DeviceColumn, ...]] = (
    DeviceColumn("pwr", "power_w"),
    DeviceColumn("gtemp", "temperature_c"),
    DeviceColumn("mtemp", "memory_temperature_c"),
    DeviceColumn("sm", "gpu_busy_pct"),
    DeviceColumn("mem", "mem_busy_pct"),
    DeviceColumn("mclk", "mem_clock_mhz"),
    DeviceColumn("pclk", "sm_clock_mhz"),
    DeviceColumn("fb", "memory_used_bytes", _MIB),
    DeviceColumn("rxpci", "rx_pcie_bytes_per_s", _MEGA),
    DeviceColumn("txpci", "tx_pcie_bytes_per_s", _MEGA),
    DeviceColumn("pviol", "power_violation_pct"),
    DeviceColumn("tviol", "thermal_violation_flag"),
)
#: ``dcgmi dmon`` short names; activity ratios become per cent.
DCGMI_COLUMNS: Final[tuple[DeviceColumn, ...]] = (
    DeviceColumn("gract", "graphics_active_pct", 100.0),
    DeviceColumn("smact", "sm_active_pct", 100.0),
    DeviceColumn("smocc", "sm_occupancy_pct", 100.0),
    DeviceColumn("tenso", "tensor_active_pct", 100.0),
    DeviceColumn("drama", "dram_active_pct", 100.0),
    DeviceColumn("pcitx", "tx_pcie_bytes_per_s"),
    DeviceColumn("pcirx", "rx_pcie_bytes_per_s"),
    DeviceColumn("nvltx", "tx_nvlink_bytes_per_s"),
    DeviceColumn("nvlrx", "rx_nvlink_bytes_per_s"),
)
_THROTTLE: Final = re.compile(r"clocks_(?:event|throttle)_reasons\.([a-z_]+)")
#: Reasons that are no throttling: an idle GPU, and clocks that somebody set.
_HARMLESS_REASONS: Final = ("gpu_idle", "applications_clocks_setting")
_REASONS: Final = (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
    "sw_power_cap",
    "sync_boost",
    *_HARMLESS_REASONS,
)
#: Counters that say that clocks were held back; each of them above 0 raises ``throttle_flag``.
THROTTLE_COUNTERS: Final = (
    "power_violation_pct",
    "thermal_violation_flag",
    *(f"throttle_{reason}_flag" for reason in _REASONS if reason not in _HARMLESS_REASONS),
)
_WORDS: Final = {"active": 1.0, "not active": 0.0}
_NUMBER: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(?:%|[A-Za-z/]{1,8})?")
#: What the tools print for "no value"; a bracketed word is one too.
_BLANKS: Final = ("", "-", "n/a", "na")


def plain_title(title: str) -> str:
    """Return a column title in lower case without ``#`` and without a unit in brackets."""
    text = title.strip().lstrip("#").strip()
    # No regular expression: a line of brackets alone would take it seconds.
    if text.endswith("]") and "[" in text:
        text = text[: text.rindex("[")].rstrip()
    return text.lower()


def query_column(title: str) -> DeviceColumn | None:
    """Return the counter of a ``--query-gpu`` field, or ``None`` when it is not read."""
    plain = plain_title(title)
    reason = _THROTTLE.fullmatch(plain)
    if reason:
        known = reason[1] in _REASONS
        return DeviceColumn(plain, f"throttle_{reason[1]}_flag") if known else None
    return next((column for column in QUERY_COLUMNS if column.title == plain), None)


def monitor_column(title: str) -> DeviceColumn | None:
    """Return the counter of a column of ``nvidia-smi dmon`` or ``dcgmi dmon``, or ``None``."""
    plain = plain_title(title)
    return next((column for column in (*DMON_COLUMNS, *DCGMI_COLUMNS) if column.title == plain), None)


def is_blank(cell: str) -> bool:
    """Return whether a cell says that there is no value (``[N/A]``, ``[Not Supported]``, ``-``)."""
    return cell.lower() in _BLANKS or (cell.startswith("[") and cell.endswith("]"))


def cell_value(cell: str) -> float | None:
    """Return the number in a cell, its printed unit cut off; ``None`` when there is none."""
    word = _WORDS.get(cell.lower())
    if word is not None:
        return word
    match = _NUMBER.fullmatch(cell)
    return float(match[1]) if match else None
