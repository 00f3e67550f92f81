-- what:  Requests of load clients on the run clock.
-- grain: one row per request
-- key:   source_id, request_no
-- columns:
--   level           VARCHAR  level of a sweep
--   replica         VARCHAR  replica of the file, null when there is one
--   source_id       INTEGER  client file
--   request_no      BIGINT   number in the file
--   request_id      VARCHAR  client's request id
--   tag             VARCHAR  tag or level name given by the client
--   ttft_ns         BIGINT   [ns] time to first token
--   latency_ns      BIGINT   [ns] whole request as the client states it
--   prompt_tokens   BIGINT   prompt tokens
--   output_tokens   BIGINT   generated tokens
--   max_tokens      BIGINT   asked for
--   cached_tokens   BIGINT   prompt tokens served from a cache
--   concurrency     BIGINT   client's concurrency limit
--   is_error        BOOLEAN  failed, cancelled or incomplete
--   is_warmup       BOOLEAN  not part of the measurement
--   arrival_ns      BIGINT   [ns] sent
--   first_token_ns  BIGINT   [ns] first token
--   last_token_ns   BIGINT   [ns] last token, where the client states it
--   end_ns          BIGINT   [ns] end of the stream
--   uncertainty_ns  BIGINT   [ns] of the source's clock; null when it is not tied to the run clock
-- notes: a request that two files of one client list (records and raw records) counts once; its first file stays.
select
    sources.level,
    sources.replica,
    entries.source_id,
    entries.request_no,
    entries.request_id,
    entries.tag,
    -- durations hold on any clock
    coalesce(
        entries.ttft_ns,
        case
            when sources.comparable_offset_ns is null
                then entries.first_token_src_ns - entries.submit_src_ns
        end
    ) as ttft_ns,
    coalesce(
        entries.latency_ns,
        case
            when sources.comparable_offset_ns is null
                then entries.done_src_ns - entries.submit_src_ns
        end
    ) as latency_ns,
    entries.prompt_tokens,
    entries.output_tokens,
    entries.max_tokens,
    entries.cached_tokens,
    entries.concurrency,
    coalesce(entries.is_error, false) as is_error,
    coalesce(entries.is_warmup, false) as is_warmup,
    entries.submit_src_ns + sources.comparable_offset_ns as arrival_ns,
    entries.first_token_src_ns + sources.comparable_offset_ns as first_token_ns,
    entries.last_token_src_ns + sources.comparable_offset_ns as last_token_ns,
    entries.done_src_ns + sources.comparable_offset_ns as end_ns,
    sources.uncertainty_ns
from raw_client_requests as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
qualify
    entries.request_id is null
    or entries.submit_src_ns is null
    or row_number() over (
        partition by sources.level, sources.replica, entries.request_id, entries.submit_src_ns
        order by entries.source_id, entries.request_no
    ) = 1
