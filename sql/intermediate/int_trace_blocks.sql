-- what:  Prefix blocks of trace requests in the order in which they are asked for.
-- grain: one row per request and place in its prompt
-- key:   source_id, request_no, block_place
-- columns:
--   source_id    INTEGER  trace file
--   request_no   BIGINT   request
--   block_place  BIGINT   place in the prompt, from 1
--   block_id     BIGINT   block
--   arrival_no   BIGINT   request's place in the order of arrival, from 1
--   is_known     BOOLEAN  an earlier request asked for the same block
with

ordered as (

    select
        source_id,
        request_no,
        block_ids,
        row_number() over (partition by source_id order by src_ns, request_no) as arrival_no
    from stg_trace__arrivals
    where block_ids is not null

),

placed as (

    select
        source_id,
        request_no,
        arrival_no,
        generate_subscripts(block_ids, 1) as block_place,
        unnest(block_ids) as block_id
    from ordered

)

select
    source_id,
    request_no,
    block_place,
    block_id,
    arrival_no,
    min(arrival_no) over (partition by source_id, block_id) < arrival_no as is_known
from placed
