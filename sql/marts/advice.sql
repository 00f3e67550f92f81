-- what:  What could be changed, in the order to try it, with what each change would gain in this run.
-- grain: one row per level, replica and change
-- key:   level, replica_id, advice
-- needs: int_advice_facts
-- columns:
--   level              VARCHAR  level of a sweep, null when the run has one level
--   replica_id         VARCHAR  engine replica
--   advice             VARCHAR  as_run, gqa_model, kv_fp8, kv_int4, cap_length, cap_sequences,
--                               prefix_sharing or kv_tier
--   state              VARCHAR  measured (as_run), advised, optional, other_model (no setting), already
--                               (is so), no_gain, unsuitable or cannot_tell
--   reason             VARCHAR  what the state rests on
--   assumption         VARCHAR  what the predicted figures rest on, null without any
--   step_reason        VARCHAR  why step time and throughput are not predicted, null when they are
--   reuse_origin       VARCHAR  what reuse_ratio was measured on
--   kv_bytes_per_token DOUBLE   [bytes] on one GPU
--   ceiling_tokens     DOUBLE   [tokens] that the pool would hold
--   ceiling_requests   DOUBLE   requests of this run's mean full length that would fit
--   peak_ratio         DOUBLE   0-1 the peak that was seen, in the new pool
--   floor_ms           DOUBLE   [ms] floor of the typical decode step
--   step_ms            DOUBLE   [ms] predicted step, which is the inter-token latency
--   tokens_per_s       DOUBLE   [tokens/s] predicted mean throughput
--   speedup_ratio      DOUBLE   predicted over measured throughput, less 1
--   cap                DOUBLE   value of a cap: tokens of a request, or sequences
--   affected_ratio     DOUBLE   share of this run's requests over a length cap (refused), or of its
--                               samples over a cap of sequences (the rest would wait)
--   hit_ratio          DOUBLE   prompt tokens found in the prefix cache or a tier behind it
--   tier_hit_ratio     DOUBLE   of that in a host or remote tier, null when none was asked
--   reuse_ratio        DOUBLE   share of prompt tokens that were or could be taken from a cache
--   transfer_ms        DOUBLE   [ms] fetch of the reusable part of a mean prompt from the host
--   recompute_ms       DOUBLE   [ms] computing it again at the peak rate
--   prefetch_ratio     DOUBLE   share of fetches that must be over in time, so that the mean wait stays
--                               within one decode step
--   rank               INTEGER  order to try them
--   is_peak_fitting    BOOLEAN  the peak that was seen would have stayed below the ceiling
-- notes: only changes that this run supports are advised. Where KV hit its ceiling the peak that was
--        seen is the ceiling, and what waited comes on top. A cap of sequences is what ran at a lower
--        level without swap points, else what ran in the worst swap point; without one the number of requests that fit at full length, or that
--        ran at the peak scaled to a full pool, whichever is lower. Smaller KV saves the reading of its
--        bytes and nothing else; a cap scales the step as in predictions.
with

facts as (

    select
        *,
        coalesce(
            sequences_calm,
            sequences_held,
            least(
                floor(capacity_tokens / nullif(request_tokens, 0)),
                floor(sequences_at_peak / nullif(used_ratio_peak, 0))
            )
        ) as sequence_cap,
        case
            when attention_heads = kv_heads and not is_mla and kv_heads > 8 then 8 / kv_heads
        end as gqa_factor,
        -- Each once: planning a threshold costs as much as a join.
        threshold('advice_gain_ratio') as gain_ratio,
        threshold('advice_reuse_min_ratio') as reuse_min_ratio,
        threshold('hit_high_ratio') as hit_high_ratio,
        threshold('hbm_achievable_ratio') as achievable_ratio,
        threshold('kv_full_ratio') as full_ratio,
        dtype_bytes('fp8') / nullif(element_bytes, 0) as fp8_factor,
        dtype_bytes('int4') / nullif(element_bytes, 0) as int4_factor
    from int_advice_facts

),

