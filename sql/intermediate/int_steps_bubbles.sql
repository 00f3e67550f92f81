-- what:  Idle time of the device before each step, and what ran in it.
-- grain: one row per step and device that idled before it
-- key:   step_id, device_id
-- columns:
--   step_id         BIGINT   step in the run
--   device_id       INTEGER  GPU index
--   bubble_ns       BIGINT   [ns] no kernel of any step ran
--   bubble_copy_ns  BIGINT   [ns] part of it in which copies ran, at most bubble_ns
with

steps as (

    select * from int_steps_timed where gpu_start_ns > idle_since_ns

),

copies as (

    select
        source_id,
        device_id,
        start_ns,
        end_ns
    from stg_nsys__copies
    where kind <> 'memset'

),

copied as (

    select
        steps.step_id,
        steps.device_id,
        sum(greatest(
            0,
            least(copies.end_ns, steps.gpu_start_ns)
            - greatest(copies.start_ns, steps.idle_since_ns)
        )) as copy_ns
    from copies
    asof inner join steps
        on
            copies.source_id = steps.source_id
            and copies.device_id = steps.device_id
            and copies.end_ns >= steps.idle_since_ns
    group by steps.step_id, steps.device_id

)

select
    steps.step_id,
    steps.device_id,
    steps.gpu_start_ns - steps.idle_since_ns as bubble_ns,
    cast(least(
        coalesce(copied.copy_ns, 0), steps.gpu_start_ns - steps.idle_since_ns
    ) as bigint) as bubble_copy_ns
from steps
left join copied
    on
        steps.step_id = copied.step_id
        and steps.device_id is not distinct from copied.device_id
