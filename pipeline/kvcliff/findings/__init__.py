"""Diagnoses over the marts of one run; each answers found, not found or cannot tell, with its evidence."""

from kvcliff.findings import (
    bandwidth_bound,
    capture_failed,
    clock_trust,
    communication,
    concurrency_knee,
    counter_limits,
    headroom,
    hit_but_slow,
    kv_stress,
    l2_reuse,
    other_jump,
    source_disagreement,
    swap_point,
)
from kvcliff.findings.base import Finding

#: Every finding, in the order in which a report asks.
FINDINGS: tuple[Finding, ...] = (
    hit_but_slow.FINDING,
    swap_point.FINDING,
    other_jump.FINDING,
    bandwidth_bound.FINDING,
    communication.FINDING,
    headroom.FINDING,
    kv_stress.FINDING,
    concurrency_knee.FINDING,
    counter_limits.FINDING,
    l2_reuse.FINDING,
    capture_failed.FINDING,
    clock_trust.FINDING,
    source_disagreement.FINDING,
)
