-- what:  Sums per kernel name over a whole GPU capture, without times.
-- grain: one row per name
-- key:   source_id, kernel_id
-- columns:
--   source_id     INTEGER  file the row came from
--   kernel_id     INTEGER  name id in this source
--   launch_count  BIGINT   launches
--   total_ns      BIGINT   [ns] summed time of the launches
--   min_ns        BIGINT   [ns] shortest launch, null when the table does not say
--   max_ns        BIGINT   [ns] longest launch, null when the table does not say
select
    cast(null as integer) as source_id,
    cast(null as integer) as kernel_id,
    cast(null as bigint) as launch_count,
    cast(null as bigint) as total_ns,
    cast(null as bigint) as min_ns,
    cast(null as bigint) as max_ns
where false
