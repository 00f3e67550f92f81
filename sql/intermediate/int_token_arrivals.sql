-- what:  Token arrivals of measured requests with the gap before each.
-- grain: one row per request and chunk
-- key:   source_id, request_no, chunk_no
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  engine replica
--   source_id   INTEGER  client file
--   request_no  BIGINT   request in the file
--   chunk_no    INTEGER  number in the stream
--   tokens      INTEGER  tokens in the chunk
--   gap_ns      BIGINT   [ns] since the previous chunk of the stream, null for the first
--   ts_ns       BIGINT   [ns] run clock
-- notes: gaps are chunk gaps: equal to ITL only where a chunk is one token.
select
    requests.level,
    coalesce(requests.replica, replicas.replica_id, '0') as replica_id,
    tokens.source_id,
    tokens.request_no,
    tokens.chunk_no,
    tokens.tokens,
    tokens.ts_ns - lag(tokens.ts_ns) over (
        partition by tokens.source_id, tokens.request_no order by tokens.chunk_no
    ) as gap_ns,
    tokens.ts_ns
from stg_client__tokens as tokens
inner join stg_client__requests as requests
    on tokens.source_id = requests.source_id and tokens.request_no = requests.request_no
left join int_client_replicas as replicas on requests.level is not distinct from replicas.level
where not requests.is_warmup