over_cap as (

    select
        facts.level,
        facts.replica_id,
        count(*) filter (where curve.running_count > facts.sequence_cap)
        / nullif(count(*), 0) as over_cap_ratio
    from facts
    inner join kv_occupancy as curve
        on
            facts.level is not distinct from curve.level
            and facts.replica_id = curve.replica_id
            and curve.tier = 'hbm'
            and curve.running_count > 0
    group by facts.level, facts.replica_id

),

counted as (

    select
        facts.*,
        over_cap.over_cap_ratio
    from facts
    left join over_cap
        on
            facts.level is not distinct from over_cap.level
            and facts.replica_id = over_cap.replica_id

),

offered as (

    select
        *,
        unnest([
            struct_pack(rank := 0, advice := 'as_run', kv := 1e0, batch := 1e0, requests := 1e0),
            struct_pack(
                rank := 1, advice := 'gqa_model', kv := gqa_factor, batch := 1e0, requests := 1e0
            ),
            struct_pack(
                rank := 2, advice := 'kv_fp8', kv := fp8_factor, batch := 1e0, requests := 1e0
            ),
            struct_pack(
                rank := 3, advice := 'kv_int4', kv := int4_factor, batch := 1e0, requests := 1e0
            ),
            struct_pack(
                rank := 4,
                advice := 'cap_length',
                kv := 1e0,
                batch := 1e0,
                requests := kept_tokens / nullif(mean_tokens, 0)
            ),
            struct_pack(
                rank := 5,
                advice := 'cap_sequences',
                kv := 1e0,
                batch := least(sequence_cap / nullif(batch, 0), 1),
                requests := 1e0
            ),
            struct_pack(
                rank := 6, advice := 'prefix_sharing', kv := 1e0, batch := 1e0, requests := 1e0
            ),
            struct_pack(rank := 7, advice := 'kv_tier', kv := 1e0, batch := 1e0, requests := 1e0)
        ]) as change
    from counted

),

changed as (

    select
        * exclude (change),
        offered.change.rank,
        offered.change.advice,
        offered.change.kv as kv_factor,
        offered.change.batch as batch_factor,
        offered.change.requests as request_factor,
        kv_read_bytes * offered.change.kv * offered.change.batch as new_kv_bytes,
        case
            when offered.change.advice = 'cap_sequences'
                then step_weight_bytes(
                    all_weight_bytes, expert_weight_bytes, lookup_weight_bytes,
                    num_experts, experts_per_token, batch * offered.change.batch
                )
            else weight_bytes
        end as new_weight_bytes,
        offered.change.advice in ('gqa_model', 'kv_fp8', 'kv_int4', 'cap_sequences') as is_faster
    from offered

),

stepped as (

    select
        *,
        case
            when step_reason is null and advice = 'cap_sequences'
                then scaled_step_ms(
                    step_ms, weight_bytes + kv_read_bytes, new_weight_bytes + new_kv_bytes
                )
            when step_reason is null and is_faster
                then shortened_step_ms(
                    step_ms,
                    kv_read_bytes - new_kv_bytes,
                    bytes_per_s * achievable_ratio
                )
            when advice = 'as_run' then step_ms
        end as new_step_ms,
        floor(capacity_tokens / nullif(kv_factor, 0)) as new_capacity_tokens
    from changed

),

paced as (

    select
        *,
        reuse_ratio >= reuse_min_ratio as is_reused,
        hit_ratio >= reuse_min_ratio as is_cached,
        reuse_origin like 'request trace%' as has_trace,
        case
            when advice = 'as_run' then tokens_per_s
            else scaled_tokens_per_s(tokens_per_s, batch_factor, step_ms, new_step_ms)
        end as new_tokens_per_s,
        request_capacity(new_capacity_tokens, request_tokens * request_factor)
            as new_requests
    from stepped

),

