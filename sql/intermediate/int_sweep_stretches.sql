-- what:  Stretches of serving data that hold one load: as many requests in flight, or one max_num_seqs between restarts.
-- grain: one row per stretch
-- key:   origin, level
-- needs: int_kv_samples
-- columns:
--   origin        VARCHAR  limit (the log states another max_num_seqs after each restart) or running
--   level         VARCHAR  label: that limit, or requests in flight
--   level_number  DOUBLE   that limit, or requests in flight; null for a limit that was never reached
--   start_ns      BIGINT   [ns] start
--   end_ns        BIGINT   [ns] end
--   is_sweep      BOOLEAN  the stretches of this origin are levels of a sweep
-- notes: files that have a level are left out. In flight are running, waiting and swapped requests: a
--        client that keeps a number of users busy holds them constant, a burst or an open load does not. Such
--        stretches are a sweep when they cover nearly all busy time, with several loads far enough apart that
--        mostly rise or mostly fall: traffic that happens to stand still for a while is none. Of stretches with
--        one load only the longest is kept.
with

samples as (

    select
        replica_id,
        origin,
        ts_ns,
        interval_ns,
        running_count,
        coalesce(waiting_count, 0) as waiting_count,
        running_count + coalesce(waiting_count, 0) + coalesce(swapped_count, 0) as in_flight_count
    from int_kv_samples
    where level is null and running_count is not null

),

best_origins as (

    select
        replica_id,
        origin
    from samples
    group by replica_id, origin
    qualify row_number() over (partition by replica_id order by count(*) desc, origin asc) = 1

),

chosen as (

    select samples.*
    from samples
    inner join best_origins
        on samples.replica_id = best_origins.replica_id and samples.origin = best_origins.origin

),

widths as (

    select
        cast(
            greatest(threshold('sweep_bucket_s') * 1000000000, 2 * max(interval_ns)) as bigint
        ) as bucket_ns,
        count(distinct replica_id) as replica_count
    from chosen

),

replica_buckets as (

    select
        chosen.replica_id,
        chosen.ts_ns // widths.bucket_ns as bucket_no,
        any_value(widths.bucket_ns) as bucket_ns,
        any_value(widths.replica_count) as replica_count,
        median(chosen.in_flight_count) as in_flight_count
    from chosen
    cross join widths
    group by chosen.replica_id, bucket_no

),

buckets as (

    select
        bucket_no,
        any_value(bucket_ns) as bucket_ns,
        sum(in_flight_count) as in_flight_count
    from replica_buckets
    group by bucket_no
    having count(*) = any_value(replica_count) and sum(in_flight_count) >= 1

),

marked as (

    select
        *,
        coalesce(
            bucket_no = lag(bucket_no) over (order by bucket_no) + 1
            and abs(ln(in_flight_count / lag(in_flight_count) over (order by bucket_no)))
            <= ln(1 + threshold('sweep_flat_ratio')), false
        ) as is_same
    from buckets

),

numbered as (

    select
        *,
        sum(cast(not is_same as integer)) over (
            order by bucket_no rows unbounded preceding
        ) as island_no
    from marked

),

plateaus as (

    select
        island_no,
        round(median(in_flight_count)) as level_number,
        count(*) as bucket_count,
        -- The load may have changed within the first and the last bucket.
        (min(bucket_no) + 1) * any_value(bucket_ns) as start_ns,
        max(bucket_no) * any_value(bucket_ns) as end_ns
    from numbered
    group by island_no
    having
        count(*) >= threshold('sweep_min_buckets')
        and max(in_flight_count)
        <= pow(1 + threshold('sweep_flat_ratio'), 2) * min(in_flight_count)

),

turns as (

    select
        *,
        sign(level_number - lag(level_number) over (order by island_no))
        <> sign(lead(level_number) over (order by island_no) - level_number) as is_turn
    from plateaus

),

running_sweeps as (

    select
        coalesce(
            count(distinct level_number) >= 2 * threshold('knee_side_levels')
            and max(level_number) >= threshold('sweep_range_ratio') * min(level_number)
            and sum(bucket_count)
            >= threshold('sweep_held_ratio') * (select count(*) from buckets)
            and count(*) filter (where is_turn)
            <= threshold('sweep_turn_ratio') * count(*), false
        ) as is_sweep
    from turns

),

statements as (

    select
        settings.source_id,
        settings.line_no,
        settings.number,
        lag(settings.number) over (
            partition by settings.source_id order by settings.line_no
        ) as previous_number
    from stg_settings as settings
    inner join stg_sources as sources on settings.source_id = sources.source_id
    where settings.name = 'max_num_seqs' and settings.number > 0 and sources.level is null

),

starts as (

    select
        source_id,
        number,
        line_no as first_line,
        lead(line_no) over (partition by source_id order by line_no) as next_line
    from statements
    where number is distinct from previous_number

),

limits as (

    select
        starts.source_id,
        starts.number,
        starts.first_line,
        min(stats.ts_ns) as start_ns,
        max(stats.ts_ns) + 1 as end_ns,
        max(stats.running_count) >= (1 - threshold('sweep_flat_ratio')) * starts.number
        or max(stats.waiting_count) > 0 as is_reached
    from starts
    inner join stg_log__stats as stats
        on
            starts.source_id = stats.source_id
            and starts.first_line <= stats.line_no
            and (starts.next_line is null or starts.next_line > stats.line_no)
    where stats.running_count > 0
    group by starts.source_id, starts.number, starts.first_line

),

limit_sweeps as (

    select count(distinct limits.number) > 1 and count(other.source_id) = 0 as is_sweep
    from limits
    left join limits as other
        on
            (limits.source_id <> other.source_id or limits.first_line <> other.first_line)
            and limits.end_ns > other.start_ns
            and limits.start_ns < other.end_ns

)

select
    'running' as origin,
    cast(cast(plateaus.level_number as bigint) as varchar) as level,
    plateaus.level_number,
    plateaus.start_ns,
    plateaus.end_ns,
    running_sweeps.is_sweep
from plateaus
cross join running_sweeps
qualify
    row_number() over (
        partition by plateaus.level_number
        order by plateaus.bucket_count desc, plateaus.start_ns asc
    ) = 1
union all
select
    'limit' as origin,
    cast(cast(limits.number as bigint) as varchar) as level,
    case when limits.is_reached then limits.number end as level_number,
    limits.start_ns,
    limits.end_ns,
    coalesce(limit_sweeps.is_sweep, false) as is_sweep
from limits
cross join limit_sweeps
qualify
    row_number() over (
        partition by limits.number
        order by limits.end_ns - limits.start_ns desc, limits.start_ns asc
    ) = 1
