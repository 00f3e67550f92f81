-- what:  Facts about model, engine, GPU and limits as a file states them.
-- grain: one row per source, scope, name and line
-- key:   source_id, line_no, scope, name
-- columns:
--   source_id  INTEGER  file the row came from
--   line_no    BIGINT   line in the file, from 1
--   scope      VARCHAR  rank, replica or '' when the fact is the engine's
--   name       VARCHAR  canonical name (num_gpu_blocks, max_num_seqs, kv_heads ...)
--   value      VARCHAR  value as text in the unit given
--   unit       VARCHAR  bytes, tokens, blocks, ratio, s, or null
-- notes: names are listed in pipeline/kvcliff/readers/README.md; prompts, keys and command lines never enter.
select
    cast(null as integer) as source_id,
    cast(null as bigint) as line_no,
    cast(null as varchar) as scope,
    cast(null as varchar) as name,
    cast(null as varchar) as value,
    cast(null as varchar) as unit
where false
