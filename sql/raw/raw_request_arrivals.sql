-- what:  Requests of a published trace: arrival, lengths and prefix blocks.
-- grain: one row per request
-- key:   source_id, request_no
-- columns:
--   source_id       INTEGER   file the row came from
--   request_no      BIGINT    number in the file, from 0
--   model           VARCHAR   model that was asked, when stated
--   arrival_src_ns  BIGINT    [ns] arrival on the file's own clock
--   input_tokens    BIGINT    prompt tokens
--   output_tokens   BIGINT    generated tokens
--   block_tokens    INTEGER   tokens of one prefix block, null without blocks
--   block_ids       BIGINT[]  prefix blocks in order; equal ids are equal blocks with equal prefixes
--   is_failed       BOOLEAN   the trace marks the request as failed
select
    cast(null as integer) as source_id,
    cast(null as bigint) as request_no,
    cast(null as varchar) as model,
    cast(null as bigint) as arrival_src_ns,
    cast(null as bigint) as input_tokens,
    cast(null as bigint) as output_tokens,
    cast(null as integer) as block_tokens,
    cast(null as bigint[]) as block_ids,
    cast(null as boolean) as is_failed
where false
