-- what:  KV moved between the device and a cache tier, as log lines of the tier state it.
-- grain: one row per level, replica, tier and direction
-- key:   level, replica_id, tier, direction
-- columns:
--   level             VARCHAR  level of a sweep, null when the run has one level
--   replica_id        VARCHAR  engine replica
--   tier              VARCHAR  lmcache, mooncake, hicache or host
--   direction         VARCHAR  store (device to tier), load (tier to device), prefetch (outer to inner tier) or both
--   line_count        BIGINT   log lines behind the row
--   tokens            BIGINT   [tokens] moved, null when no line states them
--   missing_tokens    BIGINT   [tokens] asked for and not moved, null when no line states what was asked
--   bytes             BIGINT   bytes moved, null when no line states them
--   longest_ns        BIGINT   [ns] longest transfer, null when no line states a time
--   busy_ns           BIGINT   [ns] summed time of the transfers; those of ranks and requests overlap
--   bytes_per_s       DOUBLE   bytes / busy time of the lines that state both; else the mean of the rates printed
--   ts_ns             BIGINT   [ns] first line, run clock
--   end_ns            BIGINT   [ns] last line, run clock
-- notes: never add store and load. What of a store is missing was mostly there already. Rates are per busy time, not wall clock.
with

lines as (

    select * from stg_log__tier_transfers

),

timed as (

    select
        *,
        case when duration_ms > 0 then bytes end as timed_bytes,
        case when bytes is not null and duration_ms > 0 then duration_ms end as timed_ms
    from lines

)

select
    level,
    replica_id,
    tier,
    direction,
    count(*) as line_count,
    cast(sum(tokens) as bigint) as tokens,
    cast(
        sum(greatest(asked_tokens - tokens, 0)) filter (where asked_tokens - tokens is not null)
        as bigint
    ) as missing_tokens,
    cast(sum(bytes) as bigint) as bytes,
    cast(max(duration_ms) * 1e6 as bigint) as longest_ns,
    cast(fsum(duration_ms) * 1e6 as bigint) as busy_ns,
    coalesce(
        sum(timed_bytes) * 1e3 / nullif(fsum(timed_ms), 0), favg(printed_bytes_per_s)
    ) as bytes_per_s,
    min(ts_ns) as ts_ns,
    max(ts_ns) as end_ns
from timed
group by level, replica_id, tier, direction
