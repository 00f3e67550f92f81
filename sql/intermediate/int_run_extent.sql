-- what:  First and last moment that any source on the run clock states.
-- grain: one row
-- key:   start_ns
-- columns:
--   start_ns  BIGINT  [ns] run clock, null when no source has times
--   end_ns    BIGINT  [ns] run clock
-- notes: the times of a file that no tie places beside the others are no moments of the run.
with

sources as (

    select * from stg_sources

),

moments as (

    select
        source_id,
        min(ts_ns) as start_ns,
        max(ts_ns) as end_ns
    from int_kv_samples
    group by source_id
    union all
    select
        source_id,
        min(arrival_ns) as start_ns,
        max(end_ns) as end_ns
    from stg_client__requests
    group by source_id
    union all
    select
        source_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from kernel_phases
    group by source_id
    union all
    select
        source_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from steps
    group by source_id
    union all
    select
        source_id,
        min(ts_ns) as start_ns,
        max(ts_ns) as end_ns
    from gpu_samples
    group by source_id

)

select
    min(moments.start_ns) as start_ns,
    max(moments.end_ns) as end_ns
from moments
left join sources on moments.source_id = sources.source_id
where sources.source_id is null or sources.comparable_offset_ns is not null
