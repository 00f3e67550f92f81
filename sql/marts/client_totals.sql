-- what:  Totals and percentiles that a load client printed about a whole load.
-- grain: one row per file, load and name
-- key:   source_id, load_no, name
-- columns:
--   level      VARCHAR  level of a sweep, null when the run has one level
--   source_id  INTEGER  client file
--   load_no    INTEGER  result object in the file, from 0
--   name       VARCHAR  canonical name with unit (completed, output_tokens_per_s, p99_itl_ms ...)
--   value      DOUBLE   value in the unit of the name
-- notes: the client's own arithmetic, for runs without request rows; times of the end of a load are left out. A load that another file of the level states too (the table that a client prints and the result that it writes: every figure of the one is that of the other, rounded to two decimals) is listed once, from the file that states more.
with

totals as (

    select * from stg_client__summary
    where name not like '%\_ns' escape '\'

),

loads as (

    select
        source_id,
        load_no,
        count(*) as name_count
    from totals
    group by source_id, load_no

),

shared as (

    select
        totals.source_id,
        totals.load_no,
        others.source_id as other_source_id,
        others.load_no as other_load_no,
        count(*) as same_count,
        bool_or(totals.name = 'duration_s') as has_duration
    from totals
    inner join totals as others
        on
            totals.level is not distinct from others.level
            and totals.source_id <> others.source_id
            and totals.name = others.name
            and abs(totals.value - others.value) <= 0.00501
    group by totals.source_id, totals.load_no, others.source_id, others.load_no

),

-- the duration of a load is never that of another to two decimals while all its other figures are as well
copies as (

    select distinct
        shared.source_id,
        shared.load_no
    from shared
    inner join loads on shared.source_id = loads.source_id and shared.load_no = loads.load_no
    inner join loads as others
        on shared.other_source_id = others.source_id and shared.other_load_no = others.load_no
    where
        shared.has_duration
        and shared.same_count = loads.name_count
        and (
            others.name_count > loads.name_count
            or (others.name_count = loads.name_count and others.source_id < loads.source_id)
        )

)

select
    totals.level,
    totals.source_id,
    totals.load_no,
    totals.name,
    totals.value
from totals
left join copies on totals.source_id = copies.source_id and totals.load_no = copies.load_no
where copies.source_id is null
order by totals.source_id, totals.load_no, totals.name
