-- what:  How many requests the engine may run at once.
-- grain: one row per level and replica
-- key:   level, replica_id
-- columns:
--   level               VARCHAR  level of a sweep, null when the run has one level
--   replica_id          VARCHAR  engine replica
--   running_limit       DOUBLE   max_num_seqs when stated, else the most requests seen running
--   is_stated           BOOLEAN  whether a file states the limit
--   num_blocks          DOUBLE   KV blocks of the device, null when unknown
--   speculative_tokens  DOUBLE   speculative tokens per step, 0 when none stated
with

stated as (

    select
        level,
        max(number) filter (where name = 'max_num_seqs') as running_limit,
        max(number) filter (where name = 'num_gpu_blocks') as num_blocks,
        max(number) filter (where name = 'num_speculative_tokens') as speculative_tokens
    from int_settings_effective
    group by level

),

seen as (

    select
        level,
        replica_id,
        max(running_count) as most_running
    from int_kv_samples
    group by level, replica_id

)

select
    seen.level,
    seen.replica_id,
    coalesce(own.running_limit, shared.running_limit, seen.most_running) as running_limit,
    coalesce(own.running_limit, shared.running_limit) is not null as is_stated,
    coalesce(own.num_blocks, shared.num_blocks) as num_blocks,
    coalesce(own.speculative_tokens, shared.speculative_tokens, 0) as speculative_tokens
from seen
left join stated as own on seen.level = own.level
left join stated as shared on shared.level is null
