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
-- needs: stg_client__tokens
-- build: view; fifty million rows with their texts take more memory than there is, and the join is cheap
-- notes: gaps are chunk gaps: equal to ITL only where a chunk is one token. Where a file lists streams in disorder, all rows are sorted at each use.
with

streams as (

    select
        requests.level,
        coalesce(requests.replica, matched.replica_id, replicas.replica_id, '0') as replica_id,
        requests.source_id,
        requests.request_no
    from stg_client__requests as requests
    left join int_client_replicas as replicas
        on requests.level is not distinct from replicas.level and replicas.request_no is null
    left join int_client_replicas as matched
        on
            requests.source_id = matched.source_id
            and requests.request_no = matched.request_no
    where not requests.is_warmup

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
    where (select int_token_order.is_sorted from int_token_order)
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
    where not (select int_token_order.is_sorted from int_token_order)

)

select
    streams.level,
    streams.replica_id,
    gaps.source_id,
    gaps.request_no,
    gaps.chunk_no,
    gaps.tokens,
    gaps.gap_ns,
    gaps.ts_ns
from gaps
inner join streams
    on gaps.source_id = streams.source_id and gaps.request_no = streams.request_no
