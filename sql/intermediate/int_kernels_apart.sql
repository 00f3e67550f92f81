-- what:  Attention kernels of labelled mixed steps that compute one part of the batch alone.
-- grain: one row per kernel launch
-- key:   source_id, work_no
-- columns:
--   source_id  INTEGER  trace file
--   work_no    BIGINT   kernel_no
--   phase      VARCHAR  prefill or decode
-- notes: when a mixed step holds attention that only decode uses, its other attention is the prefill part.
--        A reduction follows the attention kernel before it on its stream.
with

work as (

    select * from int_gpu_work where not is_opaque

),

steps as (

    select * from int_steps_labelled where phase = 'mixed'

),

names as (

    select distinct
        kernel_id,
        family,
        phase,
        max_grid_x,
        is_main
    from int_kernels_named
    where starts_with(family, 'attention')

),

attention as (

    select
        work.source_id,
        work.work_no,
        work.device_id,
        work.stream_id,
        work.step_id,
        names.family,
        names.is_main,
        case when work.grid_x <= coalesce(names.max_grid_x, work.grid_x) then names.phase end
            as name_phase,
        work.start_ns
    from work
    inner join steps on work.step_id = steps.step_id
    inner join names on work.kernel_id = names.kernel_id

),

split as (

    select
        *,
        bool_or(is_main and name_phase = 'decode') over (partition by step_id, device_id)
            as has_decode_part
    from attention

),

main_phases as (

    select
        *,
        case
            when not is_main then null
            when name_phase is not null then name_phase
            when has_decode_part then 'prefill'
        end as main_phase
    from split

),

phased as (

    select
        source_id,
        work_no,
        case
            when is_main then main_phase
            when name_phase is not null then name_phase
            when family = 'attention_combine'
                then last_value(main_phase ignore nulls) over (
                    partition by source_id, device_id, stream_id, step_id
                    order by start_ns, work_no
                    rows between unbounded preceding and current row
                )
        end as phase
    from main_phases

)

select
    source_id,
    work_no,
    phase
from phased
where phase is not null
