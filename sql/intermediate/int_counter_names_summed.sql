-- what:  What one launch of a profiled kernel does on average, by the keys that join it to traces.
-- grain: one row per level, kind of key and name
-- key:   level, is_full_name, name_key
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   name_key             VARCHAR  full name without blanks, casts and return type; or the short name
--   read_hit_sectors     DOUBLE   L2 look-ups of SM reads that hit, per launch
--   read_lookup_sectors  DOUBLE   L2 look-ups of SM reads, per launch
--   dram_bytes           DOUBLE   [bytes] DRAM traffic per launch
--   peak_bytes_per_s     DOUBLE   [bytes/s] peak DRAM bandwidth, the lowest where files differ
--   occupancy_ratio      DOUBLE   achieved occupancy, mean of the profiled launches
--   sm_use_ratio         DOUBLE   busiest unit of the SMs over its peak, mean
--   l2_use_ratio         DOUBLE   busiest unit of the L2 over its peak, mean
--   is_full_name         BOOLEAN  the key is the full name
with

kernels as (

    select * from profiled_kernels
    where not is_copy and verdict <> 'failed' and name <> ''

),

keyed as (

    select
        *,
        true as is_full_name,
        counter_name_key(name) as name_key
    from kernels
    union all
    select
        *,
        false as is_full_name,
        short_name as name_key
    from kernels

)

select
    level,
    name_key,
    favg(read_hit_sectors) as read_hit_sectors,
    favg(read_lookup_sectors) as read_lookup_sectors,
    favg(dram_bytes) as dram_bytes,
    min(peak_bytes_per_s) as peak_bytes_per_s,
    favg(occupancy_ratio) as occupancy_ratio,
    favg(sm_use_ratio) as sm_use_ratio,
    favg(l2_use_ratio) as l2_use_ratio,
    is_full_name
from keyed
group by level, name_key, is_full_name
