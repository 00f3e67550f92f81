"""What verdicts and causes of kernel counters are called in sentences, and what to do about them."""

from kvcliff.findings.captures import FEWER_BYTES

#: Behind "most time of the decode kernels"; every verdict that answers something.
VERDICT_WORDS: dict[str, str] = {
    "small_grid": "is in launches with fewer thread blocks than fill the GPU: parallelism, not memory",
    "low_occupancy": "is in kernels with too few warps at a time to hide latency",
    "compute": "is at the limit of computation",
    "bandwidth": "is at the limit of DRAM bandwidth",
    "l2": "is at the limit of the L2 cache, not of DRAM",
    "latency": "waits for latency: neither compute nor memory is near its peak",
    "memory_heavy": "leans to memory without reaching its peak",
    "compute_heavy": "leans to computation without reaching its peak",
    "balanced": "uses compute and memory alike, neither at its peak",
    "several kinds": "has no single limit",
}
#: Why the L2 or latency is the limit.
CAUSE_WORDS: dict[str, str] = {
    "partition contention": "slices or the fabric between the L2 partitions are uneven or busy: contention",
    "uneven slices": (
        "L2 slices are unevenly loaded, which is consistent with contention; no fabric traffic was counted "
        "that could prove it"
    ),
    "access pattern": "slices are even and the fabric is not busy: the access pattern, not contention",
    "no fabric metric": (
        "whether L2 partitions are in each other's way cannot be told: this GPU has no counter for it"
    ),
    "fabric not collected": (
        "whether L2 partitions are in each other's way cannot be told: fabric metrics were not collected"
    ),
    "memory latency": "most stalled warps wait for memory (access pattern, indirection through block tables)",
    "other stalls": "most stalled warps wait for something other than memory",
    "stalls not collected": "what the warps wait for was not collected",
    "too short": "the kernels are too short to tell why",
}
FAMILY_WORDS: dict[str, str] = {
    "attention_decode": "decode attention",
    "attention_prefill": "prefill attention",
}
ACTIONS: dict[str, str] = {
    "small_grid": (
        "Give the GPU more blocks at once: a larger batch, more splits of the KV sequence, or fused launches."
    ),
    "low_occupancy": "Look at registers and shared memory per block of these kernels, or use others.",
    "bandwidth": FEWER_BYTES,
    "l2": "Look at the access pattern of these kernels (sectors per request, block size of the KV cache).",
}
