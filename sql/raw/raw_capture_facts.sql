-- what:  Allow-listed facts about a GPU trace capture.
-- grain: one row per source, scope and name
-- key:   source_id, scope, name
-- columns:
--   source_id  INTEGER  file the row came from
--   scope      VARCHAR  '' for the capture, else the device or process
--   name       VARCHAR  canonical name (utc_epoch_ns, schema_version, product_version, graph_mode, gpu_name, hbm_bytes_per_s, ...)
--   value      VARCHAR  value as text
select
    cast(null as integer) as source_id,
    cast(null as varchar) as scope,
    cast(null as varchar) as name,
    cast(null as varchar) as value
where false
