-- what:  What limits each serving phase and kernel family by its counters, and how far its L2 hits can be read.
-- grain: one row per level, phase and family, and one per level and phase over all families
-- key:   level, phase, family
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   phase                VARCHAR  prefill, decode, mixed, other, or unknown when neither name nor range tells
--   family               VARCHAR  kernel family; range or graph for results that cover several kernels; all
--   basis                VARCHAR  trace (launches and times of the GPU trace) or profile (of the profiler alone)
--   verdict              VARCHAR  verdict of profiled_kernels that stands for most of the time; several kinds when
--                                 none does; not covered when too little of the time was profiled
--   cause                VARCHAR  cause of that verdict in most of its time, see profiled_kernels
--   l2_reuse             VARCHAR  present, none (no reuse to lose), flushed (caches were not as the engine left
--                                 them: reuse inside a kernel alone), too short (kernels) or not collected
--   kernel_count         BIGINT   launches of the trace; profiled launches without a trace
--   time_ns              BIGINT   [ns] their time in the trace; under the profiler without one
--   covered_time_ns      BIGINT   [ns] part whose kernel was profiled and measured
--   verdict_time_ns      BIGINT   [ns] part with the verdict that stands for most
--   read_lookup_sectors  BIGINT   L2 look-ups of SM reads
--   coverage_ratio       DOUBLE   covered time over time
--   verdict_ratio        DOUBLE   time with that verdict over covered time
--   read_hit_ratio       DOUBLE   sum of hits over sum of look-ups, SM reads only
--   dram_use_ratio       DOUBLE   sum of bytes over sum of time times peak
--   dram_busy_ratio      DOUBLE   DRAM throughput as the profiler states it, weighted by time
--   sm_use_ratio         DOUBLE   busiest unit of the SMs, weighted by time
--   l2_use_ratio         DOUBLE   busiest unit of the L2, weighted by time
--   occupancy_ratio      DOUBLE   achieved occupancy, weighted by time
--   fabric_use_ratio     DOUBLE   traffic between the L2 partitions over its peak, largest
--   slice_idle_ratio     DOUBLE   idle share of the mean L2 slice behind the busiest one, largest
--   is_off_gpu           BOOLEAN  some kernel reads host memory or another GPU
-- notes: kernels are judged one by one (profiled_kernels.verdict); their time decides, not their number. Once
--        the trace has a launch of a profiled kernel all rows are those of the trace.
with

traced as (

    select
        level,
        phase,
        family,
        verdict,
        cause,
        launch_count,
        time_ns,
        read_hit_sectors,
        read_lookup_sectors,
        dram_bytes,
        peak_bytes,
        occupancy_ratio,
        sm_use_ratio,
        l2_use_ratio,
        dram_busy_ratio,
        fabric_use_ratio,
        slice_idle_ratio,
        is_covered,
        is_short,
        is_in_place,
        is_off_gpu
    from int_counter_launches
    where exists (select 1 from int_counter_launches as covered where covered.is_covered)

),

profiled as (

    select
        level,
        coalesce(phase, 'unknown') as phase,
        family,
        verdict,
        cause,
        launch_count,
        launch_count * coalesce(duration_ns, 0) as time_ns,
        read_hit_sectors * launch_count as read_hit_sectors,
        read_lookup_sectors * launch_count as read_lookup_sectors,
        dram_bytes * launch_count as dram_bytes,
        peak_bytes_per_s * launch_count * duration_ns / 1e9 as peak_bytes,
        occupancy_ratio,
        sm_use_ratio,
        l2_use_ratio,
        dram_busy_ratio,
        fabric_use_ratio,
        slice_idle_ratio,
        verdict <> 'failed' as is_covered,
        is_short,
        cache_state = 'in place' as is_in_place,
        is_off_gpu
    from profiled_kernels
    where not is_copy and not exists (select 1 from traced)

),

single as (

    select
        *,
        'trace' as basis
    from traced
    union all
    select
        *,
        'profile' as basis
    from profiled

),

members as (

    select * from single
    union all
    select * replace ('all' as family)
    from single

),

verdicts as (

    select
        level,
        phase,
        family,
        verdict,
        sum(time_ns) as verdict_time_ns
    from members
    where is_covered
    group by level, phase, family, verdict
    qualify
        row_number() over (
            partition by level, phase, family
            order by sum(time_ns) desc, sum(launch_count) desc, verdict asc
        ) = 1

),

