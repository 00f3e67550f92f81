-- what:  Sums per kernel name of captures that came as sums only, without times.
-- grain: one row per source and name
-- key:   source_id, kernel_id
-- columns:
--   level         VARCHAR  level of a sweep, null when the run has one level
--   source_id     INTEGER  file
--   kernel_id     INTEGER  name in the run
--   family        VARCHAR  kernel family by name; attention_unknown where the grid would have to tell
--   phase         VARCHAR  prefill or decode when the name occurs in that phase only, else null
--   launch_count  BIGINT   launches
--   gpu_time_ns   BIGINT   [ns] summed time of the launches; parallel streams count twice
--   min_ns        BIGINT   [ns] shortest launch, null when unknown
--   max_ns        BIGINT   [ns] longest launch, null when unknown
-- notes: apart from kernel_phases, which holds launches with times; a capture that came in both forms is in both.
with

sums as (

    select * from stg_nsys__kernel_sums

),

named as (

    select * from int_kernels_named

)

select
    sums.level,
    sums.source_id,
    named.kernel_id,
    named.wide_family as family,
    case when named.max_grid_x is null then named.phase end as phase,
    sums.launch_count,
    sums.gpu_time_ns,
    sums.min_ns,
    sums.max_ns
from sums
inner join named on sums.source_id = named.source_id and sums.name_id = named.name_id
order by sums.source_id, named.kernel_id
