-- what:  Swap points: episodes in which KV pressure changed how the engine works, and pressure without harm.
-- grain: one row per episode
-- key:   swap_point_id
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   replica_id           VARCHAR  engine replica
--   swap_point_id        BIGINT   number in the run, in order of time
--   series_id            BIGINT   episodes close together share it
--   class                VARCHAR  confirmed, probable or pressure
--   mechanism            VARCHAR  recompute, swap, retract, pause, offload or unknown
--   e_proof              VARCHAR  counter, log, resume, copies, gauges; null when only admission was blocked
--   l_status             VARCHAR  worse, not_worse or not_measurable
--   l_reason             VARCHAR  which measure is worse, or why none can tell
--   evidence             VARCHAR  kinds of evidence seen
--   dated_by             VARCHAR  evidence that dates the first action
--   recovery             VARCHAR  recovered, slower_after (KV has room again, steps stay slow) or not_seen
--   kv_used_ratio        DOUBLE   rolling KV occupancy at at_ns
--   kv_footprint_ratio   DOUBLE   mean share of the cache of one running request
--   action_count         BIGINT   engine actions, by the best source that counts them
--   stall_count          BIGINT   stalls of victims, null without any
--   repeat_count         BIGINT   stalls that hit a victim again
--   most_stalls          BIGINT   stalls of the victim that was hit most often
--   victim_count         BIGINT   requests whose stream stalled, null when not recorded
--   recomputed_tokens    BIGINT   tokens of the recompute steps seen, null when none
--   missing_kv_tokens    BIGINT   [tokens] KV that the requests waiting at the worst moment lacked, null when the capacity is unknown
--   out_bytes            BIGINT   [bytes] KV copied to the host in bursts of blocks, null without any
--   in_bytes             BIGINT   [bytes] KV copied back
--   blocked_s            DOUBLE   [s] time with blocked admission
--   longest_gap_ms       DOUBLE   [ms] longest stall of a victim
--   victim_gap_p50_ms    DOUBLE   [ms] median stall
--   lost_s               DOUBLE   [s] victims' silence, summed over stalls
--   tokens_per_s_before  DOUBLE   [tokens/s] idle time left out
--   tokens_per_s_during  DOUBLE   [tokens/s]
--   ttft_p50_before_ms   DOUBLE   [ms]
--   ttft_p50_during_ms   DOUBLE   [ms]
--   slo_before_ratio     DOUBLE   share of the requests that arrived before that met their SLO
--   slo_during_ratio     DOUBLE   of those that arrived during
--   itl_p99_before_ms    DOUBLE   [ms]
--   itl_p99_during_ms    DOUBLE   [ms]
--   itl_p99_others_ms    DOUBLE   [ms] during, the stalls of victims left out
--   tail_victim_ratio    DOUBLE   share of the gaps from itl_p99_during_ms on that are stalls of victims
--   copy_hidden_ratio    DOUBLE   share of the copies' time that kernels hid
--   copy_bytes_per_s     DOUBLE   [bytes/s] of the copies while they ran
--   missing_kv_ratio     DOUBLE   share of the cache that the requests waiting at the worst moment lacked
--   kv_rise_per_s        DOUBLE   [1/s] growth of KV occupancy on the ramp before, null without one
--   kv_itl_correlation   DOUBLE   correlation of KV occupancy and median ITL before, null when one stood still
--   ramp_ceiling_ns      BIGINT   [ns] when the ramp before reaches the ceiling, null without one
--   pressure_at_ns       BIGINT   [ns] pressure begins
--   at_ns                BIGINT   [ns] first engine action, best estimate
--   error_ns             BIGINT   [ns] the truth lies within at_ns plus or minus this
--   resume_at_ns         BIGINT   [ns] first recompute step or end of the first stall
--   counter_at_ns        BIGINT   [ns] first rise of the counter
--   recovered_at_ns      BIGINT   [ns] first sample without pressure afterwards
--   end_ns               BIGINT   [ns] last action or blocked admission
-- notes: only confirmed and probable rows are swap points; pressure rows say that the cache was full, admission was blocked or one or two requests were preempted, without harm that could be found.
with

facts as (

    select
        max(value) filter (where name = 'engine') as engine,
        max(value) filter (where name = 'engine_generation') as engine_generation
    from settings
    where is_effective

),

-- replicas whose finished requests are counted: a running request that vanished can be told from a finished one
finishes as (

    select
        level,
        replica_id
    from int_kv_samples
    where finished_total is not null
    group by level, replica_id

),

capacities as (

    select
        level,
        replica_id,
        max(capacity_tokens) as capacity_tokens
    from kv_occupancy
    where tier = 'hbm'
    group by level, replica_id

),

stall_ends as (

    select
        level,
        replica_id,
        episode_no,
        arg_min(end_ns, (start_ns, source_id, request_no)) as first_stall_end_ns
    from int_episode_stalls
    group by level, replica_id, episode_no

),