causes as (

    select
        members.level,
        members.phase,
        members.family,
        members.cause
    from members
    inner join verdicts
        on
            members.level is not distinct from verdicts.level
            and members.phase = verdicts.phase
            and members.family = verdicts.family
            and members.verdict = verdicts.verdict
    where members.is_covered
    group by members.level, members.phase, members.family, members.cause
    qualify
        row_number() over (
            partition by members.level, members.phase, members.family
            order by sum(members.time_ns) desc, members.cause asc
        ) = 1

),

summed as (

    select
        level,
        phase,
        family,
        basis,
        cast(sum(launch_count) as bigint) as kernel_count,
        cast(sum(time_ns) as bigint) as time_ns,
        cast(coalesce(sum(time_ns) filter (where is_covered), 0) as bigint) as covered_time_ns,
        cast(round(fsum(read_lookup_sectors)) as bigint) as read_lookup_sectors,
        fsum(read_hit_sectors) / nullif(fsum(read_lookup_sectors), 0) as read_hit_ratio,
        fsum(dram_bytes) filter (where peak_bytes is not null)
        / nullif(fsum(peak_bytes) filter (where dram_bytes is not null), 0) as dram_use_ratio,
        fsum(dram_busy_ratio * time_ns)
        / nullif(sum(time_ns) filter (where dram_busy_ratio is not null), 0)
            as dram_busy_ratio,
        fsum(sm_use_ratio * time_ns)
        / nullif(sum(time_ns) filter (where sm_use_ratio is not null), 0) as sm_use_ratio,
        fsum(l2_use_ratio * time_ns)
        / nullif(sum(time_ns) filter (where l2_use_ratio is not null), 0) as l2_use_ratio,
        fsum(occupancy_ratio * time_ns)
        / nullif(sum(time_ns) filter (where occupancy_ratio is not null), 0)
            as occupancy_ratio,
        max(fabric_use_ratio) as fabric_use_ratio,
        max(slice_idle_ratio) as slice_idle_ratio,
        bool_or(is_off_gpu) as is_off_gpu,
        bool_and(is_in_place) filter (where read_lookup_sectors > 0) as is_in_place,
        coalesce(fsum(read_lookup_sectors) filter (where is_short), 0)
        > fsum(read_lookup_sectors) / 2 as is_short
    from members
    group by level, phase, family, basis

)

select
    summed.level,
    summed.phase,
    summed.family,
    summed.basis,
    case
        when summed.covered_time_ns = 0 and verdicts.verdict is null
            then case when summed.basis = 'profile' then 'failed' else 'not covered' end
        when summed.covered_time_ns < threshold('counter_coverage_ratio') * summed.time_ns
            then 'not covered'
        when
            verdicts.verdict_time_ns
            < threshold('counter_verdict_share_ratio') * summed.covered_time_ns
            then 'several kinds'
        else verdicts.verdict
    end as verdict,
    case
        when
            summed.covered_time_ns >= threshold('counter_coverage_ratio') * summed.time_ns
            and verdicts.verdict_time_ns
            >= threshold('counter_verdict_share_ratio') * summed.covered_time_ns
            then causes.cause
    end as cause,
    case
        when summed.read_hit_ratio is null then 'not collected'
        when summed.is_short then 'too short'
        when not summed.is_in_place then 'flushed'
        when summed.read_hit_ratio < threshold('l2_reuse_none_ratio') then 'none'
        else 'present'
    end as l2_reuse,
    summed.kernel_count,
    summed.time_ns,
    summed.covered_time_ns,
    cast(coalesce(verdicts.verdict_time_ns, 0) as bigint) as verdict_time_ns,
    summed.read_lookup_sectors,
    summed.covered_time_ns / nullif(summed.time_ns, 0) as coverage_ratio,
    verdicts.verdict_time_ns / nullif(summed.covered_time_ns, 0) as verdict_ratio,
    summed.read_hit_ratio,
    summed.dram_use_ratio,
    summed.dram_busy_ratio,
    summed.sm_use_ratio,
    summed.l2_use_ratio,
    summed.occupancy_ratio,
    summed.fabric_use_ratio,
    summed.slice_idle_ratio,
    coalesce(summed.is_off_gpu, false) as is_off_gpu
from summed
left join verdicts
    on
        summed.level is not distinct from verdicts.level
        and summed.phase = verdicts.phase
        and summed.family = verdicts.family
left join causes
    on
        summed.level is not distinct from causes.level
        and summed.phase = causes.phase
        and summed.family = causes.family
order by
    summed.level asc,
    summed.phase asc,
    summed.family <> 'all' asc,
    summed.time_ns desc,
    summed.family asc
