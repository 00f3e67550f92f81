-- what:  Memory traffic that counters saw during the steps of each class.
-- grain: one row per level, replica and step class
-- key:   level, replica_id, step_class
-- columns:
--   level        VARCHAR  level of a sweep, null when the run has one level
--   replica_id   VARCHAR  engine replica
--   step_class   VARCHAR  decode or prefill
--   origin       VARCHAR  counters behind the ratio
--   dram_ratio   DOUBLE   0-1 mean share of the peak DRAM bandwidth while the GPU worked on such steps
-- notes: samples of a trace count for the step whose GPU work they fall into; steps whose phase is not
--        sure are left out. Without samples, profiled kernels carried over to the trace stand in where
--        they cover the phase: their caches were cold, so that ratio is an upper bound.
with

samples as (

    select
        source_id,
        device_id,
        ts_ns,
        coalesce(
            max(value) filter (where counter = 'dram_active_pct'),
            sum(value) filter (where counter in ('dram_read_pct', 'dram_write_pct'))
        ) / 100 as dram_ratio
    from gpu_samples
    where counter in ('dram_active_pct', 'dram_read_pct', 'dram_write_pct')
    group by source_id, device_id, ts_ns

),

phased_steps as (

    select
        level,
        replica_id,
        source_id,
        device_id,
        phase,
        gpu_start_ns,
        gpu_end_ns
    from steps
    where
        gpu_start_ns is not null
        and phase in ('decode', 'prefill')
        and confidence >= threshold('phase_confidence_min')

),

sampled as (

    select
        phased_steps.level,
        phased_steps.replica_id,
        phased_steps.phase as step_class,
        'gpu_samples: DRAM counters during the steps' as origin,
        favg(samples.dram_ratio) as dram_ratio
    from samples
    asof inner join phased_steps
        on
            samples.source_id = phased_steps.source_id
            and samples.device_id = phased_steps.device_id
            and samples.ts_ns >= phased_steps.gpu_start_ns
    where samples.ts_ns < phased_steps.gpu_end_ns and samples.dram_ratio between 0 and 2
    group by phased_steps.level, phased_steps.replica_id, phased_steps.phase

),

profiled as (

    select
        level,
        '0' as replica_id,
        phase as step_class,
        'counter_phases: profiled kernels, an upper bound' as origin,
        favg(dram_use_ratio) as dram_ratio
    from counter_phases
    where is_covered and phase in ('decode', 'prefill') and dram_use_ratio is not null
    group by level, phase

)

select * from sampled
union all
select *
from profiled
where not exists (select 1 from sampled)
