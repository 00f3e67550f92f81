-- what:  What each token stream looked like as a whole.
-- grain: one row per request
-- key:   source_id, request_no
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica_id      VARCHAR  engine replica
--   source_id       INTEGER  client file
--   request_no      BIGINT   request in the file
--   chunk_count     BIGINT   chunks
--   zero_gap_count  BIGINT   gaps below 0.1 ms: chunks that arrived together
--   median_gap_ns   BIGINT   [ns] median gap
--   longest_gap_ns  BIGINT   [ns] longest gap
--   first_ns        BIGINT   [ns] first token
--   last_ns         BIGINT   [ns] last token
select
    any_value(level) as level,
    any_value(replica_id) as replica_id,
    source_id,
    request_no,
    count(*) as chunk_count,
    count(*) filter (where gap_ns < 100000) as zero_gap_count,
    cast(median(gap_ns) as bigint) as median_gap_ns,
    max(gap_ns) as longest_gap_ns,
    min(ts_ns) as first_ns,
    max(ts_ns) as last_ns
from int_token_arrivals
group by source_id, request_no
