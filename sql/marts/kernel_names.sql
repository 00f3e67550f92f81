-- what:  Names of the kernels of the run.
-- grain: one row per name
-- key:   kernel_id
-- columns:
--   kernel_id   INTEGER  name in the run
--   name        VARCHAR  demangled name
--   short_name  VARCHAR  short name
--   family      VARCHAR  kernel family by name; a wide grid can make an attention kernel attention_unknown
with

named as (

    select * from int_kernels_named

)

select
    kernel_id,
    name,
    min(short_name) as short_name,
    family
from named
group by kernel_id, name, family
order by kernel_id
