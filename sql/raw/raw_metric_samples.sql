-- what:  Values of metric series.
-- grain: one row per scrape and series
-- key:   source_id, series_id, scrape_no
-- columns:
--   source_id  INTEGER  file the row came from
--   scrape_no  BIGINT   scrape the value belongs to
--   series_id  INTEGER  series
--   value      DOUBLE   value; NaN and sentinels are dropped
select
    cast(null as integer) as source_id,
    cast(null as bigint) as scrape_no,
    cast(null as integer) as series_id,
    cast(null as double) as value
where false
