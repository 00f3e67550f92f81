-- what:  Profiled kernels with their family and the phase that their name or NVTX range tells.
-- grain: one row per profiled kernel
-- key:   source_id, kernel_no
-- columns:
--   source_id  INTEGER  file
--   kernel_no  BIGINT   profiled kernel
--   family     VARCHAR  kernel family; range or graph for results that cover several kernels
--   phase      VARCHAR  prefill, decode or mixed, null when neither name nor range tells
-- notes: the first rule of kernel_family_patterns that fits decides; a wide grid makes some attention
--        kernels attention_unknown, as in traces. A range's text wins over a kernel's name.
with

kernels as (

    select * from stg_ncu__kernels

),

names as (

    select distinct name from kernels

),

matched as (

    select
        names.name,
        min(patterns.rule_no) as rule_no
    from names
    cross join kernel_family_patterns as patterns
    where
        case
            when not contains(lower(names.name), patterns.word) then false
            when patterns.pattern is null then true
            else regexp_matches(lower(names.name), patterns.pattern)
        end
    group by names.name

),

placed as (

    select
        kernels.source_id,
        kernels.kernel_no,
        kernels.scope,
        lower(coalesce(kernels.nvtx_path, '')) as nvtx,
        patterns.family,
        patterns.phase,
        coalesce(kernels.grid_x > patterns.max_grid_x, false) as is_wide
    from kernels
    left join matched on kernels.name = matched.name
    left join kernel_family_patterns as patterns on matched.rule_no = patterns.rule_no

)

select
    source_id,
    kernel_no,
    case
        when scope <> 'kernel' then scope
        when is_wide then 'attention_unknown'
        else coalesce(family, 'other')
    end as family,
    case
        when contains(nvtx, 'mixed') then 'mixed'
        when contains(nvtx, 'decode') and not contains(nvtx, 'prefill') then 'decode'
        when contains(nvtx, 'prefill') and not contains(nvtx, 'decode') then 'prefill'
        when not is_wide then phase
    end as phase
from placed
