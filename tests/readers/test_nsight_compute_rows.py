import pytest

from kvcliff.readers.nsight_compute_rows import nvtx_path, short_kernel_name
from kvcliff.readers.nsight_compute_session import CounterSession, with_command_line
from kvcliff.readers.nsight_compute_units import base_unit, unit_of_metric


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("basic(int, int, int, const float *)", "basic"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("void flash_fwd_splitkv_kernel<Traits<128, 64>, 0>(Params)", "flash_fwd_splitkv_kernel"),
        ("void at::native::(anonymous namespace)::topk<float>(Info<float, 2>)", "topk"),
        ("enable_if<!T7, void>::type internal::gemvx::kernel<int, int>(Params)", "kernel"),
        ("step/decode_batch/gemm(int)", "gemm"),
        ("", ""),
        ("<<<", "<<<"),
    ],
)
def test_short_kernel_name(name: str, short: str) -> None:
    assert short_kernel_name(name) == short


def test_only_texts_of_steps_and_stages_are_kept() -> None:
    names = ["engine_step", "Write me a poem", "decode_batch", "prefill_c16", "decode user=me", "x" * 500]
    assert nvtx_path(names) == "engine_step/decode_batch/prefill_c16"
    assert nvtx_path(["Write me a poem"]) is None


@pytest.mark.parametrize(
    ("printed", "base", "factor"),
    [
        ("Gbyte/second", "byte/s", 1e9),
        ("Gbyte/s", "byte/s", 1e9),
        ("cycle/nsecond", "hz", 1e9),
        ("cycle/second", "hz", 1),
        ("Ghz", "hz", 1e9),
        ("msecond", "ns", 1e6),
        ("s", "ns", 1e9),
        ("Kbyte/block", "byte/block", 1e3),
        ("register/thread", "register/thread", 1),
        ("Minst", "inst", 1e6),
        ("%", "%", 1),
        ("", "", 1),
        ("/second", "/second", 1),
        ("%/", "%/", 1),
        ("Mfoo", "Mfoo", 1),
    ],
)
def test_printed_units(printed: str, base: str, factor: float) -> None:
    assert (base_unit(printed).base, base_unit(printed).factor) == (base, factor)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("gpu__time_duration.sum", "ns"),
        ("dram__bytes_read.sum", "byte"),
        ("dram__bytes.sum.per_second", "byte/s"),
        ("dram__bytes.sum.peak_sustained", "byte/cycle"),
        ("dram__cycles_elapsed.avg.per_second", "hz"),
        ("lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum", "sector"),
        ("lts__t_sector_hit_rate.pct", "%"),
        ("launch__waves_per_multiprocessor", ""),
        ("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", ""),
    ],
)
def test_units_of_names(metric: str, unit: str) -> None:
    assert unit_of_metric(metric) == unit


@pytest.mark.parametrize(
    ("command_line", "cache", "clock", "replay", "metric_set"),
    [
        ("ncu -o x ./app", "all", "base", "kernel", "basic"),
        ("ncu --metrics a__b.sum ./app", "all", "base", "kernel", ""),
        ("ncu --section=X --cache-control=none ./app --set full", "none", "base", "kernel", ""),
        ("ncu --nvtx --set full ./app --cache-control none", "all", "base", "kernel", "full"),
        ("ncu -f --clock-control none --replay-mode range ./a", "all", "none", "range", "basic"),
        ('ncu --kernel-name "a b" --set /home/me/x.set ./a', "all", "base", "kernel", None),
        ("ncu --cache-control weird './unclosed", None, "base", "kernel", "basic"),
        ("", "all", "base", "kernel", "basic"),
    ],
)
def test_options(
    command_line: str, cache: str | None, clock: str, replay: str, metric_set: str | None
) -> None:
    session = with_command_line(CounterSession("report"), command_line)
    found = (session.cache_control, session.clock_control, session.replay_mode, session.metric_set)
    assert found == (cache, clock, replay, metric_set)
    assert session.has_options