judged as (

    select
        *,
        new_tokens_per_s / nullif(tokens_per_s, 0) - 1 as speedup_ratio,
        case
            when advice = 'as_run' then ['measured', 'this run']
            when advice = 'gqa_model' and (kv_heads is null or attention_heads is null)
                then ['cannot_tell', 'the attention heads of the model are not stated']
            when advice = 'gqa_model' and (is_mla or kv_heads < attention_heads)
                then ['already', 'query heads of this model share their KV already']
            when advice = 'gqa_model' and gqa_factor is null
                then ['no_gain', 'the model has few KV heads']
            when advice in ('kv_fp8', 'kv_int4') and kv_factor is null
                then ['cannot_tell', 'the element type of the KV cache is not stated']
            when advice in ('kv_fp8', 'kv_int4') and kv_factor >= 1
                then ['already', 'the KV cache is stored that small already']
            when
                advice in ('gqa_model', 'kv_fp8', 'kv_int4')
                and kv_state = 'far'
                and new_tokens_per_s is null
                then
                    ['no_gain', 'KV was far from its ceiling, and a gain in speed is not known']
            when
                advice in ('gqa_model', 'kv_fp8', 'kv_int4')
                and kv_state = 'far'
                and new_tokens_per_s < (1 + gain_ratio) * tokens_per_s
                then ['no_gain', 'KV was far from its ceiling, and a step reads little of it']
            when advice = 'gqa_model'
                then ['other_model', 'every query head has a KV head of its own; eight are usual']
            when advice in ('kv_fp8', 'kv_int4') and kv_state = 'far'
                then ['optional', 'for speed alone: KV was far from its ceiling']
            when advice = 'kv_fp8' and kv_state = 'short'
                then ['advised', 'KV reached its ceiling']
            when advice = 'kv_fp8'
                then ['optional', 'KV came close to its ceiling without harm']
            when advice = 'kv_int4'
                then ['optional', 'where FP8 is not enough']
            when advice in ('cap_length', 'cap_sequences') and kv_state <> 'short'
                then ['no_gain', 'KV did not reach its ceiling']
            when advice = 'cap_length' and request_count is null
                then ['cannot_tell', 'the lengths of single requests are not known']
            when advice = 'cap_length' and request_tokens is null
                then ['cannot_tell', 'the size of the KV pool is not known']
            when
                advice = 'cap_length'
                and kept_tokens * (1 + gain_ratio) > mean_tokens
                then ['no_gain', 'the requests are of even length: a cap would free little']
            when advice = 'cap_length'
                then ['optional', 'a few long requests hold much of the KV']
            when advice = 'cap_sequences' and sequence_cap is null
                then ['cannot_tell', 'running requests or the size of the KV pool are not known']
            when advice = 'cap_sequences' and sequences <= sequence_cap
                then ['no_gain', 'never more ran than fit']
            when advice = 'cap_sequences' and sequences_calm is not null
                then ['advised', 'a lower level of this sweep had no swap point']
            when advice = 'cap_sequences'
                then ['advised', 'more requests ran at once than fit']
            when advice = 'prefix_sharing' and reuse_ratio is null and is_caching_off
                then [
                    'cannot_tell',
                    'prefix caching is off: switched on, its hits would say what is shared'
                ]
            when advice = 'prefix_sharing' and reuse_ratio is null
                then ['cannot_tell', 'neither prefix hits nor a request trace say what is shared']
            when
                advice = 'prefix_sharing'
                and reuse_ratio - coalesce(hit_ratio, 0) >= reuse_min_ratio
                then ['advised', 'more of the prompts repeats than the cache serves']
            when
                advice = 'prefix_sharing'
                and (hit_ratio >= hit_high_ratio or is_cached and has_trace)
                then ['already', 'most of what repeats is served from the cache']
            when advice = 'prefix_sharing' and is_cached
                then [
                    'cannot_tell',
                    'hits show what the cache kept, not what it lost: a request trace would'
                ]
            when advice = 'prefix_sharing'
                then ['unsuitable', 'the prompts are one-off: next to nothing was found again']
            when advice = 'kv_tier' and tier_hit_ratio < reuse_min_ratio
                then ['unsuitable', 'the tier in use served next to nothing of the prompts']
            when advice = 'kv_tier' and tier_hit_ratio is not null
                then ['already', 'a tier is in use and serves prefixes']
            when advice = 'kv_tier' and kv_state = 'far'
                then ['unsuitable', 'KV was far from its ceiling: nothing would be moved out']
            when advice = 'kv_tier' and reuse_ratio is null
                then ['cannot_tell', 'neither prefix hits nor a request trace say what is shared']
            when advice = 'kv_tier' and not is_reused
                then [
                    'unsuitable',
                    'the prompts are one-off: what a tier keeps is not asked for again'
                ]
            when
                advice = 'kv_tier' and hit_ratio >= hit_high_ratio
                and reuse_ratio - hit_ratio < reuse_min_ratio
                then ['unsuitable', 'what repeats is served from HBM already']
            when advice = 'kv_tier' and kv_state = 'close'
                then ['unsuitable', 'the engine itself has room for what repeats']
            when advice = 'kv_tier' and transfer_ms >= recompute_ms
                then ['unsuitable', 'computing the prefix again is faster than fetching it']
            when advice = 'kv_tier' and (transfer_ms is null or recompute_ms is null)
                then [
                    'cannot_tell',
                    'the route to the host, the compute rate or the model is not known'
                ]
            else ['optional', 'prefixes repeat and fetching them is faster than computing them']
        end as verdict
    from paced

)

