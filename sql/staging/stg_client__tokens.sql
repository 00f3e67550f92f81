-- what:  Token arrivals of load clients on the run clock.
-- grain: one row per request and chunk
-- key:   source_id, request_no, chunk_no
-- columns:
--   source_id   INTEGER  client file
--   request_no  BIGINT   request
--   chunk_no    INTEGER  number in the stream
--   tokens      INTEGER  tokens in the chunk
--   gap_ns      BIGINT   [ns] since the row before; null for the first of a stream
--   is_in_turn  BOOLEAN  the row before is the chunk before of the stream, or belongs to an earlier one
--   ts_ns       BIGINT   [ns] run clock
-- notes: readers write streams whole and in order; gap_ns holds only where is_in_turn does for every row.
select
    entries.source_id,
    entries.request_no,
    entries.chunk_no,
    entries.tokens,
    case
        when
            entries.request_no = entries.previous_request_no
            and entries.source_id = entries.previous_source_id
            then entries.src_ns - entries.previous_src_ns
    end as gap_ns,
    coalesce(
        entries.source_id > entries.previous_source_id
        or (
            entries.source_id = entries.previous_source_id
            and (
                entries.request_no > entries.previous_request_no
                or (
                    entries.request_no = entries.previous_request_no
                    and entries.chunk_no >= entries.previous_chunk_no
                )
            )
        ),
        true
    ) as is_in_turn,
    entries.src_ns + sources.comparable_offset_ns as ts_ns
from (
    select
        *,
        lag(source_id) over () as previous_source_id,
        lag(request_no) over () as previous_request_no,
        lag(chunk_no) over () as previous_chunk_no,
        lag(src_ns) over () as previous_src_ns
    from raw_client_tokens
) as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
