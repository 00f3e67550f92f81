-- what:  What the histograms of servers counted between their first and last scrape, by bound.
-- grain: one row per histogram of a metrics file and bound, and one for its sum
-- key:   group_no, le
-- columns:
--   group_no       BIGINT   number of the histogram
--   level          VARCHAR  level of a sweep, null when the run has one level
--   source_id      INTEGER  metrics file
--   replica_id     VARCHAR  engine replica
--   instance       VARCHAR  server that a server of metrics scraped, null when none is named
--   model          VARCHAR  model the histogram is about, null when none is named
--   name           VARCHAR  histogram, as the engine calls it
--   label          VARCHAR  label that tells histograms of one name apart, null when there is none
--   le             DOUBLE   upper bound, null for the sum
--   restart_count  BIGINT   times the counts fell: only what came after the last one is counted
--   rise           DOUBLE   observations at or below the bound, or their sum
-- notes: order of scrapes alone counts, so that untimed ones serve as well. Two series of one bound (names of two versions) count once.
with

parts as (

    select
        series.source_id,
        series.series_id,
        regexp_replace(series.name, '_(bucket|sum)$', '') as name,
        series.engine,
        series.instance,
        series.model,
        series.label,
        series.le,
        dense_rank() over (
            order by
                series.source_id, regexp_replace(series.name, '_(bucket|sum)$', ''),
                series.engine, series.instance, series.model, series.label
        ) as group_no
    from raw_metric_series as series
    where
        series.kind = 'histogram'
        and (
            (series.name like '%\_bucket' escape '\' and series.le is not null)
            or series.name like '%\_sum' escape '\'
        )

),

totals as (

    select
        parts.group_no,
        samples.scrape_no,
        samples.value < lag(samples.value) over (
            partition by samples.source_id, samples.series_id order by samples.scrape_no
        ) as is_restart
    from raw_metric_samples as samples
    inner join parts
        on samples.source_id = parts.source_id and samples.series_id = parts.series_id
    where isinf(parts.le)

),

restarts as (

    select
        group_no,
        count(*) filter (where is_restart) as restart_count,
        coalesce(max(scrape_no) filter (where is_restart), min(scrape_no)) as first_no
    from totals
    group by group_no

),

rises as (

    select
        parts.group_no,
        parts.le,
        any_value(restarts.restart_count) as restart_count,
        max(samples.value)
        - case when any_value(restarts.restart_count) > 0 then 0 else min(samples.value) end
            as rise
    from raw_metric_samples as samples
    inner join parts
        on samples.source_id = parts.source_id and samples.series_id = parts.series_id
    inner join restarts on parts.group_no = restarts.group_no
    where samples.scrape_no >= restarts.first_no
    group by parts.group_no, parts.le

),

described as (

    select distinct
        group_no,
        source_id,
        name,
        engine,
        instance,
        model,
        label
    from parts

)

select
    rises.group_no,
    sources.level,
    described.source_id,
    coalesce(sources.replica || '/', '') || coalesce(described.engine, '0') as replica_id,
    described.instance,
    described.model,
    described.name,
    described.label,
    rises.le,
    rises.restart_count,
    rises.rise
from rises
inner join described on rises.group_no = described.group_no
inner join stg_sources as sources on described.source_id = sources.source_id
