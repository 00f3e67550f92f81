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
-- notes: gaps are chunk gaps: equal to ITL only where a chunk is one token. Where a file lists streams in disorder, all rows are sorted, which takes three times as long.
with

turns as (

    select coalesce(bool_and(is_in_turn), true) as is_sorted from stg_client__tokens

),

gaps as (

    select
        source_id,
        request_no,
        chunk_no,
        tokens,
        gap_ns,
        ts_ns
    from stg_client__tokens
    where (select turns.is_sorted from turns)
    union all
    select
        source_id,
        request_no,
        chunk_no,
        tokens,
        ts_ns - lag(ts_ns) over (
            partition by source_id, request_no order by chunk_no
        ) as gap_ns,
        ts_ns
    from stg_client__tokens
    where not (select turns.is_sorted from turns)

)

select
    requests.level,
    coalesce(requests.replica, replicas.replica_id, '0') as replica_id,
    gaps.source_id,
    gaps.request_no,
    gaps.chunk_no,
    gaps.tokens,
    gaps.gap_ns,
    gaps.ts_ns
from gaps
inner join stg_client__requests as requests
    on gaps.source_id = requests.source_id and gaps.request_no = requests.request_no
left join int_client_replicas as replicas on requests.level is not distinct from replicas.level
where not requests.is_warmup
