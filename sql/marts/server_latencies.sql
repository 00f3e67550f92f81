-- what:  Latencies and sizes that the server's histograms state, over all its scrapes.
-- grain: one row per metrics file, replica, histogram, model and label
-- key:   level, source_id, replica_id, instance, model, name, label
-- columns:
--   level              VARCHAR  level of a sweep, null when the run has one level
--   source_id          INTEGER  metrics file
--   replica_id         VARCHAR  engine replica
--   instance           VARCHAR  server that a server of metrics scraped, null when none is named
--   model              VARCHAR  model the histogram is about, null when none is named
--   name               VARCHAR  histogram, as the engine calls it: its unit is the one in the name (seconds, tokens)
--   label              VARCHAR  label that tells histograms of one name apart, null when there is none
--   observation_count  BIGINT   observations between the first and the last scrape
--   restart_count      BIGINT   times the counts fell: only what came after the last one is counted
--   mean_value         DOUBLE   mean, null when no sum is stated
--   p50_value          DOUBLE   median, interpolated inside its bound
--   p90_value          DOUBLE   interpolated as well
--   p99_value          DOUBLE   interpolated as well
-- notes: counts are differences of the first and the last scrape, so that what was before the first is left out; one scrape tells nothing. Linear interpolation inside a bound as in PromQL; inside the first bound its upper end is given, there is no resolution below, and beyond the last bound that one.
with

bounded as (

    select
        group_no,
        le,
        rise as count_within,
        max(rise) over (partition by group_no) as total_count,
        lag(rise, 1, 0.0) over in_order as count_below,
        lag(le, 1, 0.0) over in_order as bound_below
    from int_histogram_rises
    where le is not null
    window in_order as (partition by group_no order by le)

),

wanted as (

    select unnest([0.5, 0.9, 0.99]) as quantile

),

placed as (

    select
        bounded.group_no,
        wanted.quantile,
        bounded.total_count,
        case
            when isinf(bounded.le) then bounded.bound_below
            when bounded.bound_below = 0 then bounded.le
            else
                bounded.bound_below + (bounded.le - bounded.bound_below)
                * (wanted.quantile * bounded.total_count - bounded.count_below)
                / nullif(bounded.count_within - bounded.count_below, 0)
        end as value
    from bounded
    cross join wanted
    where bounded.total_count > 0 and bounded.count_within >= wanted.quantile * bounded.total_count
    qualify
        row_number() over (partition by bounded.group_no, wanted.quantile order by bounded.le) = 1

),

quantiles as (

    select
        group_no,
        cast(round(max(total_count)) as bigint) as observation_count,
        max(value) filter (where quantile = 0.5) as p50_value,
        max(value) filter (where quantile = 0.9) as p90_value,
        max(value) filter (where quantile = 0.99) as p99_value
    from placed
    group by group_no

),

described as (

    select
        group_no,
        level,
        source_id,
        replica_id,
        instance,
        model,
        name,
        label,
        restart_count,
        max(rise) filter (where le is null) as sum_of_values
    from int_histogram_rises
    group by all

)

select
    described.level,
    described.source_id,
    described.replica_id,
    described.instance,
    described.model,
    described.name,
    described.label,
    quantiles.observation_count,
    described.restart_count,
    described.sum_of_values / quantiles.observation_count as mean_value,
    quantiles.p50_value,
    quantiles.p90_value,
    quantiles.p99_value
from quantiles
inner join described on quantiles.group_no = described.group_no
