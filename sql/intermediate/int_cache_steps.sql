-- what:  Tokens looked up and hit between two scrapes of one cache counter.
-- grain: one row per series and scrape but the first
-- key:   source_id, series_id, scrape_no
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  engine replica
--   source_id   INTEGER  metrics file
--   series_id   INTEGER  series in the file
--   tier        VARCHAR  hbm or external (the engine does not say which outer tier)
--   role        VARCHAR  lookup or hit
--   tokens      BIGINT   [tokens] counted since the previous scrape
--   scrape_no   BIGINT   scrape that ends the interval
--   ts_ns       BIGINT   [ns] previous scrape
--   end_ns      BIGINT   [ns] this scrape
-- notes: a counter that falls was reset by a restart: what it shows then is all new. Of two
--        spellings of one fact, and of two files that hold it, one is taken.
with

counted as (

    select
        metrics.level,
        metrics.replica_id,
        metrics.source_id,
        metrics.series_id,
        metrics.value,
        metrics.scrape_no,
        metrics.ts_ns,
        names.tier,
        names.role,
        names.preference
    from int_metric_values as metrics
    inner join cache_metrics as names on metrics.name = names.name
    where names.role in ('lookup', 'hit')

),

offered as (

    select
        level,
        replica_id,
        tier,
        source_id,
        preference,
        count(distinct role) as role_count,
        count(*) as row_count
    from counted
    group by level, replica_id, tier, source_id, preference

),

preferred as (

    select
        level,
        replica_id,
        tier,
        arg_min(
            (source_id, preference),
            (-role_count, preference, -row_count, source_id)
        ) as choice
    from offered
    group by level, replica_id, tier

),

chosen as (

    select counted.*
    from counted
    inner join preferred
        on
            counted.level is not distinct from preferred.level
            and counted.replica_id = preferred.replica_id
            and counted.tier = preferred.tier
            and (counted.source_id, counted.preference) = preferred.choice

),

neighboured as (

    select
        *,
        lag(value) over scrapes as previous_value,
        lag(ts_ns) over scrapes as previous_ts_ns
    from chosen
    window scrapes as (partition by source_id, series_id order by ts_ns, scrape_no)

)

select
    level,
    replica_id,
    source_id,
    series_id,
    tier,
    role,
    cast(
        round(case when value >= previous_value then value - previous_value else value end)
        as bigint
    ) as tokens,
    scrape_no,
    previous_ts_ns as ts_ns,
    ts_ns as end_ns
from neighboured
where previous_value is not null
