-- what:  Token latency and throughput over time, from the best source of each bucket.
-- grain: one row per time bucket
-- key:   level, replica_id, ts_ns
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica_id      VARCHAR  engine replica
--   origin          VARCHAR  tokens, histogram, iterations, counters or log: where the latency comes from
--   token_count     BIGINT   tokens behind the latencies, null for pure rates
--   tokens_per_s    DOUBLE   [tokens/s] generated
--   itl_p50_ms      DOUBLE   [ms] median inter-token latency
--   itl_p90_ms      DOUBLE   [ms]
--   itl_p99_ms      DOUBLE   [ms]
--   itl_max_ms      DOUBLE   [ms]
--   running_count   DOUBLE   mean requests running
--   waiting_count   DOUBLE   mean requests waiting
--   context_tokens  BIGINT   prefill tokens in the bucket, null without iteration log
--   ts_ns           BIGINT   [ns] start of the bucket
--   bucket_ns       BIGINT   [ns] width
-- notes: token arrivals come first, then the server's histogram, the iteration log, counters and statistics lines (rates only). A client that starves (zero gaps) is not used.
with

starved as (

    select
        level,
        replica_id
    from int_token_streams
    group by level, replica_id
    having sum(zero_gap_count) > threshold('client_zero_gap_ratio') * sum(chunk_count)

),

offers as (

    select
        tokens.level,
        tokens.replica_id,
        'tokens' as origin,
        1 as preference,
        tokens.token_count,
        tokens.token_count * 1e9 / tokens.bucket_ns as tokens_per_s,
        tokens.itl_p50_ms,
        tokens.itl_p90_ms,
        tokens.itl_p99_ms,
        tokens.itl_max_ms,
        tokens.ts_ns,
        tokens.bucket_ns
    from int_latency_tokens as tokens
    left join starved
        on
            tokens.replica_id = starved.replica_id
            and tokens.level is not distinct from starved.level
    where starved.replica_id is null and tokens.itl_p50_ms is not null
    union all
    select
        level,
        replica_id,
        'histogram' as origin,
        2 as preference,
        token_count,
        cast(null as double) as tokens_per_s,
        itl_p50_ms,
        itl_p90_ms,
        itl_p99_ms,
        itl_max_ms,
        ts_ns,
        bucket_ns
    from int_latency_histogram
    union all
    select
        level,
        replica_id,
        'iterations' as origin,
        3 as preference,
        token_count,
        token_count * 1e9 / bucket_ns as tokens_per_s,
        itl_p50_ms,
        itl_p90_ms,
        itl_p99_ms,
        itl_max_ms,
        ts_ns,
        bucket_ns
    from int_latency_steps
    union all
    select
        level,
        replica_id,
        origin,
        case origin when 'counters' then 4 else 5 end as preference,
        cast(null as bigint) as token_count,
        tokens_per_s,
        cast(null as double) as itl_p50_ms,
        cast(null as double) as itl_p90_ms,
        cast(null as double) as itl_p99_ms,
        cast(null as double) as itl_max_ms,
        ts_ns,
        bucket_ns
    from int_latency_rates

),

best as (

    select
        level,
        replica_id,
        arg_min(origin, preference) as origin,
        min(preference) as preference,
        ts_ns
    from offers
    group by level, replica_id, ts_ns

),

rates as (

    select
        level,
        replica_id,
        arg_min(tokens_per_s, preference) as tokens_per_s,
        ts_ns
    from offers
    where tokens_per_s is not null
    group by level, replica_id, ts_ns

),

queues as (

    select
        level,
        replica_id,
        favg(running_count) as running_count,
        favg(waiting_count) as waiting_count,
        ts_ns // cast(threshold('latency_bucket_s') * 1e9 as bigint)
        * cast(threshold('latency_bucket_s') * 1e9 as bigint) as ts_ns
    from int_kv_samples
    where origin != 'iterations'
    group by level, replica_id, ts_ns // cast(threshold('latency_bucket_s') * 1e9 as bigint)

)

select
    offers.level,
    offers.replica_id,
    offers.origin,
    offers.token_count,
    rates.tokens_per_s,
    offers.itl_p50_ms,
    offers.itl_p90_ms,
    offers.itl_p99_ms,
    offers.itl_max_ms,
    queues.running_count,
    queues.waiting_count,
    steps.context_tokens,
    offers.ts_ns,
    offers.bucket_ns
from offers
inner join best
    on
        offers.replica_id = best.replica_id
        and offers.level is not distinct from best.level
        and offers.ts_ns = best.ts_ns
        and offers.preference = best.preference
left join rates
    on
        offers.replica_id = rates.replica_id
        and offers.level is not distinct from rates.level
        and offers.ts_ns = rates.ts_ns
left join queues
    on
        offers.replica_id = queues.replica_id
        and offers.level is not distinct from queues.level
        and offers.ts_ns = queues.ts_ns
left join int_latency_steps as steps
    on
        offers.replica_id = steps.replica_id
        and offers.level is not distinct from steps.level
        and offers.ts_ns = steps.ts_ns
