"""Facts that predictions and advice start from, with round numbers."""

from builders_raw import Row

#: 10 sequences in a pool of 8,000 tokens, half full; weights 6 GB and KV 2 GB per step at 1 TB/s, so that
#: the floor is 8 ms; a step takes twice that.
FACTS: Row = {
    "replica_id": "0",
    "kv_state": "short",
    "element_bytes": 2.0,
    "kv_heads": 32.0,
    "attention_heads": 32.0,
    "kv_bytes_per_token": 1000.0,
    "capacity_tokens": 8000.0,
    "request_tokens": 400.0,
    "prompt_tokens": 300.0,
    "request_count": 100.0,
    "long_tokens": 1000.0,
    "over_ratio": 0.05,
    "kept_tokens": 350.0,
    "mean_tokens": 400.0,
    "used_ratio_peak": 0.5,
    "used_ratio_mean": 0.4,
    "sequences": 10.0,
    "sequences_at_peak": 10.0,
    "sequences_mean": 9.5,
    "batch": 10.0,
    "weight_bytes": 6e9,
    "kv_read_bytes": 2e9,
    "all_weight_bytes": 6e9,
    "bytes_per_s": 1e12,
    "step_ms": 16.0,
    "floor_ms": 8.0,
    "tokens_per_s": 600.0,
    "swap_count": 0,
    "pressure_count": 0,
    "is_mla": False,
}


def facts_with(**columns: object) -> Row:
    """Return these facts with some of them replaced."""
    return {**FACTS, **columns}
