-- what:  Collective operations that ran on every rank of an engine, with the time each rank waited in them.
-- grain: one row per collective kernel of a matched step
-- key:   source_id, kernel_no
-- columns:
--   level        VARCHAR  level of a sweep, null when the run has one level
--   source_id    INTEGER  trace file
--   kernel_no    BIGINT   number in the file
--   device_id    INTEGER  GPU index
--   phase        VARCHAR  prefill, decode, mixed, prefill_or_mixed or other
--   rank_count   BIGINT   ranks that took part
--   wait_ns      BIGINT   [ns] until the last rank arrived
--   skew_ns      BIGINT   [ns] wait of the rank that arrived first
--   is_last      BOOLEAN  arrived last
--   is_together  BOOLEAN  ran at the same time on all ranks; null when their clocks differ
-- notes: ranks are GPUs of a trace file, or one file each. Steps of two ranks belong together when the
--        middle of one lies in the other; in them the n-th operation of each name does, if both have
--        as many. An operation ends on all ranks at once, so a rank waits for as long as its kernel
--        lasts longer than the shortest; on one clock, at most until the last one starts.
--        Sends between two ranks and broadcasts wait by design and are left out.
with

kernels as (

    select * from kernel_phases where step_id is not null

),

names as (

    select
        kernel_id,
        name
    from kernel_names
    where
        family = 'communication'
        and not regexp_matches(lower(name), 'sendrecv|send_recv|broadcast|_put|_get')

),

steps as (

    select
        timed.source_id,
        timed.step_id,
        timed.device_id,
        sources.level,
        coalesce(sources.replica, '0') as replica_id,
        timed.gpu_start_ns,
        timed.gpu_end_ns
    from int_steps_timed as timed
    inner join stg_sources as sources on timed.source_id = sources.source_id

),

ranks as (

    select distinct
        level,
        replica_id,
        source_id,
        device_id
    from steps

),

first_ranks as (

    select
        level,
        replica_id,
        min((source_id, device_id)) as first_rank
    from ranks
    group by level, replica_id
    having count(*) > 1

),

references_found as (

    select
        steps.*,
        steps.level is null as is_only_level,
        first_ranks.first_rank = (steps.source_id, steps.device_id) as is_first_rank,
        steps.gpu_start_ns + (steps.gpu_end_ns - steps.gpu_start_ns) // 2 as middle_ns
    from steps
    inner join first_ranks
        on
            steps.level is not distinct from first_ranks.level
            and steps.replica_id = first_ranks.replica_id

),

paired as (

    select
        others.source_id,
        others.step_id,
        others.device_id,
        firsts.step_id as group_step_id
    from references_found as others
    asof inner join references_found as firsts
        on
            coalesce(others.level, '') = coalesce(firsts.level, '')
            and others.is_only_level = firsts.is_only_level
            and others.replica_id = firsts.replica_id
            and firsts.is_first_rank
            and others.middle_ns >= firsts.gpu_start_ns
    where others.middle_ns < firsts.gpu_end_ns

),

numbered as (

    select
        paired.group_step_id,
        kernels.level,
        kernels.source_id,
        kernels.kernel_no,
        kernels.device_id,
        kernels.kernel_id,
        kernels.phase,
        kernels.start_ns,
        kernels.end_ns,
        row_number() over in_step as operation_no,
        count(*) over (
            partition by kernels.source_id, kernels.device_id, kernels.step_id, kernels.kernel_id
        ) as operation_count
    from kernels
    inner join names on kernels.kernel_id = names.kernel_id
    inner join paired
        on
            kernels.source_id = paired.source_id
            and kernels.device_id = paired.device_id
            and kernels.step_id = paired.step_id
    window in_step as (
        partition by kernels.source_id, kernels.device_id, kernels.step_id, kernels.kernel_id
        order by kernels.start_ns, kernels.kernel_no
    )

),

matched as (

    select
        *,
        count(*) over operation as rank_count,
        min(end_ns - start_ns) over operation as least_ns,
        max(start_ns) over operation as last_start_ns,
        min(end_ns) over operation as first_end_ns,
        min(source_id) over operation = max(source_id) over operation as is_one_clock,
        min(operation_count) over operation = max(operation_count) over operation as is_complete
    from numbered
    window operation as (partition by group_step_id, kernel_id, operation_no)

),

waited as (

    select
        *,
        case
            when is_one_clock then least(end_ns - start_ns - least_ns, last_start_ns - start_ns)
            else end_ns - start_ns - least_ns
        end as wait_ns
    from matched
    where rank_count > 1 and is_complete

)

select
    level,
    source_id,
    kernel_no,
    device_id,
    phase,
    rank_count,
    wait_ns,
    max(wait_ns) over (partition by group_step_id, kernel_id, operation_no) as skew_ns,
    case when is_one_clock then start_ns = last_start_ns else end_ns - start_ns = least_ns end
        as is_last,
    case when is_one_clock then last_start_ns < first_end_ns end as is_together
from waited
