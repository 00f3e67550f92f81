-- what:  Communication between the GPUs of an engine: its share of each phase, and waits between ranks.
-- grain: one row per level, rank and phase
-- key:   level, source_id, device_id, phase
-- columns:
--   level             VARCHAR  level of a sweep, null when the run has one level
--   source_id         INTEGER  trace file
--   device_id         INTEGER  GPU index; with the file, the rank
--   phase             VARCHAR  prefill, decode, mixed, prefill_or_mixed or other
--   kernel_count      BIGINT   communication kernels
--   gpu_time_ns       BIGINT   [ns] their summed time
--   share_of_phase    DOUBLE   their share of the time of the rank's visible kernels in the phase, 0-1
--   rank_count        BIGINT   ranks of a matched operation, null when none is matched
--   matched_count     BIGINT   kernels matched with those of the other ranks
--   matched_time_ns   BIGINT   [ns] their summed time
--   together_ratio    DOUBLE   share of the matched ones that ran at the same time on all ranks; null when their clocks differ
--   wait_ns           BIGINT   [ns] time in them until the last rank arrived, null when none is matched
--   wait_of_phase     DOUBLE   wait_ns over the time of the rank's visible kernels in the phase, 0-1
--   last_count        BIGINT   matched ones in which this rank arrived last
--   skew_p50_ns       BIGINT   [ns] half of the matched ones kept the first rank waiting no longer
--   skew_p99_ns       BIGINT   [ns] 99 % of the matched ones kept the first rank waiting no longer
-- notes: kernels inside graphs traced as a whole are invisible. Waits are those of int_collectives_matched:
--        a rank that is early spins inside its kernel, so its wait is part of gpu_time_ns.
with

kernels as (

    select * from kernel_phases

),

names as (

    select kernel_id from kernel_names where family = 'communication'

),

matched as (

    select * from int_collectives_matched

),

summed as (

    select
        kernels.level,
        kernels.source_id,
        kernels.device_id,
        kernels.phase,
        count(*) as kernel_count,
        sum(kernels.end_ns - kernels.start_ns) as gpu_time_ns
    from kernels
    semi join names on kernels.kernel_id = names.kernel_id
    group by kernels.level, kernels.source_id, kernels.device_id, kernels.phase

),

phase_times as (

    select
        kernels.source_id,
        kernels.device_id,
        kernels.phase,
        sum(kernels.end_ns - kernels.start_ns) as phase_time_ns
    from kernels
    semi join summed
        on kernels.source_id = summed.source_id and kernels.device_id = summed.device_id
    group by kernels.source_id, kernels.device_id, kernels.phase

),

waits as (

    select
        matched.level,
        matched.source_id,
        matched.device_id,
        matched.phase,
        max(matched.rank_count) as rank_count,
        count(*) as matched_count,
        sum(kernels.end_ns - kernels.start_ns) as matched_time_ns,
        count(*) filter (where matched.is_together)
        / nullif(count(*) filter (where matched.is_together is not null), 0) as together_ratio,
        sum(matched.wait_ns) as wait_ns,
        count(*) filter (where matched.is_last) as last_count,
        quantile_disc(matched.skew_ns, 0.5) as skew_p50_ns,
        quantile_disc(matched.skew_ns, 0.99) as skew_p99_ns
    from matched
    inner join kernels
        on matched.source_id = kernels.source_id and matched.kernel_no = kernels.kernel_no
    group by matched.level, matched.source_id, matched.device_id, matched.phase

)

select
    summed.level,
    summed.source_id,
    summed.device_id,
    summed.phase,
    summed.kernel_count,
    cast(summed.gpu_time_ns as bigint) as gpu_time_ns,
    summed.gpu_time_ns / nullif(phase_times.phase_time_ns, 0) as share_of_phase,
    waits.rank_count,
    coalesce(waits.matched_count, 0) as matched_count,
    cast(coalesce(waits.matched_time_ns, 0) as bigint) as matched_time_ns,
    waits.together_ratio,
    cast(waits.wait_ns as bigint) as wait_ns,
    waits.wait_ns / nullif(phase_times.phase_time_ns, 0) as wait_of_phase,
    waits.last_count,
    waits.skew_p50_ns,
    waits.skew_p99_ns
from summed
left join phase_times
    on
        summed.source_id = phase_times.source_id
        and summed.device_id = phase_times.device_id
        and summed.phase = phase_times.phase
left join waits
    on
        summed.level is not distinct from waits.level
        and summed.source_id = waits.source_id
        and summed.device_id is not distinct from waits.device_id
        and summed.phase = waits.phase
order by summed.level, summed.source_id, summed.device_id, summed.phase
