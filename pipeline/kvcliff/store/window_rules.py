"""What of each raw table belongs to a time window: one rule per table."""

from dataclasses import dataclass
from typing import Final, Literal

#: How rows are chosen.
#: ``always``: facts that hold for the whole run, whatever the window.
#: ``whole``: sums over a whole file: kept when the file lies within the window, since a sum cannot be cut.
#: ``instant``: rows whose moment lies in the window.
#: ``state``: these, and of each series the last row before: what the first change is counted from.
#: ``span``: rows whose time overlaps the window.
#: ``samples``, ``scrapes``: values of metrics as ``state`` by series; scrapes that values are left of.
#: ``requests``, ``tokens``: requests that were served in the window; their tokens in it and the one before.
#: ``graphs``: as ``span``; those without times go with the call that launched them.
#: ``launches``, ``ranges``: host calls that overlap the window or put work into it; ranges around these.
RuleKind = Literal[
    "always",
    "whole",
    "instant",
    "state",
    "span",
    "samples",
    "scrapes",
    "requests",
    "tokens",
    "graphs",
    "launches",
    "ranges",
]


@dataclass(frozen=True)
class WindowRule:
    """What of a raw table belongs to a window.

    Attributes:
        table: raw table.
        kind: how rows are chosen.
        start: column or expression of a row's moment or begin, on the file's own clock.
        end: that of its end; ``None`` when a row has one moment.
        series: columns that tell series apart, beside the file.
        is_load: whether reports count the time of the run from such rows (``int_run_extent``).
    """

    table: str
    kind: RuleKind
    start: str | None = None
    end: str | None = None
    series: tuple[str, ...] = ()
    is_load: bool = False


_SPAN: Final = ("start_src_ns", "end_src_ns")
#: In the order in which the tables are cut: what others are judged by comes after them.
WINDOW_RULES: Final[tuple[WindowRule, ...]] = (
    WindowRule("raw_settings", "always"),
    WindowRule("raw_kernel_names", "always"),
    WindowRule("raw_capture_facts", "always"),
    WindowRule("raw_capture_diagnostics", "always"),
    WindowRule("raw_metric_series", "always"),
    # Kernel counters come from a profiling session of its own and describe kernels, not moments.
    WindowRule("raw_counter_devices", "always"),
    WindowRule("raw_counter_kernels", "always"),
    WindowRule("raw_counter_metrics", "always"),
    WindowRule("raw_counter_sessions", "always"),
    WindowRule("raw_counter_values", "always"),
    WindowRule("raw_client_summary", "whole"),
    WindowRule("raw_kernel_sums", "whole"),
    WindowRule("raw_request_arrivals", "whole"),
    WindowRule("raw_metric_samples", "samples"),
    WindowRule("raw_metric_scrapes", "scrapes", "coalesce(end_src_ns, src_ns)", is_load=True),
    WindowRule("raw_client_tokens", "tokens", "src_ns", series=("request_no",)),
    WindowRule(
        "raw_client_requests",
        "requests",
        "coalesce(submit_src_ns, first_token_src_ns)",
        "coalesce(done_src_ns, submit_src_ns + latency_ns)",
        is_load=True,
    ),
    WindowRule("raw_log_stats", "state", "src_ns", series=("engine",), is_load=True),
    WindowRule("raw_log_iterations", "state", "src_ns", series=("engine",), is_load=True),
    WindowRule("raw_tier_samples", "state", "src_ns", series=("tier",)),
    WindowRule("raw_log_events", "instant", "src_ns"),
    WindowRule("raw_log_requests", "instant", "src_ns"),
    # An access line lies between two stamps of whole seconds.
    WindowRule(
        "raw_log_access",
        "span",
        "coalesce(after_src_ns, before_src_ns)",
        "coalesce(before_src_ns, after_src_ns) + 1000000000",
    ),
    WindowRule("raw_cache_lookups", "instant", "src_ns"),
    WindowRule("raw_tier_transfers", "instant", "src_ns"),
    WindowRule("raw_device_samples", "instant", "src_ns", is_load=True),
    WindowRule("raw_gpu_metrics", "instant", "src_ns", is_load=True),
    WindowRule("raw_kernels", "span", *_SPAN, is_load=True),
    WindowRule("raw_copies", "span", *_SPAN, is_load=True),
    WindowRule("raw_graph_launches", "graphs", *_SPAN, is_load=True),
    WindowRule("raw_launches", "launches", *_SPAN),
    WindowRule("raw_nvtx_ranges", "ranges", *_SPAN, is_load=True),
)
#: Series that marts keep of the row before the window: the mart and when a row of it ended.
TRIMMED_MARTS: Final = (
    ("kv_occupancy", "ts_ns"),
    ("token_latency", "ts_ns + bucket_ns - 1"),
    ("cache_hits", "end_ns"),
)
