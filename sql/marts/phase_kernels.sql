-- what:  GPU time of each kernel name in each serving phase.
-- grain: one row per level, device, phase, name and family
-- key:   level, device_id, phase, kernel_id, family
-- columns:
--   level              VARCHAR  level of a sweep, null when the run has one level
--   device_id          INTEGER  GPU index
--   phase              VARCHAR  prefill, decode, mixed, prefill_or_mixed or other
--   kernel_id          INTEGER  name, see kernel_names
--   family             VARCHAR  kernel family by name and grid
--   kernel_count       BIGINT   launches
--   gpu_time_ns        BIGINT   [ns] summed time; parallel streams count twice
--   busy_ns            BIGINT   [ns] wall time; overlaps count once, for the earlier kernel
--   confident_time_ns  BIGINT   [ns] part of gpu_time_ns whose phase is acted upon
-- notes: kernels inside graphs traced as a whole are invisible.
with

kernels as (

    select * from kernel_phases

)

select
    level,
    device_id,
    phase,
    kernel_id,
    family,
    count(*) as kernel_count,
    cast(sum(end_ns - start_ns) as bigint) as gpu_time_ns,
    cast(sum(busy_ns) as bigint) as busy_ns,
    cast(sum(
        case when confidence >= threshold('phase_confidence_min') then end_ns - start_ns else 0 end
    ) as bigint) as confident_time_ns
from kernels
group by level, device_id, phase, kernel_id, family
order by level asc, device_id asc, phase asc, gpu_time_ns desc, kernel_id asc, family asc
