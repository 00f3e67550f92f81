-- what:  Requests of published traces, on the trace's own clock.
-- grain: one row per request
-- key:   source_id, request_no
-- columns:
--   source_id      INTEGER   trace file
--   request_no     BIGINT    number in the file
--   model          VARCHAR   model that was asked
--   input_tokens   BIGINT    prompt tokens
--   output_tokens  BIGINT    generated tokens
--   block_tokens   INTEGER   tokens of one prefix block
--   block_ids      BIGINT[]  prefix blocks in order
--   is_failed      BOOLEAN   the trace marks the request as failed
--   src_ns         BIGINT    [ns] arrival on the file's own clock
-- notes: a trace is no witness of the run, so it is not put on the run clock.
select
    source_id,
    request_no,
    model,
    input_tokens,
    output_tokens,
    block_tokens,
    block_ids,
    coalesce(is_failed, false) as is_failed,
    arrival_src_ns as src_ns
from raw_request_arrivals
