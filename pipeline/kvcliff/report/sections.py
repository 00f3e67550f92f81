"""The sections of a report in their order."""

from collections.abc import Callable
from dataclasses import dataclass

import duckdb

from kvcliff.findings.captures import CLIENT, MODEL_SHAPE
from kvcliff.report.capture_section import capture_section, kernel_sum_section
from kvcliff.report.communication_section import communication_section
from kvcliff.report.counter_sections import counter_section
from kvcliff.report.cross_check_sections import agreement_section, client_total_section, step_time_section
from kvcliff.report.document import Gap, Section
from kvcliff.report.event_section import event_section
from kvcliff.report.gpu_sections import gpu_time_section
from kvcliff.report.ledger_sections import ledger_section
from kvcliff.report.level_sections import level_section
from kvcliff.report.request_trace_section import request_trace_section
from kvcliff.report.serving_sections import hit_section, indicator_section, jump_section, request_section
from kvcliff.report.slo_section import slo_section
from kvcliff.report.swap_sections import (
    price_section,
    shape_section,
    swap_point_section,
    victim_section,
)
from kvcliff.report.telemetry_section import telemetry_section
from kvcliff.report.transfer_sections import tier_section, transfer_section

BuildFunction = Callable[[duckdb.DuckDBPyConnection], Section | None]


@dataclass(frozen=True)
class Part:
    """One section, and what its absence means.

    Attributes:
        build: returns the section, or ``None`` without data.
        gap: what is said then; ``None`` when absence is an answer, or a finding says it.
    """

    build: BuildFunction
    gap: Gap | None = None


SECTIONS: tuple[Part, ...] = (
    Part(level_section),
    Part(swap_point_section),
    Part(price_section),
    Part(shape_section),
    Part(victim_section),
    Part(slo_section),
    Part(request_section, Gap("What users saw: no file holds the times of a client's requests.", CLIENT)),
    Part(client_total_section),
    Part(indicator_section),
    Part(jump_section),
    Part(event_section),
    Part(gpu_time_section),
    Part(communication_section),
    Part(kernel_sum_section),
    Part(step_time_section),
    Part(
        ledger_section, Gap("Ledgers: no file states the model's shape or the KV cache's size.", MODEL_SHAPE)
    ),
    Part(counter_section),
    Part(transfer_section),
    Part(hit_section),
    Part(tier_section),
    Part(telemetry_section),
    Part(capture_section),
    Part(agreement_section),
    Part(request_trace_section),
)


def build_sections(con: duckdb.DuckDBPyConnection) -> tuple[tuple[Section, ...], tuple[Gap, ...]]:
    """Return the sections that have data, and what is missing for those that have none."""
    built = [(part, part.build(con)) for part in SECTIONS]
    present = tuple(section for _, section in built if section is not None)
    gaps = tuple(part.gap for part, section in built if section is None and part.gap is not None)
    return present, gaps
