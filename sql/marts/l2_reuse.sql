-- what:  KV reuse in the L2 by level: what SM reads hit, what could hit at all, and where the hits collapse.
-- grain: one row per level with profiled kernels
-- key:   level
-- needs: profiled_kernels
-- columns:
--   level                VARCHAR  level of a sweep, null when the run has one level
--   scope                VARCHAR  attention (kernels that read KV, not those of prefill), step (ranges or graphs)
--                                 or all kernels: what is summed
--   verdict              VARCHAR  present, none (no reuse to lose), flushed (caches were not as the engine left
--                                 them), too short (kernels) or not collected
--   load                 DOUBLE   number of the level, null without one
--   place_no             BIGINT   place in the order of load among levels whose hits can be compared, else null
--   profile_count        BIGINT   profiled kernels or ranges that are summed
--   group_size           DOUBLE   query heads that share one KV head; latent attention: all; null when unknown
--   read_hit_ratio       DOUBLE   sum of hits over sum of look-ups, SM reads only
--   read_hit_min_ratio   DOUBLE   lowest of the kernels or ranges
--   read_hit_max_ratio   DOUBLE   highest of them
--   dram_use_ratio       DOUBLE   sum of bytes over sum of time times peak
--   drop_ratio           DOUBLE   fall of the hit rate to the next level, 0-1
--   possible_hit_ratio   DOUBLE   hits that query heads sharing a KV head could give: 1 - 1 / group_size
--   prefix_hit_ratio     DOUBLE   prompt tokens found in the prefix cache: KV that requests share; null when unknown
--   kv_layer_bytes       DOUBLE   [bytes] KV of one layer that the running requests hold on a GPU, mean
--   l2_bytes             DOUBLE   [bytes] L2 cache
--   is_collapse          BOOLEAN  last level before the hit rate collapses
-- notes: two numbers decide: the hit rate of SM reads falls by more than its scatter and DRAM use rises with it.
--        Claimed only with enough levels on both sides, from caches as the engine left them, for a fall that
--        is larger than all others together: a slow decline has no collapse. Weights are
--        read once per step and cannot hit: attention is summed apart wherever every level has it.
with

kernels as (

    select
        *,
        case
            when coalesce(phase, '') = 'prefill' then 'all kernels'
            when family in ('attention_decode', 'attention_unknown') then 'attention'
            when family in ('range', 'graph') then 'step'
            else 'all kernels'
        end as kind,
        launch_count * coalesce(duration_ns, 0) as weight_ns
    from profiled_kernels
    where not is_copy and verdict <> 'failed'

),

level_counts as (

    select count(distinct coalesce(level, '')) as level_count
    from kernels

),

kind_counts as (

    select
        kind,
        count(distinct coalesce(level, '')) as level_count
    from kernels
    where kind <> 'all kernels' and read_lookup_sectors > 0
    group by kind

),

scopes as (

    select coalesce(min(kind_counts.kind), 'all kernels') as scope
    from level_counts
    left join kind_counts on level_counts.level_count = kind_counts.level_count

),

summed as (

    select
        kernels.level,
        scopes.scope,
        count(*) as profile_count,
        max(kernels.l2_bytes) as l2_bytes,
        sum(kernels.read_hit_sectors * kernels.launch_count)
        / nullif(sum(kernels.read_lookup_sectors * kernels.launch_count), 0) as read_hit_ratio,
        min(kernels.read_hit_ratio) as read_hit_min_ratio,
        max(kernels.read_hit_ratio) as read_hit_max_ratio,
        fsum(kernels.dram_bytes * kernels.launch_count)
        filter (where kernels.dram_use_ratio is not null)
        / nullif(
            fsum(kernels.weight_ns / 1e9 * kernels.peak_bytes_per_s)
            filter (where kernels.dram_use_ratio is not null), 0
        ) as dram_use_ratio,
        bool_and(kernels.cache_state = 'in place') as is_in_place,
        coalesce(
            sum(kernels.read_lookup_sectors * kernels.launch_count)
            filter (where kernels.is_short), 0
        ) > sum(kernels.read_lookup_sectors * kernels.launch_count) / 2 as is_short
    from kernels
    inner join scopes on scopes.scope in (kernels.kind, 'all kernels')
    group by kernels.level, scopes.scope

),

