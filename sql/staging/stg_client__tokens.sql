-- what:  Token arrivals of load clients on the run clock.
-- grain: one row per request and chunk
-- key:   source_id, request_no, chunk_no
-- columns:
--   level       VARCHAR  level of a sweep
--   source_id   INTEGER  client file
--   request_no  BIGINT   request
--   chunk_no    INTEGER  number in the stream
--   tokens      INTEGER  tokens in the chunk
--   ts_ns       BIGINT   [ns] run clock
select
    sources.level,
    entries.source_id,
    entries.request_no,
    entries.chunk_no,
    entries.tokens,
    entries.src_ns + sources.offset_ns as ts_ns
from raw_client_tokens as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
