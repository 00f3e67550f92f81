-- what:  Facts that two sources of a run state on their own, and whether they agree within their definitions.
-- grain: one row per level, replica, topic and pair of sources
-- key:   level, replica_id, topic, first_source, second_source
-- columns:
--   level            VARCHAR  level of a sweep, null when the run has one level
--   replica_id       VARCHAR  engine replica; for kv_capacity the scope of the setting, for generated_tokens '' (all)
--   topic            VARCHAR  kv_capacity, kv_used, running, preemptions or generated_tokens
--   unit             VARCHAR  tokens, ratio, requests or preemptions
--   first_source     VARCHAR  who states the first value, in words
--   second_source    VARCHAR  who states the second value, in words
--   first_value      DOUBLE   what the first states: a total, or the median of what differs
--   second_value     DOUBLE   what the second states
--   compared_count   BIGINT   moments compared; 1 for totals
--   differing_count  BIGINT   moments at which the two exclude each other
--   is_disagreement  BOOLEAN  they cannot both be right
--   start_ns         BIGINT   [ns] first moment that differs, null for settings
--   end_ns           BIGINT   [ns] last moment that differs, null for settings
-- notes: a statistics line is held against all scrapes that may have shown the same moment, so that it must lie outside all of them to differ. KV shares are compared only where both count the same blocks. Capacities that differ by a whole factor are definitions (ranks, cache groups). A log may print fewer preemptions than there were, never more.
with

clocked as (

    select source_id
    from stg_sources
    where uncertainty_ns <= threshold('clock_uncertainty_wide_s') * 1e9

),

samples as (

    select samples.*
    from int_kv_samples as samples
    inner join clocked on samples.source_id = clocked.source_id
    where samples.origin in ('log', 'metrics')

),

comparable as (

    -- a line that sums over engines has no counterpart among their gauges
    select
        level,
        list(distinct replica_id order by replica_id) filter (where origin = 'log')
        = list(distinct replica_id order by replica_id) filter (where origin = 'metrics')
            as has_same_replicas
    from samples
    group by level

),

spaced as (

    select
        level,
        replica_id,
        semantics,
        running_count,
        kv_used_ratio,
        ts_ns,
        uncertainty_ns + greatest(coalesce(interval_ns, 0), 1000000000) as reach_ns
    from samples
    where origin = 'metrics'

),

bracketed as (

    select
        lines.level,
        lines.replica_id,
        lines.ts_ns,
        any_value(lines.running_count) as line_running,
        min(spaced.running_count) as lowest_running,
        max(spaced.running_count) as highest_running,
        any_value(lines.kv_used_ratio) as line_kv,
        min(spaced.kv_used_ratio) filter (where spaced.semantics = lines.semantics) as lowest_kv,
        max(spaced.kv_used_ratio) filter (where spaced.semantics = lines.semantics) as highest_kv
    from samples as lines
    inner join comparable on lines.level is not distinct from comparable.level
    inner join spaced
        on
            lines.replica_id = spaced.replica_id
            and lines.level is not distinct from spaced.level
            and lines.ts_ns
            between spaced.ts_ns - spaced.reach_ns - 500000000
            and spaced.ts_ns + spaced.reach_ns + 500000000
    where lines.origin = 'log' and comparable.has_same_replicas
    group by lines.level, lines.replica_id, lines.source_id, lines.sample_no, lines.ts_ns
    having count(*) >= 2

),

moments as (

    select
        level,
        replica_id,
        'running' as topic,
        'requests' as unit,
        line_running as line_value,
        -- nearest of what the scrapes show (greatest and least pass over nulls)
        case
            when lowest_running is not null
                then least(greatest(line_running, lowest_running), highest_running)
        end as scrape_value,
        abs(line_value - scrape_value) > greatest(
            threshold('agreement_running_count'),
            threshold('agreement_running_ratio') * greatest(line_value, scrape_value)
        ) as is_different,
        ts_ns
    from bracketed
    union all
    select
        level,
        replica_id,
        'kv_used' as topic,
        'ratio' as unit,
        line_kv as line_value,
        case
            when lowest_kv is not null then least(greatest(line_kv, lowest_kv), highest_kv)
        end as scrape_value,
        abs(line_value - scrape_value) > threshold('agreement_kv_ratio') as is_different,
        ts_ns
    from bracketed

),

