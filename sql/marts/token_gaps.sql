-- what:  Long silences inside token streams.
-- grain: one row per request and long gap
-- key:   source_id, request_no, start_ns
-- columns:
--   level               VARCHAR  level of a sweep, null when the run has one level
--   replica_id          VARCHAR  engine replica
--   source_id           INTEGER  client file
--   request_no          BIGINT   request in the file
--   request_id          VARCHAR  client's request id
--   gap_ms              DOUBLE   [ms] silence
--   median_itl_ms       DOUBLE   [ms] median gap of the stream
--   gap_ratio           DOUBLE   gap over the stream's median gap
--   others_token_count  BIGINT   chunks that other streams received in the middle three fifths of the gap
--   kv_used_ratio       DOUBLE   rolling KV occupancy when the gap began, null when unknown
--   is_stall            BOOLEAN  other streams went on meanwhile
--   start_ns            BIGINT   [ns] last token before the gap
--   end_ns              BIGINT   [ns] first token after it
-- notes: the thresholds stall_min_ms and stall_median_factor say what is long; a gap in which nobody progresses is a long step, not a stall.
with

-- streams without a long gap, nearly all of them, are left out before their chunks are looked at
suspects as (

    select
        source_id,
        request_no,
        median_gap_ns,
        greatest(
            threshold('stall_min_ms') * 1e6, threshold('stall_median_factor') * median_gap_ns
        ) as least_gap_ns
    from int_token_streams
    where
        longest_gap_ns >= threshold('stall_min_ms') * 1e6
        and longest_gap_ns >= threshold('stall_median_factor') * median_gap_ns

),

long_gaps as (

    select
        arrivals.level,
        arrivals.replica_id,
        arrivals.source_id,
        arrivals.request_no,
        arrivals.gap_ns,
        streams.median_gap_ns,
        arrivals.ts_ns - arrivals.gap_ns as start_ns,
        arrivals.ts_ns as end_ns,
        arrivals.ts_ns - arrivals.gap_ns + arrivals.gap_ns // 5 as middle_start_ns,
        arrivals.ts_ns - arrivals.gap_ns // 5 as middle_end_ns
    from int_token_arrivals as arrivals
    inner join suspects as streams
        on arrivals.source_id = streams.source_id and arrivals.request_no = streams.request_no
    where arrivals.gap_ns >= streams.least_gap_ns

),

counted_arrivals as (

    select
        level,
        replica_id,
        ts_ns,
        max(arrival_no) as arrival_no
    from (
        select
            level,
            replica_id,
            ts_ns,
            row_number() over (partition by level, replica_id order by ts_ns) as arrival_no
        from int_token_arrivals
        where exists (select 1 from long_gaps)
    ) as numbered
    group by level, replica_id, ts_ns

),

occupancy as (

    select
        level,
        replica_id,
        ts_ns,
        max(kv_rolling_ratio) as kv_rolling_ratio
    from int_kv_pressure
    where kv_rolling_ratio is not null
    group by level, replica_id, ts_ns

),

with_first as (

    select
        long_gaps.*,
        coalesce(before_middle.arrival_no, 0) as first_arrival_no
    from long_gaps
    asof left join counted_arrivals as before_middle
        on
            coalesce(long_gaps.level, '') = coalesce(before_middle.level, '')
            and long_gaps.replica_id = before_middle.replica_id
            and long_gaps.middle_start_ns >= before_middle.ts_ns

),

with_last as (

    select
        with_first.*,
        coalesce(until_middle.arrival_no, 0) as last_arrival_no
    from with_first
    asof left join counted_arrivals as until_middle
        on
            coalesce(with_first.level, '') = coalesce(until_middle.level, '')
            and with_first.replica_id = until_middle.replica_id
            and with_first.middle_end_ns >= until_middle.ts_ns

),

with_occupancy as (

    select
        with_last.*,
        occupancy.kv_rolling_ratio
    from with_last
    asof left join occupancy
        on
            coalesce(with_last.level, '') = coalesce(occupancy.level, '')
            and with_last.replica_id = occupancy.replica_id
            and with_last.start_ns >= occupancy.ts_ns

)

select
    gaps.level,
    gaps.replica_id,
    gaps.source_id,
    gaps.request_no,
    requests.request_id,
    gaps.gap_ns / 1e6 as gap_ms,
    gaps.median_gap_ns / 1e6 as median_itl_ms,
    gaps.gap_ns / nullif(gaps.median_gap_ns, 0) as gap_ratio,
    gaps.last_arrival_no - gaps.first_arrival_no as others_token_count,
    gaps.kv_rolling_ratio as kv_used_ratio,
    gaps.last_arrival_no - gaps.first_arrival_no >= 2 as is_stall,
    gaps.start_ns,
    gaps.end_ns
from with_occupancy as gaps
inner join stg_client__requests as requests
    on gaps.source_id = requests.source_id and gaps.request_no = requests.request_no
