-- what:  Throughput and latency before and during each episode.
-- grain: one row per episode
-- key:   level, replica_id, episode_no
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   replica_id           VARCHAR  engine replica
--   episode_no           BIGINT   episode in the level and replica
--   tokens_per_s_before  DOUBLE   [tokens/s] mean before the first action
--   tokens_per_s_during  DOUBLE   [tokens/s] mean from the first action to the end
--   ttft_p50_before_ms   DOUBLE   [ms] median TTFT of requests that arrived before
--   ttft_p50_during_ms   DOUBLE   [ms] of requests that arrived during
--   itl_p99_before_ms    DOUBLE   [ms] p99 chunk gap before
--   itl_p99_during_ms    DOUBLE   [ms] during
-- notes: before is the harm_before_s ahead of the first action; an episode at the very start has none.
with

spans as (

    select
        *,
        at_ns - cast(threshold('harm_before_s') * 1e9 as bigint) as before_ns
    from int_episode_spans

),

rates as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        favg(latency.tokens_per_s) filter (where latency.ts_ns + latency.bucket_ns <= spans.at_ns)
            as tokens_per_s_before,
        favg(latency.tokens_per_s) filter (where latency.ts_ns >= spans.at_ns)
            as tokens_per_s_during
    from spans
    inner join token_latency as latency
        on
            spans.replica_id = latency.replica_id
            and spans.level is not distinct from latency.level
            and spans.before_ns <= latency.ts_ns
            and spans.end_ns >= latency.ts_ns
    group by spans.level, spans.replica_id, spans.episode_no

),

first_tokens as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        median(requests.ttft_ms) filter (where requests.arrival_ns < spans.at_ns)
            as ttft_p50_before_ms,
        median(requests.ttft_ms) filter (where requests.arrival_ns >= spans.at_ns)
            as ttft_p50_during_ms
    from spans
    inner join requests
        on
            spans.replica_id = requests.replica_id
            and spans.level is not distinct from requests.level
            and spans.before_ns <= requests.arrival_ns
            and spans.end_ns >= requests.arrival_ns
    where not requests.is_warmup and not requests.is_error
    group by spans.level, spans.replica_id, spans.episode_no

),

gaps as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        quantile_cont(arrivals.gap_ns, 0.99) filter (where arrivals.ts_ns < spans.at_ns) / 1e6
            as itl_p99_before_ms,
        quantile_cont(arrivals.gap_ns, 0.99) filter (where arrivals.ts_ns >= spans.at_ns) / 1e6
            as itl_p99_during_ms
    from spans
    inner join int_token_arrivals as arrivals
        on
            spans.replica_id = arrivals.replica_id
            and spans.level is not distinct from arrivals.level
            and spans.before_ns <= arrivals.ts_ns
            and spans.end_ns >= arrivals.ts_ns
    where arrivals.gap_ns is not null
    group by spans.level, spans.replica_id, spans.episode_no

)

select
    spans.level,
    spans.replica_id,
    spans.episode_no,
    rates.tokens_per_s_before,
    rates.tokens_per_s_during,
    first_tokens.ttft_p50_before_ms,
    first_tokens.ttft_p50_during_ms,
    gaps.itl_p99_before_ms,
    gaps.itl_p99_during_ms
from spans
left join rates
    on
        spans.replica_id = rates.replica_id
        and spans.level is not distinct from rates.level
        and spans.episode_no = rates.episode_no
left join first_tokens
    on
        spans.replica_id = first_tokens.replica_id
        and spans.level is not distinct from first_tokens.level
        and spans.episode_no = first_tokens.episode_no
left join gaps
    on
        spans.replica_id = gaps.replica_id
        and spans.level is not distinct from gaps.level
        and spans.episode_no = gaps.episode_no