over_time as (

    select
        level,
        replica_id,
        topic,
        unit,
        'statistics lines of the log' as first_source,
        'scraped metrics' as second_source,
        coalesce(median(line_value) filter (where is_different), median(line_value)) as first_value,
        coalesce(median(scrape_value) filter (where is_different), median(scrape_value))
            as second_value,
        count(*) as compared_count,
        count(*) filter (where is_different) as differing_count,
        count(*) >= threshold('agreement_min_samples')
        and count(*) filter (where is_different)
        >= threshold('agreement_differing_ratio') * count(*) as is_disagreement,
        min(ts_ns) filter (where is_different) as start_ns,
        max(ts_ns) filter (where is_different) as end_ns
    from moments
    where line_value is not null and scrape_value is not null
    group by level, replica_id, topic, unit

),

counters as (

    select
        metrics.level,
        metrics.replica_id,
        metrics.source_id,
        roles.role,
        metrics.ts_ns,
        sum(metrics.value) - lag(sum(metrics.value)) over (
            partition by metrics.source_id, metrics.replica_id, roles.role
            order by metrics.ts_ns, metrics.scrape_no
        ) as rise
    from int_metric_values as metrics
    inner join metric_roles as roles on metrics.name = roles.name
    inner join clocked on metrics.source_id = clocked.source_id
    where roles.role in ('preemption_total', 'generation_tokens_total') and metrics.le is null
    group by
        metrics.level, metrics.replica_id, metrics.source_id, roles.role,
        metrics.ts_ns, metrics.scrape_no

),

counted as (

    -- a counter that falls was reset: what it counted until the next scrape is unknown
    select
        level,
        replica_id,
        source_id,
        role,
        sum(rise) as total,
        min(rise) < 0 as has_reset,
        min(ts_ns) as start_ns,
        max(ts_ns) as end_ns
    from counters
    group by level, replica_id, source_id, role

),

logged as (

    select
        counted.level,
        counted.replica_id,
        counted.total,
        coalesce(sum(actions.event_count), 0) as logged_total,
        counted.start_ns,
        counted.end_ns
    from counted
    inner join int_engine_actions as actions
        on
            counted.replica_id = actions.replica_id
            and counted.level is not distinct from actions.level
            and actions.low_ns > counted.start_ns
            -- the counter moves when the victim speaks again
            and actions.high_ns < counted.end_ns - threshold('counter_delay_s') * 1e9
    inner join comparable on counted.level is not distinct from comparable.level
    where
        counted.role = 'preemption_total'
        and not counted.has_reset
        and actions.kind in ('preempt', 'retract')
        and actions.proof = 'log'
        and comparable.has_same_replicas
    group by
        counted.level, counted.replica_id, counted.source_id, counted.total,
        counted.start_ns, counted.end_ns

),

generated as (

    select
        level,
        sum(total) as total,
        max(start_ns) as start_ns,
        min(end_ns) as end_ns
    from counted
    where role = 'generation_tokens_total'
    group by level
    having not bool_or(has_reset) and count(*) = count(distinct replica_id)

),

received as (

    select
        generated.level,
        generated.total,
        generated.start_ns,
        generated.end_ns,
        sum(requests.output_tokens) as client_total
    from generated
    inner join stg_client__requests as requests
        on generated.level is not distinct from requests.level
    where
        requests.arrival_ns >= generated.start_ns
        and requests.end_ns <= generated.end_ns
        and requests.uncertainty_ns <= threshold('clock_uncertainty_wide_s') * 1e9
    group by generated.level, generated.total, generated.start_ns, generated.end_ns

),

