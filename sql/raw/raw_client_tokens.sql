-- what:  Arrival of each chunk of a token stream.
-- grain: one row per request and chunk
-- key:   source_id, request_no, chunk_no
-- columns:
--   source_id   INTEGER  file the row came from
--   request_no  BIGINT   request
--   chunk_no    INTEGER  number in the stream, from 0
--   src_ns      BIGINT   [ns] time on the file's own clock; null when only gaps are known
--   gap_ns      BIGINT   [ns] since the chunk before, or since submission; only without src_ns
--   tokens      INTEGER  tokens in the chunk (1 unless the client says more)
select
    cast(null as integer) as source_id,
    cast(null as bigint) as request_no,
    cast(null as integer) as chunk_no,
    cast(null as bigint) as src_ns,
    cast(null as bigint) as gap_ns,
    cast(null as integer) as tokens
where false
