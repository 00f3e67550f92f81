-- what:  Whether users' tokens got slower in each episode, and by which measure.
-- grain: one row per episode
-- key:   level, replica_id, episode_no
-- columns:
--   level              VARCHAR  level of a sweep, null when the run has one level
--   replica_id         VARCHAR  engine replica
--   episode_no         BIGINT   episode in the level and replica
--   l_status           VARCHAR  worse, not_worse or not_measurable
--   l_reason           VARCHAR  closed words: which measure is worse, or why none can tell
--   victim_count       BIGINT   requests whose stream stalled, null when streams were not recorded there
--   longest_gap_ms     DOUBLE   [ms] longest stall
--   victim_gap_p50_ms  DOUBLE   [ms] median stall
--   tail_before_ratio  DOUBLE   share of tokens slower than the stall limit in the server's histogram before
--   tail_during_ratio  DOUBLE   the same during the episode
-- notes: token streams decide when the client recorded the episode and did not starve; else the tail of the server's histogram; a change within noise is not measurable, never not worse.
with

spans as (

    select * from int_episode_spans

),

recorded as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        sum(latency.token_count) as token_count,
        sum(latency.token_count * latency.zero_gap_ratio)
        / nullif(sum(latency.token_count), 0) as zero_gap_ratio
    from spans
    inner join int_latency_tokens as latency
        on
            spans.replica_id = latency.replica_id
            and spans.level is not distinct from latency.level
            and latency.ts_ns + latency.bucket_ns >= spans.at_ns
            and spans.end_ns >= latency.ts_ns
    group by spans.level, spans.replica_id, spans.episode_no

),

-- clients do not say which of several replicas served them
elsewhere as (

    select coalesce(sum(token_count), 0) as token_count
    from int_latency_tokens
    where replica_id = '?'

),

stalled as (

    select
        level,
        replica_id,
        episode_no,
        count(distinct struct_pack(source := source_id, request := request_no)) as victim_count,
        max(gap_ms) as longest_gap_ms,
        median(gap_ms) as victim_gap_p50_ms
    from int_episode_stalls
    group by level, replica_id, episode_no

),

tails as (

    select
        level,
        replica_id,
        scrape_no,
        source_id,
        max(cumulative_count) as token_count,
        max(cumulative_count) - max(cumulative_count) filter (
            where le <= greatest(threshold('stall_min_ms') / 1e3, 0.3)
        ) as slow_count,
        any_value(ts_ns) as ts_ns,
        any_value(previous_ts_ns) as previous_ts_ns
    from int_itl_tail
    group by level, replica_id, source_id, scrape_no

),

compared as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        sum(tails.token_count) filter (where tails.ts_ns <= spans.pressure_at_ns) as before_count,
        sum(tails.slow_count) filter (where tails.ts_ns <= spans.pressure_at_ns)
            as before_slow_count,
        sum(tails.token_count) filter (where tails.ts_ns > spans.at_ns) as during_count,
        sum(tails.slow_count) filter (where tails.ts_ns > spans.at_ns) as during_slow_count
    from spans
    inner join tails
        on
            spans.replica_id = tails.replica_id
            and spans.level is not distinct from tails.level
            and tails.previous_ts_ns
            >= spans.pressure_at_ns - cast(threshold('harm_before_s') * 1e9 as bigint)
            and tails.ts_ns <= spans.end_ns + cast(threshold('counter_lag_s') * 1e9 as bigint)
    group by spans.level, spans.replica_id, spans.episode_no

),

joined as (

    select
        spans.level,
        spans.replica_id,
        spans.episode_no,
        coalesce(recorded.token_count, 0) > 0 as has_tokens,
        elsewhere.token_count > 0 as has_other_tokens,
        coalesce(recorded.zero_gap_ratio > threshold('client_zero_gap_ratio'), false) as is_starved,
        stalled.victim_count,
        stalled.longest_gap_ms,
        stalled.victim_gap_p50_ms,
        compared.before_count,
        compared.during_count,
        compared.before_count >= threshold('harm_min_tokens')
        and compared.during_count >= threshold('harm_min_tokens') as is_comparable,
        compared.before_slow_count / nullif(compared.before_count, 0) as tail_before_ratio,
        compared.during_slow_count / nullif(compared.during_count, 0) as tail_during_ratio,
        (compared.before_slow_count + 1) / (compared.before_count + 1) as tail_noise_ratio
    from spans
    left join recorded
        on
            spans.replica_id = recorded.replica_id
            and spans.level is not distinct from recorded.level
            and spans.episode_no = recorded.episode_no
    cross join elsewhere
    left join stalled
        on
            spans.replica_id = stalled.replica_id
            and spans.level is not distinct from stalled.level
            and spans.episode_no = stalled.episode_no
    left join compared
        on
            spans.replica_id = compared.replica_id
            and spans.level is not distinct from compared.level
            and spans.episode_no = compared.episode_no

)

select
    level,
    replica_id,
    episode_no,
    case
        when
            has_tokens and not is_starved
            then case when victim_count > 0 then 'worse' else 'not_worse' end
        when
            is_comparable
            and tail_during_ratio >= threshold('harm_tail_factor') * tail_noise_ratio then 'worse'
        else 'not_measurable'
    end as l_status,
    case
        when has_tokens and not is_starved
            then
                case
                    when victim_count > 0 then 'token streams stalled while others progressed'
                    else 'no token stream stalled while others progressed'
                end
        when is_comparable
            then
                case
                    when tail_during_ratio >= threshold('harm_tail_factor') * tail_noise_ratio
                        then 'more slow tokens in the server histogram'
                    else 'the change in the server histogram is within its noise'
                end
        when is_starved then 'the load client starved and there is no steady histogram before'
        when before_count >= threshold('harm_min_tokens')
            then 'too few tokens during the episode in the server histogram'
        when coalesce(before_count, during_count) is not null
            then 'too few tokens before the pressure for a baseline in the server histogram'
        when has_other_tokens
            then 'token times do not tell which replica served them, and no latency histogram'
        else 'no token times and no latency histogram'
    end as l_reason,
    case when has_tokens and not is_starved then coalesce(victim_count, 0) end as victim_count,
    longest_gap_ms,
    victim_gap_p50_ms,
    tail_before_ratio,
    tail_during_ratio
from joined
