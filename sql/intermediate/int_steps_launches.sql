-- what:  Launch calls with the step range they lie in.
-- grain: one row per call that lies in a step range
-- key:   source_id, process_id, correlation_id
-- columns:
--   source_id       INTEGER  trace file
--   process_id      UBIGINT  process key
--   correlation_id  BIGINT   links to kernels, graphs and copies
--   step_id         BIGINT   step of the range
--   call            VARCHAR  kernel, graph, copy, set or sync
--   start_ns        BIGINT   [ns] start of the call, run clock
-- notes: a call belongs to the range of its own thread that begins last before it and has not ended.
with

launches as (

    select * from stg_nsys__launches

),

steps as (

    select * from int_steps_labelled

)

select
    launches.source_id,
    launches.process_id,
    launches.correlation_id,
    steps.step_id,
    launches.call,
    launches.start_ns
from launches
asof inner join steps
    on
        launches.source_id = steps.source_id
        and launches.process_id = steps.process_id
        and launches.thread_id = steps.thread_id
        and launches.start_ns >= steps.start_ns
where launches.end_ns <= steps.end_ns
