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
--   comparable_offset_ns  BIGINT  [ns] the same, null for a source that is not tied to the run clock beside files of its level that are
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
    clocks.uncertainty_ns,
    case
        when
            clocks.uncertainty_ns is not null
            or not coalesce(
                bool_or(
                    sources.role in ('log', 'metrics', 'trace', 'client')
                    and clocks.uncertainty_ns is not null
                ) over (partition by sources.level),
                false
            )
            then coalesce(clocks.offset_ns, 0)
    end as comparable_offset_ns
from sources
left join clocks on sources.source_id = clocks.source_id
