-- what:  Bursts of memory copies: copies of one kind that follow each other closely on one stream.
-- grain: one row per burst
-- key:   transfer_id
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica_id      VARCHAR  engine replica
--   source_id       INTEGER  trace file
--   transfer_id     BIGINT   burst in the run
--   device_id       INTEGER  GPU index
--   stream_id       INTEGER  CUDA stream
--   step_id         BIGINT   labelled step that launched the first copy, null outside one
--   kind            VARCHAR  htod, dtoh, dtod, htoh, ptop, uvm_htod, uvm_dtoh, uvm_dtod or other
--   source_memory   VARCHAR  pageable, pinned, device, managed or other
--   target_memory   VARCHAR  pageable, pinned, device, managed or other
--   copy_count      BIGINT   copies in the burst
--   bytes           BIGINT   bytes copied
--   piece_bytes     BIGINT   [bytes] most frequent size of a copy, the larger one when tied
--   piece_count     BIGINT   copies of that size
--   copy_ns         BIGINT   [ns] summed time of the copies
--   hidden_ns       BIGINT   [ns] part of copy_ns in which the device also computed
--   hidden_ratio    DOUBLE   hidden_ns / copy_ns, 0-1
--   bytes_per_s     DOUBLE   bytes / copy_ns
--   route_bytes_per_s  DOUBLE  [bytes/s] peak of the link between GPU and host in this direction; null for other kinds or when unknown
--   is_pinned       BOOLEAN  the host side is pinned memory
--   is_side_stream  BOOLEAN  no kernel ran on the stream
--   is_kv_swap      BOOLEAN  looks like KV blocks moving between host and device: pinned, side stream, equal block-sized pieces
--   start_ns        BIGINT   [ns] start of the first copy, run clock
--   end_ns          BIGINT   [ns] end of the last copy, run clock
-- notes: engines that read pinned memory from kernels (LMCache, small Triton swaps) leave no copy: none
--        here is no proof of no offload. Loading weights can look like a swap; it happens before the first step.
with

copies as (

    select * from int_gpu_copies

),

launches as (

    select * from int_steps_launches

),

routes as (

    select
        level,
        pcie_bytes_per_s
    from int_gpu_facts

),

compute_streams as (

    select distinct
        source_id,
        device_id,
        stream_id
    from int_gpu_work

),

marked as (

    select
        *,
        coalesce(start_ns - max(end_ns) over in_stream > threshold('transfer_gap_us') * 1000, true)
            as is_first
    from copies
    window in_stream as (
        partition by
            source_id, process_id, device_id, stream_id, kind, source_memory, target_memory
        order by start_ns, end_ns, copy_no
        rows between unbounded preceding and 1 preceding
    )

),

numbered as (

    select
        *,
        sum(cast(is_first as bigint)) over (
            partition by
                source_id, process_id, device_id, stream_id, kind, source_memory, target_memory
            order by start_ns, end_ns, copy_no
            rows unbounded preceding
        ) as burst_no
    from marked

),

sized as (

    select
        *,
        count(*) over (
            partition by
                source_id, process_id, device_id, stream_id, kind, source_memory, target_memory,
                burst_no, bytes
        ) as size_count
    from numbered

),

bursts as (

    select
        level,
        replica_id,
        source_id,
        process_id,
        device_id,
        stream_id,
        kind,
        source_memory,
        target_memory,
        burst_no,
        count(*) as copy_count,
        cast(sum(bytes) as bigint) as bytes,
        arg_max(bytes, (size_count, bytes)) as piece_bytes,
        max(size_count) as piece_count,
        cast(sum(end_ns - start_ns) as bigint) as copy_ns,
        cast(sum(hidden_ns) as bigint) as hidden_ns,
        arg_min(correlation_id, (start_ns, copy_no)) as first_correlation_id,
        min(copy_no) as first_copy_no,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from sized
    group by all

),

judged as (

    select
        bursts.*,
        launches.step_id,
        case
            when bursts.kind in ('htod', 'dtoh')
                then coalesce(routes.pcie_bytes_per_s, run_route.pcie_bytes_per_s)
        end as route_bytes_per_s,
        coalesce(
            case
                when bursts.kind = 'htod' then bursts.source_memory = 'pinned'
                when bursts.kind = 'dtoh' then bursts.target_memory = 'pinned'
            end, false
        ) as is_pinned,
        compute_streams.stream_id is null as is_side_stream,
        bursts.piece_count >= 2
        and bursts.piece_count * 2 >= bursts.copy_count
        and bursts.piece_bytes >= threshold('swap_piece_min_kib') * 1024 as has_block_pieces
    from bursts
    left join compute_streams
        on
            bursts.source_id = compute_streams.source_id
            and bursts.device_id is not distinct from compute_streams.device_id
            and bursts.stream_id = compute_streams.stream_id
    left join routes on bursts.level is not distinct from routes.level
    left join routes as run_route on run_route.level is null
    left join launches
        on
            bursts.source_id = launches.source_id
            and bursts.process_id = launches.process_id
            and bursts.first_correlation_id = launches.correlation_id

)

select
    level,
    replica_id,
    source_id,
    row_number() over (order by source_id, start_ns, device_id, stream_id, first_copy_no)
        as transfer_id,
    device_id,
    stream_id,
    step_id,
    kind,
    source_memory,
    target_memory,
    copy_count,
    bytes,
    piece_bytes,
    piece_count,
    copy_ns,
    hidden_ns,
    hidden_ns / nullif(copy_ns, 0) as hidden_ratio,
    1e9 * bytes / nullif(copy_ns, 0) as bytes_per_s,
    route_bytes_per_s,
    is_pinned,
    is_side_stream,
    is_pinned and is_side_stream and has_block_pieces as is_kv_swap,
    start_ns,
    end_ns
from judged
order by transfer_id
