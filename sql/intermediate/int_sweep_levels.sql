-- what:  Levels of a sweep, from folders, a client's tags, one client file per level or what the engine shows.
-- grain: one row per level
-- key:   level
-- columns:
--   level         VARCHAR  label
--   sweep         VARCHAR  sweep of its own that the level belongs to: folder of its label; null when there is one sweep
--   origin        VARCHAR  folder, tag, file, limit or running: what tells the levels apart
--   source_id     INTEGER  client file of a tag or file level, else null
--   load_no       INTEGER  result object in that file, else null
--   tag           VARCHAR  tag of its requests, else null
--   level_number  DOUBLE   number in the label, the client's concurrency limit, max_num_seqs or requests in flight
--   start_ns      BIGINT   [ns] first arrival, or start of the stretch; null for folders and where nothing tells
--   end_ns        BIGINT   [ns] last end
-- notes: kernel counters alone make no level: they have no throughput. A tag is a level only when its requests overlap with no other tag and its number is about
--        the number of its requests in flight. A client file without times lies where the engine has as many
--        requests in flight. A folder that holds levels is none itself. Limits and requests in flight: int_sweep_stretches. A run with one level has no row.
with

folders as (

    select
        level,
        'folder' as origin,
        cast(null as integer) as source_id,
        cast(null as integer) as load_no,
        cast(null as varchar) as tag,
        max(level_number) as level_number,
        cast(null as bigint) as start_ns,
        cast(null as bigint) as end_ns
    from stg_sources
    where
        level is not null and role is distinct from 'counters'
        and not exists (
            select 1
            from stg_sources as parts
            where starts_with(parts.level, stg_sources.level || '/')
        )
    group by level

),

tagged as (

    select
        source_id,
        tag,
        try_cast(
            list_last(regexp_extract_all(tag, '[0-9]+(?:[.][0-9]+)?')) as double
        ) as level_number,
        min(arrival_ns) as start_ns,
        max(end_ns) as end_ns,
        count(*) as request_count,
        sum(end_ns - arrival_ns)
        / nullif(max(end_ns) - min(arrival_ns), 0) as in_flight_count
    from stg_client__requests
    where
        tag is not null and level is null and not is_warmup
        and arrival_ns is not null and end_ns is not null
    group by source_id, tag

),

tags as (

    select
        own.tag as level,
        'tag' as origin,
        own.source_id,
        cast(null as integer) as load_no,
        own.tag,
        own.level_number,
        own.start_ns,
        own.end_ns,
        count(*) over (partition by own.source_id) as level_count
    from tagged as own
    where
        own.request_count >= threshold('sweep_min_requests')
        and abs(own.in_flight_count - own.level_number)
        <= threshold('sweep_tag_error_ratio') * own.level_number
        and not exists (
            select 1
            from tagged as other
            where
                other.source_id = own.source_id
                and other.tag <> own.tag
                and other.start_ns < own.end_ns
                and own.start_ns < other.end_ns
        )

),

best_tags as (

    select
        level,
        origin,
        source_id,
        load_no,
        tag,
        level_number,
        start_ns,
        end_ns
    from tags
    qualify
        source_id = first_value(source_id) over (
            order by level_count desc, source_id asc, tag asc
        )

),

limits as (

    select
        entries.source_id,
        entries.load_no,
        entries.value as level_number,
        count(*) over (partition by entries.source_id) as load_count
    from stg_client__summary as entries
    where entries.name = 'max_concurrency' and entries.level is null and entries.value > 0
    qualify
        row_number() over (
            partition by entries.value order by entries.source_id, entries.load_no
        ) = 1

),

spans as (

    select
        source_id,
        min(arrival_ns) as start_ns,
        max(end_ns) as end_ns
    from stg_client__requests
    where not is_warmup
    group by source_id

),

files as (

    select
        cast(cast(limits.level_number as bigint) as varchar) as level,
        'file' as origin,
        limits.source_id,
        limits.load_no,
        cast(null as varchar) as tag,
        limits.level_number,
        coalesce(
            case when limits.load_count = 1 then spans.start_ns end, stretches.start_ns
        ) as start_ns,
        coalesce(case when limits.load_count = 1 then spans.end_ns end, stretches.end_ns)
            as end_ns
    from limits
    left join spans on limits.source_id = spans.source_id
    left join int_sweep_stretches as stretches
        on stretches.origin = 'running' and limits.level_number = stretches.level_number

),

seen as (

    select
        level,
        origin,
        cast(null as integer) as source_id,
        cast(null as integer) as load_no,
        cast(null as varchar) as tag,
        level_number,
        start_ns,
        end_ns
    from int_sweep_stretches
    where is_sweep

),

offers as (

    select
        *,
        1 as preference
    from folders
    union all
    select
        *,
        2 as preference
    from best_tags
    union all
    select
        *,
        3 as preference
    from files
    union all
    select
        *,
        case origin when 'limit' then 4 else 5 end as preference
    from seen

),

counted as (

    select
        *,
        count(*) over (partition by origin) as level_count,
        nullif(regexp_extract(level, '^(.*)/[^/]*$', 1), '') as folder,
        count(*) over (
            partition by origin, regexp_extract(level, '^(.*)/[^/]*$', 1)
        ) as folder_level_count
    from offers

)

select
    level,
    case
        when
            origin = 'folder'
            and min(folder_level_count) over (partition by origin) > 1
            and min(folder) over (partition by origin) < max(folder) over (partition by origin)
            then folder
    end as sweep,
    origin,
    source_id,
    load_no,
    tag,
    level_number,
    start_ns,
    end_ns
from counted
where level_count > 1
qualify preference = min(preference) over ()
