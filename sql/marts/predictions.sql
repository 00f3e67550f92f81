-- what:  What other numbers of concurrent sequences would do to KV, step time and throughput.
-- grain: one row per level, replica and number of sequences
-- key:   level, replica_id, sequences
-- needs: int_advice_facts
-- columns:
--   level            VARCHAR  level of a sweep that the prediction starts from, null when there is one
--   replica_id       VARCHAR  engine replica
--   basis            VARCHAR  measured (this run), multiple of it, or kv_ceiling
--   reason           VARCHAR  why step time and throughput are not predicted, null when they are
--   assumption       VARCHAR  what the prediction rests on, null without one
--   sequences        BIGINT   concurrent sequences (max_num_seqs under a load that fills it)
--   batch            DOUBLE   sequences of them that the KV pool lets run
--   factor           DOUBLE   sequences over those of this run
--   kv_peak_ratio    DOUBLE   highest KV occupancy that they ask for, 1 and more: the ceiling is reached
--   kv_share_ratio   DOUBLE   share of KV in what a decode step of this run reads
--   kv_read_bytes    DOUBLE   [bytes] KV that a decode step would read
--   floor_ms         DOUBLE   [ms] floor of that step
--   step_ms          DOUBLE   [ms] predicted step, which is the inter-token latency
--   tokens_per_s     DOUBLE   [tokens/s] predicted mean throughput
--   is_kv_limited    BOOLEAN  fewer run than are allowed, because the pool is full
-- notes: one step model: the step takes as long as its bytes (weights once, KV of the batch) at the
--        bandwidth share that this run reached. Refused from a run that was not at full batch, and over
--        more than predict_level_factor times its level, unless KV already makes up
--        predict_kv_share_ratio of what a step reads: throughput cannot double any more then, and
--        predict_far_factor is the limit. The peak grows with the load; with requests that vary
--        independently it grows slower, and that later ceiling is where the batch stops growing.
with

facts as (

    select
        *,
        kv_read_bytes / nullif(weight_bytes + kv_read_bytes, 0) as kv_share_ratio,
        case
            when swap_count > 0 then sequences_held
            else floor(sequences / nullif(used_ratio_peak, 0))
        end as ceiling_sequences,
        case
            when swap_count = 0 and used_ratio_peak > 0 and used_ratio_mean > 0
                then sequences * independent_growth(used_ratio_mean, used_ratio_peak)
        end as latest_sequences
    from int_advice_facts
    where sequences > 0

),

asked as (

    select
        *,
        unnest([
            struct_pack(basis := 'measured', sequences := sequences),
            struct_pack(basis := 'kv_ceiling', sequences := ceiling_sequences),
            struct_pack(basis := 'multiple', sequences := floor(sequences / 2)),
            struct_pack(basis := 'multiple', sequences := floor(sequences * 5 / 4)),
            struct_pack(basis := 'multiple', sequences := floor(sequences * 3 / 2)),
            struct_pack(basis := 'multiple', sequences := sequences * 2),
            struct_pack(basis := 'multiple', sequences := sequences * 3),
            struct_pack(basis := 'multiple', sequences := sequences * 4)
        ]) as target
    from facts

),

sized as (

    select
        * exclude (target, sequences),
        sequences as run_sequences,
        target.basis,
        target.sequences,
        target.sequences / sequences as factor,
        least(target.sequences, greatest(latest_sequences, sequences)) as batch_sequences
    from asked
    where target.sequences >= 1
    qualify
        row_number() over (
            partition by level, replica_id, target.sequences
            order by case target.basis when 'measured' then 1 when 'kv_ceiling' then 2 else 3 end
        ) = 1

),

judged as (

    select
        *,
        case
            when basis = 'measured' or step_reason is not null then step_reason
            when factor > 1 and swap_count > 0 then 'the KV ceiling was reached in this run'
            when level_reason is not null then level_reason
            when
                factor > threshold('predict_level_factor')
                and kv_share_ratio < threshold('predict_kv_share_ratio')
                then 'more than twice the level of this run'
            when factor > threshold('predict_far_factor') then 'too far from the level of this run'
        end as reason,
        batch_sequences / run_sequences as batch_factor
    from sized

),

moved as (

    select
        *,
        kv_read_bytes * batch_factor as new_kv_bytes,
        case
            when basis = 'measured' then weight_bytes
            else step_weight_bytes(
                all_weight_bytes, expert_weight_bytes, lookup_weight_bytes,
                num_experts, experts_per_token, batch * batch_factor
            )
        end as new_weight_bytes
    from judged

),

stepped as (

    select
        *,
        case
            when reason is null
                then scaled_step_ms(
                    step_ms, weight_bytes + kv_read_bytes, new_weight_bytes + new_kv_bytes
                )
        end as new_step_ms
    from moved

)

select
    level,
    replica_id,
    basis,
    reason,
    case
        when reason is null and basis <> 'measured'
            then
                'lengths, share of prefill and reached share of the bandwidth stay as in this run'
                || if(batch_factor < factor, '; what is recomputed is not counted', '')
    end as assumption,
    cast(sequences as bigint) as sequences,
    batch_sequences as batch,
    factor,
    used_ratio_peak * factor as kv_peak_ratio,
    kv_share_ratio,
    case when reason is null then new_kv_bytes end as kv_read_bytes,
    case
        when reason is null then decode_floor_ms(new_weight_bytes, new_kv_bytes, bytes_per_s)
    end as floor_ms,
    new_step_ms as step_ms,
    case
        when reason is null
            then scaled_tokens_per_s(tokens_per_s, batch_factor, step_ms, new_step_ms)
    end as tokens_per_s,
    batch_factor < factor as is_kv_limited
from stepped
