-- what:  Requests of published traces, ready for replay: arrival, lengths, prefix blocks.
-- grain: one row per request
-- key:   source_id, request_no
-- columns:
--   source_id             INTEGER   trace file
--   request_no            BIGINT    number in the file
--   model                 VARCHAR   model that was asked, when stated
--   input_tokens          BIGINT    prompt tokens
--   output_tokens         BIGINT    generated tokens
--   block_tokens          INTEGER   tokens of one prefix block, null without blocks
--   block_count           BIGINT    prefix blocks of the prompt, null without blocks
--   reusable_block_count  BIGINT    leading blocks that earlier requests asked for: the hit of an unlimited cache
--   block_ids             BIGINT[]  prefix blocks in order
--   is_failed             BOOLEAN   the trace marks the request as failed
--   given_ns              BIGINT    [ns] arrival as the file states it
--   arrival_ns            BIGINT    [ns] since the first arrival of the file
-- notes: order by source_id, arrival_ns, request_no to replay. To scale the rate divide the gaps between arrivals, never the lengths.
with

arrivals as (

    select * from stg_trace__arrivals

),

reuse as (

    select
        source_id,
        request_no,
        count(*) as block_count,
        coalesce(min(block_place) filter (where not is_known) - 1, count(*)) as reusable_block_count
    from int_trace_blocks
    group by source_id, request_no

)

select
    arrivals.source_id,
    arrivals.request_no,
    arrivals.model,
    arrivals.input_tokens,
    arrivals.output_tokens,
    arrivals.block_tokens,
    reuse.block_count,
    reuse.reusable_block_count,
    arrivals.block_ids,
    arrivals.is_failed,
    arrivals.src_ns as given_ns,
    arrivals.src_ns - min(arrivals.src_ns) over (partition by arrivals.source_id) as arrival_ns
from arrivals
left join reuse
    on arrivals.source_id = reuse.source_id and arrivals.request_no = reuse.request_no
