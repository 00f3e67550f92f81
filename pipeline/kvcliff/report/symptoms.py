"""The symptoms that a report looks for, in its order."""

from kvcliff.report.kv_symptoms import hits_but_slow, kv_pressure, queue_with_room, swap_points
from kvcliff.report.load_symptoms import failed_requests, load_knee
from kvcliff.report.step_symptoms import decode_floor, idle_decode, kv_copies, other_jumps
from kvcliff.report.symptom import Symptom

#: In the order of the diagnosis: the cache, pressure on it, other jumps, the steps, the load.
SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "The KV cache is hit and tokens are slow", "cache_hits", "true", "cache hit counters", hits_but_slow
    ),
    Symptom(
        "Streams stall while the KV cache is full",
        "kv_occupancy",
        "tier = 'hbm'",
        "KV occupancy over time",
        swap_points,
    ),
    Symptom(
        "KV pressure that is no swap point",
        "kv_occupancy",
        "tier = 'hbm'",
        "KV occupancy over time",
        kv_pressure,
    ),
    Symptom(
        "Token latency jumps, and KV is not why",
        "token_latency",
        "true",
        "token latency over time",
        other_jumps,
    ),
    Symptom(
        "Each decode step takes long, at any load",
        "bandwidth_ledger",
        "step_class = 'decode' and line = 'ratio_to_floor' and ratio is not null",
        "the model's shape, the memory bandwidth and step times",
        decode_floor,
    ),
    Symptom("The GPU idles between decode steps", "steps", "phase = 'decode'", "a GPU trace", idle_decode),
    Symptom("KV blocks move between GPU and host", "transfers", "true", "copies of a GPU trace", kv_copies),
    Symptom(
        "Requests queue although KV has room",
        "kv_occupancy",
        "tier = 'hbm' and waiting_count is not null",
        "the length of the queue",
        queue_with_room,
    ),
    Symptom("More load brings no more tokens", "concurrency_knee", "true", "a sweep over loads", load_knee),
    Symptom("Requests fail", "requests", "true", "a client's results", failed_requests),
)
