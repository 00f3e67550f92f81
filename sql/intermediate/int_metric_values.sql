-- what:  Values of the metrics that models read, with names and times.
-- grain: one row per scrape and series
-- key:   source_id, series_id, scrape_no
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica_id      VARCHAR  engine replica
--   source_id       INTEGER  metrics file; of files that continue each other the first
--   series_id       INTEGER  series in the file, or in the files that continue each other
--   name            VARCHAR  metric name as exposed
--   label           VARCHAR  label that tells series of one name apart
--   le              DOUBLE   upper bound of a histogram bucket
--   value           DOUBLE   value
--   scrape_no       BIGINT   scrape, numbered on from file to file
--   ts_ns           BIGINT   [ns] run clock
--   scrape_dur_ns   BIGINT   [ns] how long the scrape took
--   uncertainty_ns  BIGINT   [ns] of the clock
-- notes: metric_roles, cache_metrics and the gauges of vLLM's KV offloading are read; most of a page is not. Untimed scrapes carry no place on the run clock and are left out. The instance that a server of metrics adds to each series tells replicas apart only where a level has several: the log of a lone engine does not know it.
with

instances as (

    select
        sources.level,
        count(distinct series.instance) > 1 as has_several
    from raw_metric_series as series
    inner join stg_sources as sources on series.source_id = sources.source_id
    where series.name != 'process_start_time_seconds'
    group by sources.level

),

chains as (

    select
        source_id,
        chain_id,
        first_no,
        count(*) over (partition by chain_id) > 1 as is_continued
    from int_files_chained
    where kind = 'scrapes'

),

read_names as (

    select name from metric_roles
    union
    select name from cache_metrics

),

read_series as (

    select
        series.source_id,
        series.series_id,
        chains.chain_id,
        chains.first_no,
        case
            when not chains.is_continued then series.series_id
            -- files number their series as they find them
            else
                dense_rank() over (
                    partition by chains.chain_id
                    order by
                        series.name, series.engine, series.instance, series.model, series.label,
                        series.le, series.copy_no
                )
        end as chain_series_id,
        series.name,
        series.label,
        series.le,
        coalesce(sources.replica || '/', '')
        || case when instances.has_several then coalesce(series.instance || '/', '') else '' end
        || coalesce(series.engine, '0') as replica_id
    from (
        select
            *,
            row_number() over (
                partition by source_id, name, engine, instance, model, label, le order by series_id
            ) as copy_no
        from raw_metric_series
        where
            name in (select read_names.name from read_names)
            or regexp_matches(name, '^vllm:(simple_)?kv_offload')
    ) as series
    inner join stg_sources as sources on series.source_id = sources.source_id
    inner join chains on series.source_id = chains.source_id
    left join instances on sources.level is not distinct from instances.level

)

select
    scrapes.level,
    series.replica_id,
    series.chain_id as source_id,
    cast(series.chain_series_id as integer) as series_id,
    series.name,
    series.label,
    series.le,
    samples.value,
    samples.scrape_no + series.first_no as scrape_no,
    scrapes.ts_ns,
    scrapes.scrape_dur_ns,
    scrapes.uncertainty_ns
from raw_metric_samples as samples
inner join read_series as series
    on samples.source_id = series.source_id and samples.series_id = series.series_id
inner join stg_metrics__scrapes as scrapes
    on samples.source_id = scrapes.source_id and samples.scrape_no = scrapes.scrape_no
where scrapes.is_timed
