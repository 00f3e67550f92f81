-- what:  Files with profiled kernels and the collection settings that hold for them.
-- grain: one row per source with kernels
-- key:   source_id
-- needs: stg_ncu__sessions
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   source_id            INTEGER  file
--   page                 VARCHAR  report, raw, details or summary
--   cache_control        VARCHAR  all or none, null when unknown
--   clock_control        VARCHAR  base or none, null when unknown
--   replay_mode          VARCHAR  kernel, application, range or app-range, null when unknown
--   metric_set           VARCHAR  set that was asked for, null when unknown
--   read_kernel_count    BIGINT   profiled kernels that could be read
--   stated_kernel_count  BIGINT   profiled kernels that the file says it holds, null when it does not say
--   has_options          BOOLEAN  the settings are known
--   is_refused           BOOLEAN  the driver refused access to the counters
--   is_cut               BOOLEAN  the file ends too early or is broken
--   is_copy              BOOLEAN  a better page of the same report is in the run
-- notes: settings come from the file itself, else from another file of the same report (equal path up to
--        the first point), else from the only session page of the folder.
with

sessions as (

    select * from stg_ncu__sessions

),

signatures as (

    select
        source_id,
        md5(string_agg(name, '|' order by kernel_no)) as signature
    from stg_ncu__kernels
    group by source_id

),

counted as (

    select
        sessions.*,
        signatures.signature
    from sessions
    left join signatures on sessions.source_id = signatures.source_id
    where sessions.page <> 'session'

),

offered as (

    select
        counted.source_id,
        others.source_id as other_id,
        case
            when others.source_id = counted.source_id then 1
            when others.stem = counted.stem then 2
            else 3
        end as distance,
        count(case when others.page = 'session' then 1 end) over (
            partition by counted.source_id, others.stem = counted.stem
        ) as page_count
    from counted
    inner join sessions as others
        on
            others.has_options
            and (
                counted.source_id = others.source_id
                or counted.stem = others.stem
                or (others.page = 'session' and counted.folder = others.folder)
            )

),

chosen as (

    select
        source_id,
        arg_min(other_id, (distance, other_id)) as other_id
    from offered
    where distance < 3 or page_count = 1
    group by source_id

),

copies as (

    select distinct counted.source_id
    from counted
    inner join counted as better
        on
            counted.stem = better.stem
            and counted.page_rank > better.page_rank
            and (counted.page = 'summary' or counted.signature = better.signature)

)

select
    counted.level,
    counted.source_id,
    counted.page,
    settings.cache_control,
    settings.clock_control,
    settings.replay_mode,
    settings.metric_set,
    counted.read_kernel_count,
    counted.stated_kernel_count,
    settings.source_id is not null as has_options,
    counted.is_refused,
    counted.is_cut,
    copies.source_id is not null as is_copy
from counted
left join chosen on counted.source_id = chosen.source_id
left join sessions as settings on chosen.other_id = settings.source_id
left join copies on counted.source_id = copies.source_id
