"""The section about kernel counters over rows of marts."""

import csv

from builders_ncu import PCT, counter_values, kernel_row, session_row, value_rows
from builders_raw import build, source
from kvcliff.report.counter_sections import counter_section
from kvcliff.report.document import Paragraph, Section, Table
from kvcliff.resources import sql_root
from kvcliff.store.models import build_models, load_models

HIT = "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum"
MISS = "lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum"


def section_of(metrics: dict[str, float | None]) -> Section | None:
    con = build(
        "counter_warnings",
        {
            "sources": [source(1, "a.ncu-rep", "counters")],
            "raw_counter_sessions": [session_row()],
            "raw_counter_kernels": [kernel_row(0, "ampere_gemm")],
            **counter_values(
                value_rows(
                    {
                        "gpu__time_duration.sum": 50_000.0,
                        f"sm__throughput{PCT}": 85.0,
                        f"gpu__compute_memory_throughput{PCT}": 30.0,
                        **metrics,
                    }
                )
            ),
        },
    )
    build_models(con, [model for model in load_models() if model.name == "l2_cache"])
    return counter_section(con)


def texts(section: Section | None) -> str:
    assert section is not None
    return "\n".join(block.text for block in section.blocks if isinstance(block, Paragraph))


def test_families_verdicts_and_warnings() -> None:
    section = section_of({HIT: 25.0, MISS: 75.0})
    assert section is not None
    cache, verdicts = (block for block in section.blocks if isinstance(block, Table))
    assert dict(zip([column.name for column in cache.columns], cache.rows[0], strict=True)) == {
        "family": "gemm",
        "profile_count": 1,
        "read_hit_ratio": 0.25,
        "sm_use_ratio": 0.85,
    }
    assert verdicts.rows[0][:2] == ("ampere_gemm", "compute")
    assert "Caches were flushed before each pass" in texts(section)
    assert "no hit rate is shown" not in texts(section)


def test_rates_of_all_clients_are_not_shown() -> None:
    section = section_of({"lts__t_sector_hit_rate.pct": 62.1})
    assert "no hit rate is shown" in texts(section)
    assert section is not None
    assert all("62" not in str(block.rows) for block in section.blocks if isinstance(block, Table))


def test_a_phase_of_which_little_was_profiled_shows_no_numbers() -> None:
    decode = {"phase": "decode", "coverage_ratio": 0.6, "read_hit_ratio": 0.25, "is_covered": True}
    prefill = {"phase": "prefill", "coverage_ratio": 0.4, "read_hit_ratio": 0.75, "is_covered": False}
    con = build(
        "stg_sources",
        {"sources": [source(1, "a.ncu-rep", "counters")]},
        {
            "l2_cache": [{"family": "gemm", "profile_count": 1}],
            "counter_phases": [{"device_id": 0, "covered_count": 1, **row} for row in (decode, prefill)],
        },
    )
    section = counter_section(con)
    assert section is not None
    tables = {block.mart: block for block in section.blocks if isinstance(block, Table)}
    assert tables["counter_phases"].rows == ((0, "prefill", 0.4, None), (0, "decode", 0.6, 0.25))


def test_no_profiled_kernel_no_section() -> None:
    con = build("counter_warnings", {"sources": [source(1, "server.log", "log")]})
    build_models(con, [model for model in load_models() if model.name == "l2_cache"])
    assert counter_section(con) is None


def test_a_refusal_is_said_although_no_kernel_was_profiled() -> None:
    con = build(
        "counter_warnings",
        {
            "sources": [source(1, "ncu.log", "counters")],
            "raw_counter_sessions": [session_row(is_refused=True, page="details", replay_mode="range")],
        },
    )
    build_models(con, [model for model in load_models() if model.name == "l2_cache"])
    assert "ERR_NVGPUCTRPERM" in texts(counter_section(con))


def test_every_warning_that_is_met_is_said_and_no_other() -> None:
    with (sql_root() / "seeds" / "counter_warning_texts.csv").open(encoding="utf-8", newline="") as file:
        meant = [(int(row["warning_no"]), row["meaning"]) for row in csv.DictReader(file)]
    for number, meaning in meant:
        met = [{"source_id": 1, "warning_no": number, "warning": "x", "meaning": meaning}]
        con = build("stg_sources", {}, {"counter_warnings": met, "l2_cache": [], "profiled_kernels": []})
        said = texts(counter_section(con))
        assert [other for other, text in meant if text[1:] in said] == [number]
