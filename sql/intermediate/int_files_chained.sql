-- what:  Files of one kind that continue each other, as a rotated log or an interrupted scraper leaves them.
-- grain: one row per kind of rows and file
-- key:   kind, source_id
-- columns:
--   kind       VARCHAR  scrapes, stats, iterations or events
--   source_id  INTEGER  file
--   chain_id   INTEGER  first of the files that continue each other; the file itself when they overlap or it stands alone
--   first_no   BIGINT   added to its scrape or line numbers, so that they rise along the chain
-- notes: files of one level and replica of which none begins before the one before has ended, by their clocks. What a seam separates is compared all the same.
with

entries as (

    select
        'scrapes' as kind,
        source_id,
        scrape_no as entry_no,
        ts_ns
    from stg_metrics__scrapes
    where is_timed
    union all
    select
        'stats' as kind,
        source_id,
        line_no as entry_no,
        ts_ns
    from stg_log__stats
    union all
    select
        'iterations' as kind,
        source_id,
        line_no as entry_no,
        ts_ns
    from stg_log__iterations
    union all
    select
        'events' as kind,
        source_id,
        line_no as entry_no,
        ts_ns
    from stg_log__events

),

spans as (

    select
        entries.kind,
        entries.source_id,
        any_value(sources.level) as level,
        any_value(sources.replica) as replica,
        least(coalesce(any_value(sources.uncertainty_ns), 0), 1000000000) as slack_ns,
        max(entries.entry_no) as last_no,
        min(entries.ts_ns) as start_ns,
        max(entries.ts_ns) as end_ns
    from entries
    inner join stg_sources as sources on entries.source_id = sources.source_id
    group by entries.kind, entries.source_id

),

placed as (

    select
        *,
        max(end_ns - slack_ns) over (
            partition by kind, level, replica order by start_ns, end_ns, source_id
            rows between unbounded preceding and 1 preceding
        ) as earlier_end_ns,
        sum(last_no + 1) over (
            partition by kind, level, replica order by start_ns, end_ns, source_id
            rows between unbounded preceding and 1 preceding
        ) as earlier_count,
        first_value(source_id) over (
            partition by kind, level, replica order by start_ns, end_ns, source_id
            rows between unbounded preceding and unbounded following
        ) as first_source_id
    from spans

)

select
    kind,
    source_id,
    case when is_apart then first_source_id else source_id end as chain_id,
    case when is_apart then earlier_count else 0 end as first_no
from (
    select
        * replace (cast(coalesce(earlier_count, 0) as bigint) as earlier_count),
        -- the stamps of a log are whole seconds, so that two parts can share one
        bool_and(
            coalesce(
                start_ns + slack_ns > earlier_end_ns
                or (kind != 'scrapes' and start_ns + slack_ns = earlier_end_ns),
                true
            )
        ) over (partition by kind, level, replica) as is_apart
    from placed
) as chains
