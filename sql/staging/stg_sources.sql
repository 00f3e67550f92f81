-- what:  Files of the run with their level, replica and clock.
-- grain: one row per source
-- key:   source_id
-- columns:
--   source_id       INTEGER  file
--   path            VARCHAR  path inside the run
--   reader          VARCHAR  reader that loaded it
--   role            VARCHAR  log, metrics, client, trace, counters, device, model or arrivals
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica         VARCHAR  replica, null when the run has one
--   level_number    DOUBLE   number in the level's label, null without one
--   offset_ns       BIGINT   [ns] added to the source's own time to get the run clock
--   uncertainty_ns  BIGINT   [ns] of the offset, relative to the run clock
-- notes: sources without a clock keep offset 0 and uncertainty null; their times are not comparable.
select
    sources.source_id,
    sources.path,
    sources.reader,
    sources.role,
    sources.level,
    sources.replica,
    sources.level_number,
    coalesce(clocks.offset_ns, 0) as offset_ns,
    clocks.uncertainty_ns
from sources
left join clocks on sources.source_id = clocks.source_id
