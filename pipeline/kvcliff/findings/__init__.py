"""Diagnoses over the marts of one run; each answers found, not found or cannot tell, with its evidence."""

from kvcliff.findings import (
    bandwidth_bound,
    capture_failed,
    clock_trust,
    concurrency_knee,
    headroom,
    hit_but_slow,
    other_jump,
    swap_point,
)
from kvcliff.findings.base import Finding

#: Every finding, in the order in which a report asks.
FINDINGS: tuple[Finding, ...] = (
    hit_but_slow.FINDING,
    swap_point.FINDING,
    other_jump.FINDING,
    bandwidth_bound.FINDING,
    headroom.FINDING,
    concurrency_knee.FINDING,
    capture_failed.FINDING,
    clock_trust.FINDING,
)
