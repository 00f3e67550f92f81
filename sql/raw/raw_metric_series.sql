-- what:  Distinct metric series.
-- grain: one row per series
-- key:   source_id, series_id
-- columns:
--   source_id  INTEGER  file the row came from
--   series_id  INTEGER  number in the file, from 0
--   name       VARCHAR  metric name as exposed; CSV columns are mapped to the engine's metric name
--   kind       VARCHAR  counter, gauge, histogram or unknown
--   engine     VARCHAR  engine or rank label, '0' when none
--   model      VARCHAR  model_name label
--   instance   VARCHAR  instance or pod label
--   le         DOUBLE   upper bound of a histogram bucket (inf for +Inf), null otherwise
--   label      VARCHAR  remaining label that tells series of one name apart (reason, source, transfer_type, finished_reason), as k=v
select
    cast(null as integer) as source_id,
    cast(null as integer) as series_id,
    cast(null as varchar) as name,
    cast(null as varchar) as kind,
    cast(null as varchar) as engine,
    cast(null as varchar) as model,
    cast(null as varchar) as instance,
    cast(null as double) as le,
    cast(null as varchar) as label
where false
