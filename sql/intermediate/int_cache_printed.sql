-- what:  Cache hit rates that engines print or expose as a ready ratio.
-- grain: one row per level, replica, tier, origin and sample
-- key:   level, replica_id, tier, origin, source_id, sample_no
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  engine replica
--   source_id   INTEGER  file; of files that continue each other the first
--   tier        VARCHAR  hbm, host or external
--   origin      VARCHAR  metrics or log
--   hit_ratio   DOUBLE   0-1 as printed
--   sample_no   BIGINT   scrape or line, numbered on from file to file
--   ts_ns       BIGINT   [ns] previous sample, or this one when it is the first
--   end_ns      BIGINT   [ns] this sample
-- notes: the window differs (vLLM V1: about the last 1,000 requests; V0: since the start), so
--        printed ratios are never differenced. SGLang writes 0 on decode reports: its zeros are
--        dropped.
with

exposed as (

    select
        metrics.level,
        metrics.replica_id,
        metrics.source_id,
        names.tier,
        'metrics' as origin,
        metrics.value as hit_ratio,
        metrics.scrape_no as sample_no,
        metrics.ts_ns as end_ns
    from int_metric_values as metrics
    inner join cache_metrics as names on metrics.name = names.name
    where
        names.role = 'ratio'
        and metrics.value between 0 and 1
        and not (metrics.name like 'sglang:%' and metrics.value = 0)

),

lines as (

    select
        stats.*,
        chains.chain_id,
        stats.line_no + chains.first_no as chain_line_no
    from stg_log__stats as stats
    inner join int_files_chained as chains
        on stats.source_id = chains.source_id and chains.kind = 'stats'

),

printed as (

    select
        level,
        replica_id,
        chain_id as source_id,
        'hbm' as tier,
        'log' as origin,
        prefix_hit_ratio as hit_ratio,
        chain_line_no as sample_no,
        ts_ns as end_ns
    from lines
    where prefix_hit_ratio is not null
    union all
    select
        level,
        replica_id,
        chain_id as source_id,
        'external' as tier,
        'log' as origin,
        external_hit_ratio as hit_ratio,
        chain_line_no as sample_no,
        ts_ns as end_ns
    from lines
    where external_hit_ratio is not null

),

together as (

    select * from exposed
    union all
    select * from printed

),

ratios as (

    select
        level,
        replica_id,
        source_id,
        tier,
        origin,
        max(hit_ratio) as hit_ratio,
        sample_no,
        max(end_ns) as end_ns
    from together
    group by level, replica_id, source_id, tier, origin, sample_no

)

select
    level,
    replica_id,
    source_id,
    tier,
    origin,
    hit_ratio,
    sample_no,
    coalesce(
        lag(end_ns) over (
            partition by source_id, level, replica_id, tier order by end_ns, sample_no
        ),
        end_ns
    ) as ts_ns,
    end_ns
from ratios