joined as (

    select
        episodes.*,
        spans.at_ns,
        spans.error_ns,
        spans.dated_by,
        spans.pressure_at_ns,
        spans.end_ns,
        spans.recovered_at_ns,
        spans.kv_used_ratio,
        spans.kv_footprint_ratio,
        spans.blocked_s,
        harm.l_status as measured_status,
        harm.l_reason as measured_reason,
        harm.victim_count,
        harm.longest_gap_ms,
        harm.victim_gap_p50_ms,
        (
            episodes.counted_actions is not null
            or (episodes.e_proof = 'gauges' and finishes.replica_id is null)
        )
        and greatest(episodes.seen_actions, harm.victim_count) < threshold('isolated_actions')
            as is_isolated,
        case
            when episodes.mode is not null then episodes.mode
            when facts.engine = 'sglang' then 'retract'
            when contains(episodes.evidence, 'pause (log)') then 'pause'
            when
                facts.engine_generation = 'V1' or contains(episodes.evidence, 'recompute_step')
                then 'recompute'
            when episodes.e_proof = 'copies' then 'swap'
            else 'unknown'
        end as mechanism,
        coalesce(episodes.resume_at_ns, stall_ends.first_stall_end_ns) as first_resume_ns
    from int_episodes as episodes
    inner join int_episode_spans as spans
        on
            episodes.replica_id = spans.replica_id
            and episodes.level is not distinct from spans.level
            and episodes.episode_no = spans.episode_no
    inner join int_episode_harm as harm
        on
            episodes.replica_id = harm.replica_id
            and episodes.level is not distinct from harm.level
            and episodes.episode_no = harm.episode_no
    left join stall_ends
        on
            episodes.replica_id = stall_ends.replica_id
            and episodes.level is not distinct from stall_ends.level
            and episodes.episode_no = stall_ends.episode_no
    left join finishes
        on
            episodes.replica_id = finishes.replica_id
            and episodes.level is not distinct from finishes.level
    cross join facts

),

classified as (

    select
        *,
        case
            when e_proof is null then 'pressure'
            when is_isolated then 'pressure'
            when measured_status = 'not_worse' then 'pressure'
            when measured_status = 'worse' and e_proof != 'gauges' then 'confirmed'
            else 'probable'
        end as class
    from joined

),

placed as (

    select
        *,
        at_ns - lag(end_ns) over in_order > threshold('series_gap_s') * 1e9 as is_apart,
        lag(end_ns) over in_order is null as is_first
    from classified
    window in_order as (partition by level, replica_id order by at_ns, episode_no)

)

select
    placed.level,
    placed.replica_id,
    row_number()
        over (order by placed.at_ns, placed.level, placed.replica_id, placed.episode_no)
        as swap_point_id,
    count(case when placed.is_apart or placed.is_first then 1 end) over (
        order by placed.level, placed.replica_id, placed.at_ns, placed.episode_no
        rows between unbounded preceding and current row
    ) as series_id,
    placed.class,
    case when placed.e_proof is null then 'none' else placed.mechanism end as mechanism,
    placed.e_proof,
    placed.measured_status as l_status,
    placed.measured_reason as l_reason,
    coalesce(placed.evidence, 'admission blocked (gauges)') as evidence,
    placed.dated_by,
    shapes.recovery,
    placed.kv_used_ratio,
    placed.kv_footprint_ratio,
    coalesce(placed.action_count, 0) as action_count,
    prices.stall_count,
    prices.repeat_count,
    prices.most_stalls,
    placed.victim_count,
    placed.recomputed_tokens,
    cast(round(shapes.missing_kv_ratio * capacities.capacity_tokens) as bigint)
        as missing_kv_tokens,
    prices.out_bytes,
    prices.in_bytes,
    placed.blocked_s,
    placed.longest_gap_ms,
    placed.victim_gap_p50_ms,
    prices.lost_s,
    prices.tokens_per_s_before,
    prices.tokens_per_s_during,
    prices.ttft_p50_before_ms,
    prices.ttft_p50_during_ms,
    prices.slo_before_ratio,
    prices.slo_during_ratio,
    prices.itl_p99_before_ms,
    prices.itl_p99_during_ms,
    prices.itl_p99_others_ms,
    prices.tail_victim_ratio,
    prices.copy_hidden_ratio,
    prices.copy_bytes_per_s,
    shapes.missing_kv_ratio,
    shapes.kv_rise_per_s,
    shapes.kv_itl_correlation,
    shapes.ramp_ceiling_ns,
    placed.pressure_at_ns,
    placed.at_ns,
    placed.error_ns,
    case when placed.first_resume_ns >= placed.at_ns then placed.first_resume_ns end
        as resume_at_ns,
    placed.counter_at_ns,
    placed.recovered_at_ns,
    placed.end_ns
from placed
left join int_episode_prices as prices
    on
        placed.replica_id = prices.replica_id
        and placed.level is not distinct from prices.level
        and placed.episode_no = prices.episode_no
left join int_episode_shapes as shapes
    on
        placed.replica_id = shapes.replica_id
        and placed.level is not distinct from shapes.level
        and placed.episode_no = shapes.episode_no
left join capacities
    on
        placed.replica_id = capacities.replica_id
        and placed.level is not distinct from capacities.level
