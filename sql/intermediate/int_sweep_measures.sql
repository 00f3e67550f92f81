-- what:  Levels of a sweep in the order of their load, with the best figure of each kind.
-- grain: one row per level
-- key:   level
-- needs: int_sweep_levels
-- columns:
--   level               VARCHAR  label
--   sweep               VARCHAR  sweep that it belongs to, null when there is one
--   l2_reuse            VARCHAR  what that hit rate is worth: verdict of the mart l2_reuse
--   load_kind           VARCHAR  request rate or concurrency: what was raised from level to level
--   load                DOUBLE   how much of it, null when no file says
--   place_no            BIGINT   place in its sweep among levels with load and throughput, from 1; else null
--   level_number        DOUBLE   number in the label
--   concurrency         DOUBLE   client's limit or the label's number; with rates the mean in flight
--   request_rate_per_s  DOUBLE   [requests/s] asked for
--   achieved_rate_per_s DOUBLE   [requests/s] sent
--   schedule_delay_ms   DOUBLE   [ms] median lateness of the client
--   tokens_per_s        DOUBLE   [tokens/s] generated
--   ttft_p50_ms         DOUBLE   [ms]
--   itl_p50_ms          DOUBLE   [ms]
--   itl_p99_ms          DOUBLE   [ms]
--   decoding_count      DOUBLE   mean requests between first and last token, from the client's means
--   before_first_count  DOUBLE   mean requests before their first token, from the client's means
--   kv_used_ratio_max   DOUBLE   highest KV occupancy, 0-1
--   running_max         BIGINT   most requests running
--   waiting_max         BIGINT   most requests waiting
--   queued_ratio        DOUBLE   share of busy samples in which requests wait
--   kv_full_ratio       DOUBLE   share of busy samples in which requests wait and KV is at its ceiling
--   running_queued      DOUBLE   median of running requests while others wait
--   running_limit       DOUBLE   stated max_num_seqs
--   step_budget_ratio   DOUBLE   tokens of the median step over max_num_batched_tokens
--   read_bytes          DOUBLE   [bytes] that a decode step reads
--   dram_use_ratio      DOUBLE   share of the peak DRAM bandwidth: by counters over time, else of profiled kernels
--   read_hit_ratio      DOUBLE   L2 hit rate of SM reads
--   preemption_count    BIGINT   preemptions
--   elasticity          DOUBLE   relative growth of throughput over relative growth of load since the level before
--   is_hit_collapse     BOOLEAN  last level before the L2 hit rate of SM reads collapses
-- notes: the number of a folder's name is its load unless the engine shows another number of running
--        requests in most levels (a date, a prompt length).
with

hits as (

    select *
    from l2_reuse
    qualify
        row_number() over (
            partition by load, case when load is null then level end
            order by level
        ) = 1

),

joined as (

    select
        levels.level,
        levels.sweep,
        levels.origin,
        levels.level_number,
        totals.concurrency_limit,
        totals.request_rate_per_s,
        totals.achieved_rate_per_s,
        totals.schedule_delay_ms,
        coalesce(totals.tokens_per_s, streams.tokens_per_s, engine.tokens_per_s) as tokens_per_s,
        coalesce(streams.ttft_p50_ms, totals.ttft_p50_ms) as ttft_p50_ms,
        coalesce(streams.itl_p50_ms, totals.itl_p50_ms, engine.itl_p50_ms) as itl_p50_ms,
        case
            when streams.itl_p50_ms is not null then streams.itl_p99_ms
            when totals.itl_p50_ms is not null then totals.itl_p99_ms
            else engine.itl_p99_ms
        end as itl_p99_ms,
        totals.decoding_count,
        totals.before_first_count,
        engine.kv_used_ratio_max,
        engine.running_max,
        engine.waiting_max,
        engine.queued_ratio,
        engine.kv_full_ratio,
        engine.running_queued,
        engine.running_limit,
        engine.step_budget_ratio,
        engine.read_bytes,
        engine.preemption_count,
        coalesce(
            engine.dram_use_ratio,
            case when reuse.place_no is not null then reuse.dram_use_ratio end
        ) as dram_use_ratio,
        reuse.read_hit_ratio,
        reuse.verdict as l2_reuse,
        coalesce(reuse.is_collapse, false) as is_hit_collapse
    from int_sweep_levels as levels
    left join int_sweep_totals as totals on levels.level = totals.level
    left join int_sweep_streams as streams on levels.level = streams.level
    left join int_sweep_engine as engine on levels.level = engine.level
    left join hits as reuse
        on case
            when levels.origin = 'folder' then levels.level = reuse.level
            else levels.level_number = reuse.load
        end

),

varied as (

    select
        sweep,
        count(distinct request_rate_per_s) = count(*) as is_rate_raised,
        count(distinct concurrency_limit) = count(*) as is_limit_raised,
        coalesce(
            favg(
                case
                    when origin <> 'folder' or running_limit = level_number then 1
                    when running_max is null then null
                    when
                        running_max between threshold('sweep_label_low_ratio') * level_number
                        and (1 + threshold('sweep_flat_ratio')) * level_number
                        then 1
                    else 0
                end
            ) >= 0.5, true
        ) as is_number_load
    from joined
    group by sweep

),

loaded as (

    select
        joined.*,
        case
            when varied.is_rate_raised and not varied.is_limit_raised then 'request rate'
            else 'concurrency'
        end as load_kind,
        case
            when varied.is_limit_raised then joined.concurrency_limit
            when varied.is_rate_raised then joined.decoding_count + joined.before_first_count
            when varied.is_number_load then joined.level_number
        end as concurrency
    from joined
    inner join varied on joined.sweep is not distinct from varied.sweep

),

placed as (

    select
        *,
        case load_kind when 'request rate' then request_rate_per_s else concurrency end as load
    from loaded

),

stepped as (

    select
        *,
        row_number() over (partition by sweep order by load, level) as place_no,
        ln(
            tokens_per_s / lag(tokens_per_s) over (partition by sweep order by load, level)
        )
        / nullif(ln(load / lag(load) over (partition by sweep order by load, level)), 0)
            as elasticity
    from placed
    where load > 0 and tokens_per_s > 0

)

select
    placed.level,
    placed.sweep,
    placed.l2_reuse,
    placed.load_kind,
    placed.load,
    stepped.place_no,
    placed.level_number,
    placed.concurrency,
    placed.request_rate_per_s,
    placed.achieved_rate_per_s,
    placed.schedule_delay_ms,
    placed.tokens_per_s,
    placed.ttft_p50_ms,
    placed.itl_p50_ms,
    placed.itl_p99_ms,
    placed.decoding_count,
    placed.before_first_count,
    placed.kv_used_ratio_max,
    placed.running_max,
    placed.waiting_max,
    placed.queued_ratio,
    placed.kv_full_ratio,
    placed.running_queued,
    placed.running_limit,
    placed.step_budget_ratio,
    placed.read_bytes,
    placed.dram_use_ratio,
    placed.read_hit_ratio,
    placed.preemption_count,
    stepped.elasticity,
    placed.is_hit_collapse
from placed
left join stepped on placed.level = stepped.level
