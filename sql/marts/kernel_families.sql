-- what:  GPU time of each kernel family in each serving phase.
-- grain: one row per level, device, phase and family
-- key:   level, device_id, phase, family
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   device_id       INTEGER  GPU index
--   phase           VARCHAR  prefill, decode, mixed, prefill_or_mixed or other
--   family          VARCHAR  kernel family
--   kernel_count    BIGINT   kernels
--   gpu_time_ns     BIGINT   [ns] summed time; parallel streams count twice
--   busy_ns         BIGINT   [ns] wall time; overlaps count once, for the earlier kernel
--   share_of_phase  DOUBLE   share of the phase's gpu_time_ns, 0-1
--   is_attention    BOOLEAN  attention proper: prefill, decode, unknown and its reductions
-- notes: kernels inside graphs traced as a whole are invisible and in no family. Families add up to
--        phase_totals.gpu_time_ns.
with

kernels as (

    select * from phase_kernels

),

summed as (

    select
        level,
        device_id,
        phase,
        family,
        cast(sum(kernel_count) as bigint) as kernel_count,
        cast(sum(gpu_time_ns) as bigint) as gpu_time_ns,
        cast(sum(busy_ns) as bigint) as busy_ns
    from kernels
    group by level, device_id, phase, family

)

select
    level,
    device_id,
    phase,
    family,
    kernel_count,
    gpu_time_ns,
    busy_ns,
    gpu_time_ns / nullif(sum(gpu_time_ns) over (partition by level, device_id, phase), 0)
        as share_of_phase,
    starts_with(family, 'attention') as is_attention
from summed
order by level asc, device_id asc, phase asc, gpu_time_ns desc, family asc
