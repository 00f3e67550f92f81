-- what:  Prefix blocks of a published trace that a cache of a given size would serve.
-- grain: one row per trace file and cache size
-- key:   source_id, cache_block_count
-- columns:
--   source_id             INTEGER  trace file
--   cache_block_count     BIGINT   [blocks] size of the cache, in powers of two up to all blocks of the trace
--   cache_tokens          BIGINT   [tokens] the same in tokens
--   block_count           BIGINT   blocks asked for
--   reusable_block_count  BIGINT   leading blocks still in the cache when their request arrives
--   reusable_block_ratio  DOUBLE   [ratio] of the blocks asked for
-- notes: least recently used blocks are evicted first; a request's blocks count as stored when it arrives. The last row is the unlimited cache.
with

arrivals as (

    select
        source_id,
        request_no,
        block_tokens,
        block_count,
        reusable_block_count
    from request_arrivals
    where block_count is not null

),

traces as (

    select
        source_id,
        max(block_tokens) as block_tokens,
        cast(sum(block_count) as bigint) as block_count,
        cast(sum(block_count - reusable_block_count) as bigint) as stored_count
    from arrivals
    group by source_id

),

powers as (

    select unnest(range(4, 40)) as exponent

),

sizes as (

    select
        traces.source_id,
        cast(1 as bigint) << powers.exponent as cache_block_count
    from traces
    inner join powers
        on powers.exponent = 4 or cast(1 as bigint) << (powers.exponent - 1) < traces.stored_count

),

misses as (

    select
        sizes.source_id,
        sizes.cache_block_count,
        reuse.request_no,
        min(reuse.block_place) as block_place
    from sizes
    inner join int_trace_reuse as reuse
        on
            sizes.source_id = reuse.source_id
            and sizes.cache_block_count <= reuse.distance_count
    group by sizes.source_id, sizes.cache_block_count, reuse.request_no

),

hits as (

    select
        sizes.source_id,
        sizes.cache_block_count,
        cast(
            sum(least(
                arrivals.reusable_block_count,
                coalesce(misses.block_place - 1, arrivals.reusable_block_count)
            )) as bigint
        ) as reusable_block_count
    from sizes
    inner join arrivals on sizes.source_id = arrivals.source_id
    left join misses
        on
            sizes.source_id = misses.source_id
            and sizes.cache_block_count = misses.cache_block_count
            and arrivals.request_no = misses.request_no
    group by sizes.source_id, sizes.cache_block_count

)

select
    hits.source_id,
    hits.cache_block_count,
    hits.cache_block_count * traces.block_tokens as cache_tokens,
    traces.block_count,
    hits.reusable_block_count,
    hits.reusable_block_count / nullif(traces.block_count, 0) as reusable_block_ratio
from hits
inner join traces on hits.source_id = traces.source_id
