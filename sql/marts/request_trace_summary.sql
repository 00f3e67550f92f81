-- what:  Rates, lengths and reusable prefixes of each published trace.
-- grain: one row per trace file
-- key:   source_id
-- columns:
--   source_id             INTEGER  trace file
--   path                  VARCHAR  path inside the run
--   request_count         BIGINT   requests
--   failed_count          BIGINT   requests that the trace marks as failed; not in the lengths
--   no_output_count       BIGINT   requests without output that are not marked as failed
--   span_s                DOUBLE   [s] first to last arrival
--   requests_per_s        DOUBLE   [requests/s] requests over the span
--   peak_requests_per_s   DOUBLE   [requests/s] most arrivals in one second of the trace
--   gap_variation         DOUBLE   standard deviation of the gaps between arrivals over their mean (1: Poisson)
--   input_tokens          BIGINT   prompt tokens
--   input_min             BIGINT   [tokens] shortest prompt
--   input_mean            DOUBLE   [tokens]
--   input_p50             DOUBLE   [tokens]
--   input_p90             DOUBLE   [tokens]
--   input_p99             DOUBLE   [tokens]
--   input_max             BIGINT   [tokens] longest prompt
--   output_tokens         BIGINT   generated tokens
--   output_min            BIGINT   [tokens]
--   output_mean           DOUBLE   [tokens]
--   output_p50            DOUBLE   [tokens]
--   output_p90            DOUBLE   [tokens]
--   output_p99            DOUBLE   [tokens]
--   output_max            BIGINT   [tokens]
--   block_count           BIGINT   prefix blocks asked for, null without blocks
--   distinct_block_count  BIGINT   different blocks among them
--   reusable_block_count  BIGINT   leading blocks that an unlimited cache would serve
--   reusable_block_ratio  DOUBLE   [ratio] of all blocks asked for
-- notes: percentiles interpolate between neighbours.
with

arrivals as (

    select * from request_arrivals

),

sources as (

    select
        source_id,
        path
    from stg_sources

),

gaps as (

    select
        source_id,
        arrival_ns
        - lag(arrival_ns) over (partition by source_id order by arrival_ns, request_no) as gap_ns
    from arrivals

),

gap_shapes as (

    select
        source_id,
        round(stddev_pop(gap_ns) / nullif(favg(gap_ns), 0), 9) as gap_variation
    from gaps
    group by source_id

),

seconds as (

    select
        source_id,
        arrival_ns // 1000000000 as second,
        count(*) as arrival_count
    from arrivals
    group by source_id, arrival_ns // 1000000000

),

peaks as (

    select
        source_id,
        cast(max(arrival_count) as double) as peak_requests_per_s
    from seconds
    group by source_id

),

blocks as (

    select
        source_id,
        count(*) as block_count,
        count(distinct block_id) as distinct_block_count
    from int_trace_blocks
    group by source_id

),

totals as (

    select
        source_id,
        count(*) as request_count,
        count(*) filter (where is_failed) as failed_count,
        count(*) filter (where output_tokens = 0 and not is_failed) as no_output_count,
        max(arrival_ns) / 1e9 as span_s,
        cast(sum(input_tokens) filter (where not is_failed) as bigint) as input_tokens,
        min(input_tokens) filter (where not is_failed) as input_min,
        favg(input_tokens) filter (where not is_failed) as input_mean,
        quantile_cont(input_tokens, 0.5) filter (where not is_failed) as input_p50,
        quantile_cont(input_tokens, 0.9) filter (where not is_failed) as input_p90,
        quantile_cont(input_tokens, 0.99) filter (where not is_failed) as input_p99,
        max(input_tokens) filter (where not is_failed) as input_max,
        cast(sum(output_tokens) filter (where not is_failed) as bigint) as output_tokens,
        min(output_tokens) filter (where not is_failed) as output_min,
        favg(output_tokens) filter (where not is_failed) as output_mean,
        quantile_cont(output_tokens, 0.5) filter (where not is_failed) as output_p50,
        quantile_cont(output_tokens, 0.9) filter (where not is_failed) as output_p90,
        quantile_cont(output_tokens, 0.99) filter (where not is_failed) as output_p99,
        max(output_tokens) filter (where not is_failed) as output_max,
        cast(sum(reusable_block_count) as bigint) as reusable_block_count
    from arrivals
    group by source_id

)

select
    totals.source_id,
    sources.path,
    totals.request_count,
    totals.failed_count,
    totals.no_output_count,
    totals.span_s,
    totals.request_count / nullif(totals.span_s, 0) as requests_per_s,
    peaks.peak_requests_per_s,
    gap_shapes.gap_variation,
    totals.input_tokens,
    totals.input_min,
    totals.input_mean,
    totals.input_p50,
    totals.input_p90,
    totals.input_p99,
    totals.input_max,
    totals.output_tokens,
    totals.output_min,
    totals.output_mean,
    totals.output_p50,
    totals.output_p90,
    totals.output_p99,
    totals.output_max,
    blocks.block_count,
    blocks.distinct_block_count,
    totals.reusable_block_count,
    totals.reusable_block_count / nullif(blocks.block_count, 0) as reusable_block_ratio
from totals
inner join sources on totals.source_id = sources.source_id
inner join peaks on totals.source_id = peaks.source_id
inner join gap_shapes on totals.source_id = gap_shapes.source_id
left join blocks on totals.source_id = blocks.source_id
