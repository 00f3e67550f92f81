-- what:  The five numbers to watch, over the whole run.
-- grain: one row per indicator
-- key:   indicator
-- alone: which indicators are unknown
-- columns:
--   indicator  VARCHAR  hbm_bandwidth, sm_active, kv_occupancy, token_latency or swap_count
--   unit       VARCHAR  unit of value and threshold
--   state      VARCHAR  ok, high (at or above the threshold) or unknown
--   meaning    VARCHAR  what the value is, or why it is unknown
--   origin     VARCHAR  mart and counter it comes from, null when unknown
--   value      DOUBLE   in the unit, null when unknown
--   threshold  DOUBLE   in the unit
-- notes: always five rows. Bandwidth comes from DRAM counters only: the memory utilisation of
--        nvidia-smi is the share of time with any memory traffic, the one of the GPU the share of
--        time with any kernel. Devices: the busiest one by its mean. Latency: a high quantile over
--        time buckets of the tail in each; where only rates are known, their median (running
--        requests and throughput of one bucket need not belong together).
with

samples as (

    select * from gpu_samples where value between 0 and 200

),

dram_reads_and_writes as (

    select
        device_id,
        ts_ns,
        sum(value) as dram_pct
    from samples
    where counter in ('dram_read_pct', 'dram_write_pct')
    group by device_id, ts_ns
    having count(distinct counter) = 2

),

busy_devices as (

    select
        'hbm_bandwidth' as indicator,
        'gpu_samples: ' || counter as origin,
        1 as preference,
        favg(value) / 100 as value
    from samples
    where counter = 'dram_active_pct'
    group by device_id, counter
    union all
    select
        'hbm_bandwidth' as indicator,
        'gpu_samples: dram_read_pct + dram_write_pct' as origin,
        2 as preference,
        favg(dram_pct) / 100 as value
    from dram_reads_and_writes
    group by device_id
    union all
    select
        'sm_active' as indicator,
        'gpu_samples: ' || counter as origin,
        1 as preference,
        favg(value) / 100 as value
    from samples
    where counter = 'sm_active_pct'
    group by device_id, counter

),

fullest as (

    select
        'kv_occupancy' as indicator,
        'kv_occupancy: ' || arg_max(origin, (used_ratio, -ts_ns, origin)) as origin,
        1 as preference,
        max(used_ratio) as value
    from kv_occupancy
    where tier = 'hbm' and used_ratio is not null
    having count(*) > 0

),

gaps as (

    select
        origin,
        coalesce(itl_p99_ms, itl_p50_ms) is null as is_rate,
        coalesce(itl_p99_ms, itl_p50_ms, 1e3 * running_count / nullif(tokens_per_s, 0)) as gap_ms
    from token_latency

),

ranked_gaps as (

    select
        origin,
        is_rate,
        gap_ms,
        row_number() over (partition by origin, is_rate order by gap_ms) as gap_no,
        count(*) over (partition by origin, is_rate) as gap_count,
        case when is_rate then 0.5 else threshold('indicator_bucket_quantile') end as quantile
    from gaps
    where gap_ms is not null

),

slow_gaps as (

    select
        'token_latency' as indicator,
        'token_latency: ' || origin || if(is_rate, ' (median of rates)', '') as origin,
        case
            when not is_rate and origin = 'tokens' then 1
            when not is_rate and origin = 'histogram' then 2
            when not is_rate then 3
            when origin = 'counters' then 4
            else 5
        end as preference,
        min(gap_ms) as value
    from ranked_gaps
    where gap_no >= quantile * gap_count
    group by origin, is_rate

),

swaps as (

    select
        'swap_count' as indicator,
        'swap_points' as origin,
        1 as preference,
        cast(count(*) filter (where class in ('confirmed', 'probable')) as double) as value
    from swap_points
    having
        exists (select 1 from kv_occupancy)
        or exists (select 1 from engine_events)
        or count(*) > 0

),

readings as (

    select * from busy_devices
    union all
    select * from fullest
    union all
    select * from slow_gaps
    union all
    select * from swaps

),

best as (

    select
        indicator,
        arg_max(origin, (-preference, value)) as origin,
        arg_max(value, (-preference, value)) as value
    from readings
    group by indicator

),

promised as (

    select max(number) as itl_ms
    from int_settings_effective
    where name = 'slo_itl_ms' and level is null

),

questions as (

    select
        'hbm_bandwidth' as indicator,
        1 as indicator_no,
        'ratio' as unit,
        threshold('hbm_bandwidth_high_ratio') as threshold,
        'mean share of the peak DRAM bandwidth on the busiest GPU' as meaning,
        'no DRAM counters: sample GPU metrics in the trace, or DCGM DRAM_ACTIVE' as reason
    union all
    select
        'sm_active' as indicator,
        2 as indicator_no,
        'ratio' as unit,
        threshold('sm_active_high_ratio') as threshold,
        'mean share of busy multiprocessors on the busiest GPU' as meaning,
        'no SM counters: sample GPU metrics in the trace, or DCGM SM_ACTIVE' as reason
    union all
    select
        'kv_occupancy' as indicator,
        3 as indicator_no,
        'ratio' as unit,
        threshold('kv_high_ratio') as threshold,
        'highest KV occupancy of the engine' as meaning,
        'no KV occupancy: scrape the metrics of the engine, or keep its log' as reason
    union all
    select
        'token_latency' as indicator,
        4 as indicator_no,
        'ms' as unit,
        coalesce(promised.itl_ms, threshold('itl_high_ms')) as threshold,
        case
            when promised.itl_ms is null
                then 'slow end of the time between tokens, against a default limit'
            else 'slow end of the time between tokens, against the promised one'
        end as meaning,
        'no token times: record them in the client, or scrape the metrics of the engine' as reason
    from promised
    union all
    select
        'swap_count' as indicator,
        5 as indicator_no,
        'episodes' as unit,
        threshold('swap_count_high') as threshold,
        'confirmed and probable swap points' as meaning,
        'neither KV occupancy nor engine events were recorded' as reason

)

select
    questions.indicator,
    questions.unit,
    case
        when best.value is null then 'unknown'
        when best.value >= questions.threshold then 'high'
        else 'ok'
    end as state,
    case when best.value is null then questions.reason else questions.meaning end as meaning,
    best.origin,
    best.value,
    questions.threshold
from questions
left join best on questions.indicator = best.indicator
order by questions.indicator_no