totals as (

    select
        level,
        replica_id,
        'preemptions' as topic,
        'preemptions' as unit,
        'lines of the log' as first_source,
        'scraped counter' as second_source,
        logged_total as first_value,
        total as second_value,
        logged_total > total
        + greatest(1, threshold('agreement_count_ratio') * total) as is_disagreement,
        start_ns,
        end_ns
    from logged
    union all
    select
        level,
        '' as replica_id,
        'generated_tokens' as topic,
        'tokens' as unit,
        'load clients' as first_source,
        'scraped counters' as second_source,
        client_total as first_value,
        total as second_value,
        client_total > total * (1 + threshold('agreement_token_ratio')) as is_disagreement,
        start_ns,
        end_ns
    from received

),

facts as (

    select
        facts.level,
        facts.source_id,
        facts.scope,
        facts.origin,
        facts.name,
        facts.number
    from int_settings_ranked as facts
    where
        facts.name in ('kv_cache_tokens', 'num_gpu_blocks', 'block_size')
        and facts.number > 0

),

capacities as (

    select
        level,
        source_id,
        scope,
        origin as stated_by,
        number as tokens
    from facts
    where name = 'kv_cache_tokens'
    union
    select
        blocks.level,
        blocks.source_id,
        blocks.scope,
        blocks.origin || ' (blocks x block size)' as stated_by,
        blocks.number * sizes.number as tokens
    from facts as blocks
    inner join facts as sizes
        on
            blocks.level is not distinct from sizes.level
            and blocks.scope = sizes.scope
            and (
                blocks.source_id = sizes.source_id
                or not exists (
                    select 1
                    from facts as own
                    where own.name = 'block_size' and own.source_id = blocks.source_id
                )
            )
    where blocks.name = 'num_gpu_blocks' and sizes.name = 'block_size'

),

capacity_pairs as (

    select
        firsts.level,
        firsts.scope,
        firsts.stated_by as first_source,
        seconds.stated_by as second_source,
        firsts.tokens as first_tokens,
        seconds.tokens as second_tokens,
        greatest(firsts.tokens, seconds.tokens) / least(firsts.tokens, seconds.tokens) as factor,
        abs(factor - round(factor)) > threshold('agreement_capacity_ratio') * factor as is_different
    from capacities as firsts
    inner join capacities as seconds
        on
            firsts.level is not distinct from seconds.level
            and firsts.scope = seconds.scope
            and firsts.stated_by < seconds.stated_by

),

capacity as (

    select
        level,
        scope as replica_id,
        'kv_capacity' as topic,
        'tokens' as unit,
        first_source,
        second_source,
        arg_max(first_tokens, (is_different, factor)) as first_value,
        arg_max(second_tokens, (is_different, factor)) as second_value,
        count(*) as compared_count,
        count(*) filter (where is_different) as differing_count,
        bool_and(is_different) as is_disagreement
    from capacity_pairs
    group by level, scope, first_source, second_source

)

select
    level,
    replica_id,
    topic,
    unit,
    first_source,
    second_source,
    first_value,
    second_value,
    compared_count,
    differing_count,
    is_disagreement,
    start_ns,
    end_ns
from over_time
union all
select
    level,
    replica_id,
    topic,
    unit,
    first_source,
    second_source,
    cast(first_value as double) as first_value,
    cast(second_value as double) as second_value,
    1 as compared_count,
    cast(is_disagreement as bigint) as differing_count,
    is_disagreement,
    start_ns,
    end_ns
from totals
union all
select
    level,
    replica_id,
    topic,
    unit,
    first_source,
    second_source,
    first_value,
    second_value,
    compared_count,
    differing_count,
    is_disagreement,
    cast(null as bigint) as start_ns,
    cast(null as bigint) as end_ns
from capacity
