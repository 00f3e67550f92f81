-- what:  Hardware counters of GPU traces while each phase ran.
-- grain: one row per level, device, phase and counter
-- key:   level, device_id, phase, counter
-- columns:
--   level         VARCHAR  level of a sweep, null when the run has one level
--   device_id     INTEGER  GPU index
--   phase         VARCHAR  prefill, decode, mixed, prefill_or_mixed or other; between_steps when the device worked on no step
--   counter       VARCHAR  canonical name, in per cent of the hardware peak
--   sample_count  BIGINT   samples
--   mean_pct      DOUBLE   mean
--   p95_pct       DOUBLE   95 % of the samples are no higher
-- notes: a sample counts for the step whose GPU work it falls into, from its first to its last kernel. Counters
--        see the whole device, other processes included.
with

samples as (

    select * from stg_nsys__gpu_metrics where ends_with(counter, '_pct')

),

phased as (

    select
        source_id,
        device_id,
        phase,
        gpu_start_ns,
        gpu_end_ns
    from steps
    where gpu_start_ns is not null

),

placed as (

    select
        samples.level,
        samples.device_id,
        samples.counter,
        samples.value,
        case when samples.ts_ns < phased.gpu_end_ns then phased.phase else 'between_steps' end
            as phase
    from samples
    asof left join phased
        on
            samples.source_id = phased.source_id
            and samples.device_id = phased.device_id
            and samples.ts_ns >= phased.gpu_start_ns

)

select
    level,
    device_id,
    phase,
    counter,
    count(*) as sample_count,
    favg(value) as mean_pct,
    quantile_disc(value, 0.95) as p95_pct
from placed
group by level, device_id, phase, counter
order by level, device_id, phase, counter
