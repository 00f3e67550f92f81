-- what:  What must be known before the Nsight Compute values of a file are used.
-- grain: one row per file and warning
-- key:   source_id, warning
-- columns:
--   level         VARCHAR  level of a sweep, null when the run has one level
--   source_id     INTEGER  file
--   warning_no    INTEGER  order of the warnings
--   warning       VARCHAR  caches_flushed, warmed_by_itself, clocks_locked ... (seed counter_warning_texts)
--   meaning       VARCHAR  what it means and what to do
--   kernel_count  BIGINT   profiled kernels that it concerns; null when it concerns the file
-- notes: a row is there exactly when its trigger is met.
with

sessions as (

    select * from int_counter_sessions_matched

),

kernels as (

    select
        profiled.*,
        staged.is_clock_locked,
        measured.has_bad_hit
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
        source_id,
        count(*) filter (where is_clock_locked) as locked_count,
        count(*) filter (where pass_count > 1) as several_count,
        count(*) filter (where is_short) as short_count,
        count(*) filter (where has_bad_hit) as bad_hit_count,
        count(*) filter (where hit_basis <> 'absent' or dram_bytes is not null) as memory_count,
        count(*) filter (
            where hit_basis = 'all_clients' and compute_capability in ('8.0', '9.0')
        ) as fabric_count,
        count(*) filter (
            where
            peak_basis = 'measured_clock'
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
        unnest([
            struct_pack(
                warning := 'caches_flushed',
                kernel_count := cast(null as bigint),
                is_met := coalesce(sessions.cache_control = 'all', false)
            ),
            struct_pack(
                warning := 'warmed_by_itself',
                kernel_count := counted.several_count,
                is_met := coalesce(
                    sessions.cache_control = 'none'
                    and sessions.replay_mode = 'kernel'
                    and counted.several_count > 0,
                    false
                )
            ),
            struct_pack(
                warning := 'clocks_locked',
                kernel_count := nullif(counted.locked_count, 0),
                is_met := coalesce(
                    counted.locked_count > 0 or sessions.clock_control = 'base', false
                )
            ),
            struct_pack(
                warning := 'serialised',
                kernel_count := cast(null as bigint),
                is_met := coalesce(sessions.replay_mode in ('kernel', 'application'), false)
            ),
            struct_pack(
                warning := 'several_passes',
                kernel_count := counted.several_count,
                is_met := counted.several_count > 0
            ),
            struct_pack(
                warning := 'short_kernels',
                kernel_count := counted.short_count,
                is_met := counted.short_count > 0
            ),
            struct_pack(
                warning := 'hit_out_of_range',
                kernel_count := counted.bad_hit_count,
                is_met := counted.bad_hit_count > 0
            ),
            struct_pack(
                warning := 'memory_metrics_absent',
                kernel_count := cast(null as bigint),
                is_met := counted.memory_count = 0
            ),
            struct_pack(
                warning := 'fabric_counted_twice',
                kernel_count := counted.fabric_count,
                is_met := counted.fabric_count > 0
            ),
            struct_pack(
                warning := 'active_cycle_overhead',
                kernel_count := counted.overhead_count,
                is_met := counted.overhead_count > 0
            ),
            struct_pack(
                warning := 'shared_gpu',
                kernel_count := counted.shared_count,
                is_met := counted.shared_count > 0
            ),
            struct_pack(
                warning := 'settings_unknown',
                kernel_count := cast(null as bigint),
                is_met := not sessions.has_options
            ),
            struct_pack(
                warning := 'partial_file',
                kernel_count := sessions.read_kernel_count,
                is_met := coalesce(
                    sessions.stated_kernel_count > sessions.read_kernel_count, false
                )
            ),
            struct_pack(
                warning := 'permission_denied',
                kernel_count := cast(null as bigint),
                is_met := sessions.is_refused
            ),
            struct_pack(
                warning := 'replay_of_full_memory',
                kernel_count := cast(null as bigint),
                is_met := coalesce(
                    sessions.replay_mode = 'kernel'
                    and memory_shares.share >= threshold('counter_memory_full_ratio'),
                    false
                )
            )
        ]) as found
    from sessions
    left join counted on sessions.source_id = counted.source_id
    left join memory_shares on true

)

select
    triggers.level,
    triggers.source_id,
    cast(texts.warning_no as integer) as warning_no,
    triggers.found.warning,
    texts.meaning,
    triggers.found.kernel_count
from triggers
inner join counter_warning_texts as texts on triggers.found.warning = texts.warning
where triggers.found.is_met
order by triggers.source_id, texts.warning_no