numbers as (

    select
        level,
        max(level_number) as load
    from stg_sources
    where level is not null
    group by level

),

judged as (

    select
        summed.*,
        numbers.load,
        case
            when summed.read_hit_ratio is null then 'not collected'
            when summed.is_short then 'too short'
            when not summed.is_in_place then 'flushed'
            when summed.read_hit_ratio < threshold('l2_reuse_none_ratio') then 'none'
            else 'present'
        end as verdict
    from summed
    left join numbers on summed.level = numbers.level

),

placed as (

    select
        level,
        row_number() over (order by load, level) as place_no,
        count(*) over () as place_count,
        max(read_hit_ratio) over () - min(read_hit_ratio) over () as fall_ratio,
        read_hit_ratio - lead(read_hit_ratio) over (order by load, level) as drop_ratio,
        read_hit_min_ratio > lead(read_hit_max_ratio) over (order by load, level) as is_apart,
        coalesce(
            lead(dram_use_ratio) over (order by load, level) > dram_use_ratio
            or lead(dram_use_ratio) over (order by load, level)
            >= threshold('counter_high_ratio'), false
        ) as has_more_traffic
    from judged
    where load is not null and verdict in ('present', 'none')

),

collapses as (

    select
        level,
        place_no,
        drop_ratio,
        place_no = first_value(place_no) over (order by drop_ratio desc nulls last, place_no asc)
        and drop_ratio >= threshold('l2_drop_ratio')
        and drop_ratio > threshold('l2_drop_share_ratio') * fall_ratio
        and is_apart
        and has_more_traffic
        and place_no >= threshold('l2_side_levels')
        and place_count - place_no >= threshold('l2_side_levels') as is_collapse
    from placed

),

occupancy as (

    select
        level,
        favg(used_tokens) as used_tokens,
        favg(used_ratio) as used_ratio
    from kv_occupancy
    where tier = 'hbm'
    group by level

),

prefixes as (

    select
        level,
        fsum(hit_tokens) / nullif(fsum(lookup_tokens), 0) as hit_ratio
    from cache_hits
    where tier = 'hbm'
    group by level

),

sizes as (

    select
        shape.level,
        shape.layers / coalesce(shape.pipeline_parallel_size, 1) as layers,
        case
            when shape.is_mla then shape.attention_heads
            else shape.attention_heads / nullif(shape.kv_heads, 0)
        end as group_size,
        bytes.kv_bytes_per_token_gpu,
        bytes.kv_capacity_tokens
    from int_model_shape as shape
    left join int_model_sizes as bytes on shape.level is not distinct from bytes.level

)

select
    judged.level,
    judged.scope,
    judged.verdict,
    judged.load,
    collapses.place_no,
    judged.profile_count,
    coalesce(own.group_size, shared.group_size) as group_size,
    judged.read_hit_ratio,
    judged.read_hit_min_ratio,
    judged.read_hit_max_ratio,
    judged.dram_use_ratio,
    collapses.drop_ratio,
    1 - 1 / coalesce(own.group_size, shared.group_size) as possible_hit_ratio,
    prefixes.hit_ratio as prefix_hit_ratio,
    coalesce(
        occupancy.used_tokens,
        occupancy.used_ratio * coalesce(own.kv_capacity_tokens, shared.kv_capacity_tokens)
    )
    * coalesce(own.kv_bytes_per_token_gpu, shared.kv_bytes_per_token_gpu)
    / coalesce(own.layers, shared.layers) as kv_layer_bytes,
    cast(judged.l2_bytes as double) as l2_bytes,
    coalesce(collapses.is_collapse, false) as is_collapse
from judged
left join collapses on judged.level is not distinct from collapses.level
left join occupancy on judged.level is not distinct from occupancy.level
left join prefixes on judged.level is not distinct from prefixes.level
left join sizes as own on judged.level = own.level
left join sizes as shared on shared.level is null
order by judged.load nulls last, judged.level
