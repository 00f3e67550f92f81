-- what:  Single events of serving logs on the run clock.
-- grain: one row per event line
-- key:   source_id, line_no
-- columns:
--   level             VARCHAR  level of a sweep, null when the run has one level
--   replica_id        VARCHAR  engine replica
--   source_id         INTEGER  log file
--   line_no           BIGINT   line in the file
--   kind              VARCHAR  kind of event
--   mode              VARCHAR  recompute, swap, retract or null
--   request_id        VARCHAR  request, when named
--   cumulative_count  BIGINT   cumulative count printed with the event
--   tokens            BIGINT   tokens concerned
--   bytes             BIGINT   bytes concerned
--   event_count       BIGINT   requests or blocks concerned, null when not stated
--   duration_ms       DOUBLE   [ms] duration printed with the event
--   ts_ns             BIGINT   [ns] run clock
--   uncertainty_ns    BIGINT   [ns] of the source's clock; null when it is not tied to the run clock
select
    sources.level,
    coalesce(sources.replica || '/', '') || coalesce(entries.engine, '0') as replica_id,
    entries.source_id,
    entries.line_no,
    entries.kind,
    entries.mode,
    entries.request_id,
    entries.cumulative_count,
    entries.tokens,
    entries.bytes,
    entries.event_count,
    entries.duration_ms,
    entries.src_ns + sources.offset_ns as ts_ns,
    sources.uncertainty_ns
from raw_log_events as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
