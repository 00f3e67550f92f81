-- what:  Metric values with their names and times.
-- grain: one row per scrape and series
-- key:   source_id, series_id, scrape_no
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica_id      VARCHAR  engine replica
--   source_id       INTEGER  metrics file
--   series_id       INTEGER  series in the file
--   name            VARCHAR  metric name as exposed
--   label           VARCHAR  label that tells series of one name apart
--   le              DOUBLE   upper bound of a histogram bucket
--   value           DOUBLE   value
--   scrape_no       BIGINT   scrape
--   ts_ns           BIGINT   [ns] run clock
--   scrape_dur_ns   BIGINT   [ns] how long the scrape took
--   uncertainty_ns  BIGINT   [ns] of the clock
-- notes: untimed scrapes carry no place on the run clock and are left out. The instance that a server of metrics adds to each series tells replicas apart only where a level has several: the log of a lone engine does not know it.
with

instances as (

    select
        sources.level,
        count(distinct series.instance) > 1 as has_several
    from raw_metric_series as series
    inner join stg_sources as sources on series.source_id = sources.source_id
    where series.name != 'process_start_time_seconds'
    group by sources.level

)

select
    scrapes.level,
    coalesce(scrapes.replica || '/', '')
    || case when instances.has_several then coalesce(series.instance || '/', '') else '' end
    || coalesce(series.engine, '0') as replica_id,
    samples.source_id,
    samples.series_id,
    series.name,
    series.label,
    series.le,
    samples.value,
    samples.scrape_no,
    scrapes.ts_ns,
    scrapes.scrape_dur_ns,
    scrapes.uncertainty_ns
from raw_metric_samples as samples
inner join raw_metric_series as series
    on samples.source_id = series.source_id and samples.series_id = series.series_id
inner join stg_metrics__scrapes as scrapes
    on samples.source_id = scrapes.source_id and samples.scrape_no = scrapes.scrape_no
left join instances on scrapes.level is not distinct from instances.level
where scrapes.is_timed
