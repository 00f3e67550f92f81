-- what:  NVTX ranges of a GPU trace whose text names an engine step or stage.
-- grain: one row per range
-- key:   source_id, range_no
-- columns:
--   source_id      INTEGER  file the row came from
--   range_no       BIGINT   number in the file, from 0
--   process_id     UBIGINT  process key
--   thread_id      BIGINT   thread
--   end_thread_id  BIGINT   thread that ended it, null when the same
--   domain         VARCHAR  NVTX domain, '' for the default
--   name           VARCHAR  range text of the allow-list (steps, stages, patterns of run.toml)
--   style          VARCHAR  push_pop or start_end
--   is_open        BOOLEAN  never ended in the capture
--   payload        BIGINT   integer payload, null when none
--   start_src_ns   BIGINT   [ns] start
--   end_src_ns     BIGINT   [ns] end
-- notes: ranges with other texts are counted in raw_capture_facts (nvtx_range_count), their texts stay in the file.
select
    cast(null as integer) as source_id,
    cast(null as bigint) as range_no,
    cast(null as ubigint) as process_id,
    cast(null as bigint) as thread_id,
    cast(null as bigint) as end_thread_id,
    cast(null as varchar) as domain,
    cast(null as varchar) as name,
    cast(null as varchar) as style,
    cast(null as boolean) as is_open,
    cast(null as bigint) as payload,
    cast(null as bigint) as start_src_ns,
    cast(null as bigint) as end_src_ns
where false
