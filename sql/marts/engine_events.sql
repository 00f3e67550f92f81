-- what:  What the engine did or said at a moment, from every source.
-- grain: one row per event and source
-- key:   event_no
-- columns:
--   level              VARCHAR  level of a sweep, null when the run has one level
--   replica_id         VARCHAR  engine replica
--   event_no           BIGINT   number in the run
--   source_id          INTEGER  file that shows it
--   kind               VARCHAR  preempt, flip, recompute_step, copies_out, copies_in, swap_out, retract, pause, offload_store_failed, tier_error, kv_full, cache_evict, recompute, prompt_truncated, jit, oom, fatal, worker_stall, graph_capture, profiler_start, profiler_stop, ready, shutdown
--   proof              VARCHAR  counter, log, resume, copies or gauges
--   mode               VARCHAR  recompute, swap, retract or null
--   request_id         VARCHAR  request, when named
--   event_count        BIGINT   events behind the row
--   tokens             BIGINT   tokens concerned
--   bytes              BIGINT   bytes concerned
--   is_under_pressure  BOOLEAN  counts as evidence of a swap point
--   ts_ns              BIGINT   [ns] best estimate
--   error_ns           BIGINT   [ns] half width of its interval
with

events as (

    select
        actions.level,
        actions.replica_id,
        actions.source_id,
        actions.kind,
        actions.proof,
        actions.mode,
        actions.request_id,
        actions.event_count,
        actions.tokens,
        cast(null as bigint) as bytes,
        judged.action_no is not null as is_under_pressure,
        actions.ts_ns,
        (actions.high_ns - actions.low_ns) // 2 as error_ns
    from int_engine_actions as actions
    left join int_actions_judged as judged on actions.action_no = judged.action_no
    union all
    select
        level,
        replica_id,
        source_id,
        kind,
        'log' as proof,
        mode,
        request_id,
        coalesce(event_count, 1) as event_count,
        tokens,
        bytes,
        false as is_under_pressure,
        ts_ns,
        500000000 + coalesce(uncertainty_ns, 0) as error_ns
    from stg_log__events
    where kind in (
        'tier_error',
        'kv_full',
        'cache_evict',
        'recompute',
        'prompt_truncated',
        'jit',
        'oom',
        'fatal',
        'worker_stall',
        'graph_capture',
        'profiler_start',
        'profiler_stop',
        'ready',
        'shutdown'
    )

)

select
    level,
    replica_id,
    row_number()
        over (order by ts_ns, kind, proof, source_id, level, replica_id, request_id, error_ns)
        as event_no,
    source_id,
    kind,
    proof,
    mode,
    request_id,
    event_count,
    tokens,
    bytes,
    is_under_pressure,
    ts_ns,
    error_ns
from events
