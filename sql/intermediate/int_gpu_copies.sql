-- what:  Memory copies of GPU traces with the part that ran under kernels.
-- grain: one row per copy
-- key:   source_id, copy_no
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica_id      VARCHAR  engine replica
--   source_id       INTEGER  trace file
--   copy_no         BIGINT   number in the file
--   device_id       INTEGER  GPU index
--   process_id      UBIGINT  process key
--   stream_id       INTEGER  CUDA stream
--   correlation_id  BIGINT   launch call
--   kind            VARCHAR  htod, dtoh, dtod, htoh, ptop, uvm_htod, uvm_dtoh, uvm_dtod or other
--   source_memory   VARCHAR  pageable, pinned, device, managed or other
--   target_memory   VARCHAR  pageable, pinned, device, managed or other
--   bytes           BIGINT   bytes copied
--   hidden_ns       BIGINT   [ns] part of the time in which the device also computed
--   start_ns        BIGINT   [ns] start, run clock
--   end_ns          BIGINT   [ns] end, run clock
-- notes: a graph traced as a whole counts as computing from its start to its end. computed_ns is how long
--        the device had computed by an edge of a copy: every piece of work counts for the next edge after
--        its start, which spares a running sum over all work.
with

copies as (

    select * from stg_nsys__copies where kind <> 'memset'

),

edges as (

    select
        source_id,
        device_id,
        start_ns as edge_ns
    from copies
    union
    select
        source_id,
        device_id,
        end_ns as edge_ns
    from copies

),

worked as (

    select
        edges.source_id,
        edges.device_id,
        edges.edge_ns,
        sum(greatest(
            0, work.end_ns - greatest(work.start_ns, coalesce(work.covered_ns, work.start_ns))
        )) as busy_ns,
        max(work.end_ns) as reached_ns
    from int_gpu_work as work
    asof inner join edges
        on
            work.source_id = edges.source_id
            and work.device_id = edges.device_id
            and work.start_ns <= edges.edge_ns
    group by edges.source_id, edges.device_id, edges.edge_ns

),

summed as (

    select
        edges.source_id,
        edges.device_id,
        edges.edge_ns,
        coalesce(sum(worked.busy_ns) over so_far, 0) as busy_ns,
        max(worked.reached_ns) over so_far as reached_ns
    from edges
    left join worked
        on
            edges.source_id = worked.source_id
            and edges.device_id = worked.device_id
            and edges.edge_ns = worked.edge_ns
    window so_far as (
        partition by edges.source_id, edges.device_id
        order by edges.edge_ns
        rows unbounded preceding
    )

),

computed as (

    select
        source_id,
        device_id,
        edge_ns,
        cast(busy_ns - greatest(0, coalesce(reached_ns - edge_ns, 0)) as bigint) as computed_ns
    from summed

)

select
    copies.level,
    copies.replica_id,
    copies.source_id,
    copies.copy_no,
    copies.device_id,
    copies.process_id,
    copies.stream_id,
    copies.correlation_id,
    copies.kind,
    copies.source_memory,
    copies.target_memory,
    copies.bytes,
    coalesce(ends.computed_ns - starts.computed_ns, 0) as hidden_ns,
    copies.start_ns,
    copies.end_ns
from copies
left join computed as starts
    on
        copies.source_id = starts.source_id
        and copies.device_id = starts.device_id
        and copies.start_ns = starts.edge_ns
left join computed as ends
    on
        copies.source_id = ends.source_id
        and copies.device_id = ends.device_id
        and copies.end_ns = ends.edge_ns
