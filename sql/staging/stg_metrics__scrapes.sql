-- what:  Scrapes on the run clock.
-- grain: one row per scrape
-- key:   source_id, scrape_no
-- columns:
--   level           VARCHAR  level of a sweep
--   replica         VARCHAR  replica of the file, null when there is one
--   source_id       INTEGER  metrics file
--   scrape_no       BIGINT   number in the file
--   is_timed        BOOLEAN  whether the time is known
--   ts_ns           BIGINT   [ns] end of the scrape on the run clock: values are read just before the answer
--   scrape_dur_ns   BIGINT   [ns] how long the scrape took, 0 when unknown
--   uncertainty_ns  BIGINT   [ns] of the source's clock; null when it is not tied to the run clock
select
    sources.level,
    sources.replica,
    entries.source_id,
    entries.scrape_no,
    entries.is_timed,
    coalesce(entries.end_src_ns, entries.src_ns) + sources.offset_ns as ts_ns,
    coalesce(entries.end_src_ns - entries.src_ns, 0) as scrape_dur_ns,
    sources.uncertainty_ns
from raw_metric_scrapes as entries
inner join stg_sources as sources on entries.source_id = sources.source_id
