-- what:  Kernel names with their family and what they say about the phase.
-- grain: one row per source and name
-- key:   source_id, name_id
-- columns:
--   source_id    INTEGER  trace file
--   name_id      INTEGER  kernel name in the file
--   kernel_id    INTEGER  name in the run; equal names of several files share it
--   name         VARCHAR  demangled name
--   short_name   VARCHAR  short name
--   family       VARCHAR  kernel family
--   wide_family  VARCHAR  family of a launch whose grid is wider than max_grid_x
--   phase        VARCHAR  prefill or decode when the name (and grid) occur in that phase only
--   max_grid_x   BIGINT   grid size up to which family and phase hold; null when the grid does not matter
--   long_query   VARCHAR  what proves queries of more tokens than decode has: 'name', 'grid' (when wider than max_grid_x) or null
--   is_main      BOOLEAN  computes attention itself (not a reduction or a helper)
--   is_part      BOOLEAN  decode attention of a backend that launches prefill and decode of a batch apart
-- notes: the first rule of kernel_family_patterns that fits decides.
with

names as (

    select * from stg_nsys__kernel_names

),

patterns as (

    select * from kernel_family_patterns

),

matched as (

    select
        names.source_id,
        names.name_id,
        min(patterns.rule_no) as rule_no
    from names
    cross join patterns
    where
        case
            when not contains(lower(names.name), patterns.word) then false
            when patterns.pattern is null then true
            else regexp_matches(lower(names.name), patterns.pattern)
        end
    group by names.source_id, names.name_id

)

select
    names.source_id,
    names.name_id,
    cast(dense_rank() over (order by names.name) as integer) as kernel_id,
    names.name,
    names.short_name,
    coalesce(patterns.family, 'other') as family,
    case
        when patterns.max_grid_x is not null then 'attention_unknown'
        else coalesce(patterns.family, 'other')
    end as wide_family,
    patterns.phase,
    cast(patterns.max_grid_x as bigint) as max_grid_x,
    patterns.long_query,
    coalesce(patterns.is_main, false) as is_main,
    coalesce(patterns.is_part, false) as is_part
from names
left join matched on names.source_id = matched.source_id and names.name_id = matched.name_id
left join patterns on matched.rule_no = patterns.rule_no
