-- what:  Engine steps of iteration logs with times finer than their stamps.
-- grain: one row per iteration line
-- key:   source_id, line_no
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   replica_id           VARCHAR  engine replica
--   source_id            INTEGER  log file
--   line_no              BIGINT   line in the file
--   chain_id             INTEGER  first of the log files that continue each other
--   step_no              BIGINT   line in them
--   semantics            VARCHAR  what counts as used KV
--   context_requests     BIGINT   requests in prefill
--   context_tokens       BIGINT   prefill tokens
--   generation_requests  BIGINT   requests in decode
--   generation_tokens    BIGINT   decode tokens
--   elapsed_ms           DOUBLE   [ms] step time
--   kv_used_ratio        DOUBLE   KV occupancy after the step
--   start_ns             BIGINT   [ns] start of the step, run clock
--   end_ns               BIGINT   [ns] end of the step, run clock
--   error_ns             BIGINT   [ns] half width of the bounds on the end, plus clock uncertainty
-- notes: files that continue each other are read as one. A step ends after every earlier stamp plus the steps between, and before every later stamp's second less the steps between; the midpoint of these bounds is taken.
with

iterations as (

    select
        entries.*,
        chains.chain_id,
        entries.line_no + chains.first_no as step_no
    from stg_log__iterations as entries
    inner join int_files_chained as chains
        on entries.source_id = chains.source_id and chains.kind = 'iterations'
    where not coalesce(entries.is_dummy or entries.is_warmup, false)

),

resolution as (

    select
        source_id,
        case
            when bool_and(ts_ns % 1000000000 = min_ts_ns % 1000000000) then 1000000000 else 1000000
        end
            as stamp_ns
    from (select
        source_id,
        ts_ns,
        min(ts_ns) over (partition by source_id) as min_ts_ns
    from iterations) as stamps
    group by source_id

),

accumulated as (

    select
        iterations.*,
        resolution.stamp_ns,
        sum(cast(round(iterations.elapsed_ms * 1e6) as bigint)) over (
            partition by iterations.chain_id, iterations.replica_id order by iterations.step_no
        ) as busy_ns
    from iterations
    inner join resolution on iterations.source_id = resolution.source_id

),

bounded as (

    select
        *,
        cast(busy_ns + max(ts_ns - busy_ns) over (
            partition by chain_id, replica_id
            order by step_no rows between 200 preceding and current row
        ) as bigint) as end_low_ns,
        cast(busy_ns + min(ts_ns + stamp_ns - busy_ns) over (
            partition by chain_id, replica_id
            order by step_no rows between current row and 200 following
        ) as bigint) as end_high_ns
    from accumulated

),

timed as (

    select
        *,
        case
            -- clocks of two files of one log can contradict each other within their uncertainty
            when end_high_ns + 2 * coalesce(uncertainty_ns, 0) >= end_low_ns
                then (end_low_ns + end_high_ns) // 2
            else ts_ns + stamp_ns // 2
        end as end_ns,
        case
            when end_high_ns + 2 * coalesce(uncertainty_ns, 0) >= end_low_ns
                then abs(end_high_ns - end_low_ns) // 2
            else stamp_ns // 2
        end as half_width_ns
    from bounded

)

select
    level,
    replica_id,
    source_id,
    line_no,
    chain_id,
    step_no,
    coalesce(semantics, 'referenced_blocks') as semantics,
    context_requests,
    context_tokens,
    generation_requests,
    generation_tokens,
    elapsed_ms,
    kv_used_ratio,
    end_ns - cast(round(elapsed_ms * 1e6) as bigint) as start_ns,
    end_ns,
    half_width_ns + coalesce(uncertainty_ns, 0) as error_ns
from timed
