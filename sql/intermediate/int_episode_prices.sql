-- what:  What each episode cost: throughput and latency before and during it, lost time, bytes moved.
-- grain: one row per episode
-- key:   level, replica_id, episode_no
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   replica_id           VARCHAR  engine replica
--   episode_no           BIGINT   episode in the level and replica
--   stall_count          BIGINT   stalls of victims, null without any
--   repeat_count         BIGINT   stalls that hit a victim again
--   most_stalls          BIGINT   stalls of the victim that was hit most often
--   out_bytes            BIGINT   [bytes] KV copied to the host in bursts of blocks, null without any
--   in_bytes             BIGINT   [bytes] KV copied back
--   lost_s               DOUBLE   [s] victims' silence, summed over stalls
--   tokens_per_s_before  DOUBLE   [tokens/s] mean before the first action, idle time left out
--   tokens_per_s_during  DOUBLE   [tokens/s] mean from the first action to the end
--   ttft_p50_before_ms   DOUBLE   [ms] median TTFT of requests that arrived before
--   ttft_p50_during_ms   DOUBLE   [ms] of requests that arrived during
--   slo_before_ratio     DOUBLE   share of the requests that arrived before that met their SLO
--   slo_during_ratio     DOUBLE   of those that arrived during
--   itl_p99_before_ms    DOUBLE   [ms] p99 chunk gap before
--   itl_p99_during_ms    DOUBLE   [ms] during
--   itl_p99_others_ms    DOUBLE   [ms] during, the stalls of victims left out
--   tail_victim_ratio    DOUBLE   share of the gaps from itl_p99_during_ms on that are stalls of victims
--   copy_hidden_ratio    DOUBLE   share of the copies' time that kernels hid
--   copy_bytes_per_s     DOUBLE   [bytes/s] of the copies while they ran
-- notes: before is the harm_before_s ahead of the first action; an episode at the very start has none. Nothing running and nothing generated is idle.
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
        favg(latency.tokens_per_s) filter (
            where latency.ts_ns + latency.bucket_ns <= spans.at_ns
            and (latency.tokens_per_s > 0 or latency.running_count > 0)
        )
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
            as ttft_p50_during_ms,
        favg(cast(requests.is_slo_met as integer)) filter (where requests.arrival_ns < spans.at_ns)
            as slo_before_ratio,
        favg(cast(requests.is_slo_met as integer)) filter (where requests.arrival_ns >= spans.at_ns)
            as slo_during_ratio
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

stalled as (

    select
        level,
        replica_id,
        episode_no,
        sum(stall_count) as stall_count,
        sum(stall_count - 1) as repeat_count,
        max(stall_count) as most_stalls,
        fsum(gap_ms) / 1e3 as lost_s
    from (
        select
            level,
            replica_id,
            episode_no,
            count(*) as stall_count,
            fsum(gap_ms) as gap_ms
        from int_episode_stalls
        group by level, replica_id, episode_no, source_id, request_no
    ) as victims
    group by level, replica_id, episode_no

),

-- ten-second slots of the time in which chunks count: chunks are many, and most belong to no episode
slots as (

    select
        *,
        -- the last victims speak again after the last action
        end_ns + cast(threshold('counter_lag_s') * 1e9 as bigint) as until_ns,
        unnest(
            range(
                before_ns // 10000000000,
                (end_ns + cast(threshold('counter_lag_s') * 1e9 as bigint)) // 10000000000 + 1
            )
        ) as slot_no
    from spans

),

arrived as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        arrivals.gap_ns,
        arrivals.ts_ns >= spans.at_ns as is_during,
        stalls.request_no is not null as is_stall
    from slots as spans
    inner join int_token_arrivals as arrivals
        on
            spans.replica_id = arrivals.replica_id
            and spans.level is not distinct from arrivals.level
            and spans.slot_no = arrivals.ts_ns // 10000000000
            and spans.before_ns <= arrivals.ts_ns
            and spans.until_ns >= arrivals.ts_ns
    left join int_episode_stalls as stalls
        on
            arrivals.source_id = stalls.source_id
            and arrivals.request_no = stalls.request_no
            and arrivals.ts_ns = stalls.end_ns
            and spans.episode_no = stalls.episode_no
    where
        arrivals.gap_ns is not null
        and (spans.end_ns >= arrivals.ts_ns or stalls.request_no is not null)

),

gaps as (

    select
        level,
        replica_id,
        episode_no,
        quantile_cont(gap_ns, 0.99) filter (where not is_during) / 1e6 as itl_p99_before_ms,
        quantile_cont(gap_ns, 0.99) filter (where is_during) / 1e6 as itl_p99_during_ms,
        quantile_cont(gap_ns, 0.99) filter (where is_during and not is_stall) / 1e6
            as itl_p99_others_ms
    from arrived
    group by level, replica_id, episode_no

),

tails as (

    select
        arrived.level,
        arrived.replica_id,
        arrived.episode_no,
        favg(cast(arrived.is_stall as integer)) as tail_victim_ratio
    from arrived
    inner join gaps
        on
            arrived.replica_id = gaps.replica_id
            and arrived.level is not distinct from gaps.level
            and arrived.episode_no = gaps.episode_no
    where arrived.is_during and arrived.gap_ns / 1e6 >= gaps.itl_p99_during_ms
    group by arrived.level, arrived.replica_id, arrived.episode_no

),

copied as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        cast(sum(transfers.bytes) filter (where transfers.kind = 'dtoh') as bigint) as out_bytes,
        cast(sum(transfers.bytes) filter (where transfers.kind = 'htod') as bigint) as in_bytes,
        sum(coalesce(transfers.hidden_ns, 0)) / nullif(sum(transfers.copy_ns), 0)
            as copy_hidden_ratio,
        sum(transfers.bytes) * 1e9 / nullif(sum(transfers.copy_ns), 0) as copy_bytes_per_s
    from spans
    inner join transfers
        on
            spans.replica_id = transfers.replica_id
            and spans.level is not distinct from transfers.level
            and transfers.start_ns
            between spans.at_ns - spans.error_ns
            and spans.end_ns + cast(threshold('counter_lag_s') * 1e9 as bigint)
    where transfers.is_kv_swap
    group by spans.level, spans.replica_id, spans.episode_no

)

select
    spans.level,
    spans.replica_id,
    spans.episode_no,
    cast(stalled.stall_count as bigint) as stall_count,
    cast(stalled.repeat_count as bigint) as repeat_count,
    stalled.most_stalls,
    copied.out_bytes,
    copied.in_bytes,
    stalled.lost_s,
    rates.tokens_per_s_before,
    rates.tokens_per_s_during,
    first_tokens.ttft_p50_before_ms,
    first_tokens.ttft_p50_during_ms,
    first_tokens.slo_before_ratio,
    first_tokens.slo_during_ratio,
    gaps.itl_p99_before_ms,
    gaps.itl_p99_during_ms,
    gaps.itl_p99_others_ms,
    tails.tail_victim_ratio,
    copied.copy_hidden_ratio,
    copied.copy_bytes_per_s
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
left join stalled
    on
        spans.replica_id = stalled.replica_id
        and spans.level is not distinct from stalled.level
        and spans.episode_no = stalled.episode_no
left join tails
    on
        spans.replica_id = tails.replica_id
        and spans.level is not distinct from tails.level
        and spans.episode_no = tails.episode_no
left join copied
    on
        spans.replica_id = copied.replica_id
        and spans.level is not distinct from copied.level
        and spans.episode_no = copied.episode_no
