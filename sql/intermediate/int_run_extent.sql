-- what:  First and last moment that any source of the run states.
-- grain: one row
-- key:   start_ns
-- alone: that no source has times
-- columns:
--   start_ns  BIGINT  [ns] run clock, null when no source has times
--   end_ns    BIGINT  [ns] run clock
with

moments as (

    select
        min(ts_ns) as start_ns,
        max(ts_ns) as end_ns
    from int_kv_samples
    union all
    select
        min(arrival_ns) as start_ns,
        max(end_ns) as end_ns
    from stg_client__requests
    union all
    select
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from kernel_phases
    union all
    select
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from steps
    union all
    select
        min(ts_ns) as start_ns,
        max(ts_ns) as end_ns
    from gpu_samples

)

select
    min(start_ns) as start_ns,
    max(end_ns) as end_ns
from moments
