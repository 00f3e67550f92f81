-- what:  What must be known before the Nsight Compute values of a file are used.
-- grain: one row per file and warning
-- key:   source_id, warning
-- needs: int_counter_sessions_matched
-- columns:
--   level         VARCHAR  level of a sweep, null when the run has one level
--   source_id     INTEGER  file
--   warning_no    INTEGER  order of the warnings
--   warning       VARCHAR  caches_flushed, warmed_by_itself, clocks_locked ... (seed counter_warning_texts)
--   meaning       VARCHAR  what it means and what to do
--   kernel_count  BIGINT   profiled kernels that it concerns; null when it concerns the file
-- notes: a row is there exactly when its trigger is met. Busy cycles above bytes over peak are known of GDDR
--        memory alone: parts with HBM are left out there.
with

sessions as (

    select * from int_counter_sessions_matched

),

kernels as (

    select
        profiled.*,
        staged.is_clock_locked,
        measured.has_bad_hit,
        coalesce(has_hbm(profiled.compute_capability), false) as is_hbm
    from profiled_kernels as profiled
    inner join stg_ncu__kernels as staged
        on profiled.source_id = staged.source_id and profiled.kernel_no = staged.kernel_no
    inner join int_counter_kernels_measured as measured
        on
            profiled.source_id = measured.source_id
            and profiled.kernel_no = measured.kernel_no

),

counted as (

    select
        source_id as kernel_source_id,
        count(*) filter (where is_clock_locked) as locked_count,
        count(*) filter (where pass_count > 1) as several_count,
        count(*) filter (where is_short) as short_count,
        count(*) filter (where has_bad_hit) as bad_hit_count,
        count(*) filter (where hit_basis <> 'absent' or dram_bytes is not null) as memory_count,
        count(*) filter (
            where hit_basis = 'all_clients' and has_l2_partitions(compute_capability)
        ) as fabric_count,
        count(*) filter (
            where
            peak_basis = 'measured_clock'
            and not is_hbm
            and dram_busy_ratio - dram_use_ratio > threshold('counter_overhead_ratio')
        ) as overhead_count,
        count(*) filter (where regexp_matches(lower(gpu_name), '\bmig\b|vgpu|^grid '))
            as shared_count
    from kernels
    group by source_id

),

memory_shares as (

    select
        level,
        number as share
    from int_settings_effective
    where name = 'gpu_memory_utilization' and level is null

),

triggers as (

    select
        sessions.level,
        sessions.source_id,
        sessions.read_kernel_count,
        sessions.stated_kernel_count,
        counted.*,
        coalesce(sessions.cache_control, '') as cache_control,
        coalesce(sessions.clock_control, '') as clock_control,
        coalesce(sessions.replay_mode, '') as replay_mode,
        sessions.has_options,
        sessions.is_refused,
        sessions.is_cut,
        coalesce(memory_shares.share, 0) as memory_share
    from sessions
    left join counted on sessions.source_id = counted.kernel_source_id
    left join memory_shares on true

),

found as (

    select
        level,
        source_id,
        read_kernel_count,
        stated_kernel_count,
        unnest([
            { 'name': 'caches_flushed', 'count': null, 'is_met': cache_control = 'all' },
            {
                'name': 'warmed_by_itself', 'count': several_count, 'is_met':
                cache_control = 'none' and replay_mode = 'kernel' and several_count > 0
            },
            {
                'name': 'clocks_locked', 'count': nullif(locked_count, 0), 'is_met':
                clock_control not in ('', 'none') or locked_count > 0
            },
            {
                'name': 'serialised', 'count': null, 'is_met':
                replay_mode in ('kernel', 'application')
            },
            { 'name': 'several_passes', 'count': several_count, 'is_met': several_count > 0 },
            { 'name': 'short_kernels', 'count': short_count, 'is_met': short_count > 0 },
            { 'name': 'hit_out_of_range', 'count': bad_hit_count, 'is_met': bad_hit_count > 0 },
            { 'name': 'memory_metrics_absent', 'count': null, 'is_met': memory_count = 0 },
            { 'name': 'fabric_counted_twice', 'count': fabric_count, 'is_met': fabric_count > 0 },
            {
                'name': 'active_cycle_overhead', 'count': overhead_count, 'is_met':
                overhead_count > 0
            },
            { 'name': 'shared_gpu', 'count': shared_count, 'is_met': shared_count > 0 },
            { 'name': 'settings_unknown', 'count': null, 'is_met': not has_options },
            {
                'name': 'partial_file', 'count': read_kernel_count, 'is_met':
                is_cut or stated_kernel_count > read_kernel_count
            },
            { 'name': 'permission_denied', 'count': null, 'is_met': is_refused },
            {
                'name': 'replay_of_full_memory', 'count': null, 'is_met':
                replay_mode = 'kernel'
                and memory_share >= threshold('counter_memory_full_ratio')
            }
        ]) as trigger
    from triggers

)

select
    found.level,
    found.source_id,
    cast(texts.warning_no as integer) as warning_no,
    texts.warning,
    case
        when texts.warning = 'partial_file'
            then
                texts.meaning || ' (' || found.read_kernel_count || case
                    when found.stated_kernel_count > found.read_kernel_count
                        then ' of at least ' || found.stated_kernel_count
                    else ' are there, how many are missing is not known'
                end || ')'
        else texts.meaning
    end as meaning,
    cast(found.trigger.count as bigint) as kernel_count
from found
inner join counter_warning_texts as texts on found.trigger.name = texts.warning
where coalesce(found.trigger.is_met, false)
order by found.source_id, texts.warning_no
