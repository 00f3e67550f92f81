-- what:  NVTX ranges with a recognised text, on the run clock.
-- grain: one row per range
-- key:   source_id, range_no
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  engine replica
--   source_id   INTEGER  trace file
--   range_no    BIGINT   number in the file
--   process_id  UBIGINT  process key
--   thread_id   BIGINT   thread that began it
--   domain      VARCHAR  NVTX domain, '' for the default
--   name        VARCHAR  range text of the allow-list
--   is_nested   BOOLEAN  begun and ended by one thread, so launches inside it belong to it
--   is_open     BOOLEAN  never ended in the capture
--   payload     BIGINT   integer payload
--   start_ns    BIGINT   [ns] start, run clock
--   end_ns      BIGINT   [ns] end, run clock
select
    sources.level,
    coalesce(sources.replica, '0') as replica_id,
    ranges.source_id,
    ranges.range_no,
    ranges.process_id,
    ranges.thread_id,
    ranges.domain,
    ranges.name,
    ranges.end_thread_id is null as is_nested,
    ranges.is_open,
    ranges.payload,
    ranges.start_src_ns + sources.offset_ns as start_ns,
    ranges.end_src_ns + sources.offset_ns as end_ns
from raw_nvtx_ranges as ranges
inner join stg_sources as sources on ranges.source_id = sources.source_id
where ranges.name is not null
