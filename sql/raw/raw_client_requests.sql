-- what:  Requests as a load client saw them.
-- grain: one row per request
-- key:   source_id, request_no
-- columns:
--   source_id           INTEGER  file the row came from
--   request_no          BIGINT   number in the file, from 0
--   request_id          VARCHAR  client's request id, null when none
--   tag                 VARCHAR  tag, stage or level name given by the client
--   submit_src_ns       BIGINT   [ns] request sent; null when the client keeps no times
--   first_token_src_ns  BIGINT   [ns] first token
--   last_token_src_ns   BIGINT   [ns] last token, where the client states it and keeps no token times
--   done_src_ns         BIGINT   [ns] end of the stream or of the failure
--   ttft_ns             BIGINT   [ns] time to first token
--   latency_ns          BIGINT   [ns] whole request as the client states it, null when it only follows from the times
--   prompt_tokens       BIGINT   prompt tokens (server's usage when given)
--   output_tokens       BIGINT   generated tokens
--   max_tokens          BIGINT   asked for
--   cached_tokens       BIGINT   prompt tokens served from a cache, when reported
--   concurrency         BIGINT   client's concurrency limit, when stated
--   is_error            BOOLEAN  failed, cancelled or incomplete
--   is_warmup           BOOLEAN  not part of the measurement
--   error_kind          VARCHAR  class of the error, without its text
-- notes: prompts and generated texts are never read into a table.
select
    cast(null as integer) as source_id,
    cast(null as bigint) as request_no,
    cast(null as varchar) as request_id,
    cast(null as varchar) as tag,
    cast(null as bigint) as submit_src_ns,
    cast(null as bigint) as first_token_src_ns,
    cast(null as bigint) as last_token_src_ns,
    cast(null as bigint) as done_src_ns,
    cast(null as bigint) as ttft_ns,
    cast(null as bigint) as latency_ns,
    cast(null as bigint) as prompt_tokens,
    cast(null as bigint) as output_tokens,
    cast(null as bigint) as max_tokens,
    cast(null as bigint) as cached_tokens,
    cast(null as bigint) as concurrency,
    cast(null as boolean) as is_error,
    cast(null as boolean) as is_warmup,
    cast(null as varchar) as error_kind
where false