select
    level,
    replica_id,
    advice,
    verdict[1] as state,
    verdict[2] as reason,
    case
        when advice in ('kv_fp8', 'kv_int4', 'gqa_model') and new_step_ms is not null
            then 'only the reading of the saved bytes goes away, at the achievable bandwidth'
        when advice = 'cap_sequences' and new_step_ms is not null and batch_factor < 1
            then 'the load stays as it is and waits; what was recomputed is not counted'
        when advice = 'cap_length' then 'longer requests are refused, the others stay as they are'
        when advice = 'kv_tier' and recompute_ms is not null
            then 'half of the nominal rate of the route; computing at the peak rate'
    end as assumption,
    case when is_faster or advice = 'as_run' then step_reason end as step_reason,
    reuse_origin,
    kv_bytes_per_token * kv_factor as kv_bytes_per_token,
    new_capacity_tokens as ceiling_tokens,
    new_requests as ceiling_requests,
    case
        when advice in ('as_run', 'gqa_model', 'kv_fp8', 'kv_int4')
            then used_ratio_peak * kv_factor
    end as peak_ratio,
    case
        when advice = 'as_run' or is_faster
            then decode_floor_ms(new_weight_bytes, new_kv_bytes, bytes_per_s)
    end as floor_ms,
    new_step_ms as step_ms,
    new_tokens_per_s as tokens_per_s,
    case when advice <> 'as_run' then speedup_ratio end as speedup_ratio,
    case advice when 'cap_length' then long_tokens when 'cap_sequences' then sequence_cap end
        as cap,
    case advice when 'cap_length' then over_ratio when 'cap_sequences' then over_cap_ratio end
        as affected_ratio,
    case when advice in ('prefix_sharing', 'kv_tier') then hit_ratio end as hit_ratio,
    case when advice = 'kv_tier' then tier_hit_ratio end as tier_hit_ratio,
    case when advice in ('prefix_sharing', 'kv_tier') then reuse_ratio end as reuse_ratio,
    case when advice = 'kv_tier' then transfer_ms end as transfer_ms,
    case when advice in ('prefix_sharing', 'kv_tier') then recompute_ms end as recompute_ms,
    case when advice = 'kv_tier' then needed_prefetch_ratio(transfer_ms, step_ms) end
        as prefetch_ratio,
    cast(rank as integer) as rank,
    case
        when advice in ('as_run', 'gqa_model', 'kv_fp8', 'kv_int4')
            then used_ratio_peak * kv_factor < full_ratio
    end as is_peak_fitting
from judged
