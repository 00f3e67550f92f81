-- what:  What the capacity ledger is held against: requests, limits and other files' figures.
-- grain: one row per level, replica, tier and line
-- key:   level, replica_id, tier, line
-- columns:
--   level          VARCHAR  level of a sweep, null when the run has one level
--   replica_id     VARCHAR  engine replica
--   tier           VARCHAR  memory as in int_ledger_pools
--   line           VARCHAR  per_request, requests_fit, admission, pool_check, pool_printed or
--                           device_used
--   meaning        VARCHAR  what the line says
--   origin         VARCHAR  file or rule that the line comes from
--   bytes          BIGINT   [bytes] on one GPU, null when unknown
--   tokens         BIGINT   [tokens] of KV
--   request_count  BIGINT   requests
--   line_no        INTEGER  order
-- notes: these lines are no parts of the memory. Lengths are those of the requests that finished;
--        a request takes whole blocks. What held requests back is said only of samples in which some
--        waited. The device's figure is the highest of one GPU while the run lasted.
with

given as (

    select
        level,
        map_from_entries(list((name, number) order by name)) as numbers
    from int_settings_effective
    group by level

),

stated as (

    select
        level,
        numbers['gpu_memory_utilization'] as limit_ratio,
        numbers['max_num_seqs'] as max_num_seqs,
        numbers['kv_cache_bytes'] as kv_cache_bytes,
        coalesce(numbers['total_gpu_memory_bytes'], numbers['gpu_memory_bytes']) as memory_bytes,
        numbers['activation_memory_bytes'] as activation_bytes,
        numbers['peak_torch_memory_bytes'] as framework_peak_bytes,
        coalesce(numbers['non_torch_memory_bytes'], 0) as non_torch_bytes
    from given

),

totals as (

    select
        level,
        source_id,
        load_no,
        max(value) filter (where name = 'completed') as completed,
        max(value) filter (where name = 'total_input_tokens') as input_tokens,
        max(value) filter (where name = 'total_output_tokens') as output_tokens
    from stg_client__summary
    group by level, source_id, load_no

),

listed_lengths as (

    select
        level,
        count(*) as counted,
        sum(prompt_tokens + output_tokens) as tokens
    from requests
    where
        not coalesce(is_error, false)
        and not coalesce(is_warmup, false)
        and prompt_tokens + output_tokens > 0
    group by level

),

lengths as (

    select
        level,
        counted,
        tokens / counted as request_tokens,
        'requests' as origin
    from listed_lengths
    union all
    select
        totals.level,
        sum(totals.completed) as counted,
        sum(totals.input_tokens + totals.output_tokens) / nullif(sum(totals.completed), 0)
            as request_tokens,
        'totals of the load client' as origin
    from totals
    left join listed_lengths on totals.level is not distinct from listed_lengths.level
    where totals.input_tokens + totals.output_tokens > 0 and listed_lengths.counted is null
    group by totals.level

),

telemetry as (

    select
        level,
        max(value) as used_bytes
    from stg_device__samples
    where counter = 'memory_used_bytes'
    group by level

),

explained as (

    select
        level,
        replica_id,
        tier,
        cast(sum(bytes) as bigint) as part_bytes
    from int_ledger_parts
    group by level, replica_id, tier

),

gathered as (

    select
        pools.*,
        sizes.kv_bytes_per_token_gpu,
        sizes.full_kv_bytes_gpu,
        sizes.window_kv_bytes_gpu,
        sizes.window_tokens,
        sizes.state_bytes_gpu,
        sizes.weight_bytes,
        stated.limit_ratio,
        stated.max_num_seqs,
        stated.kv_cache_bytes,
        kv_pool_room_bytes(
            stated.memory_bytes,
            stated.limit_ratio,
            coalesce(stated.framework_peak_bytes, sizes.weight_bytes + stated.activation_bytes),
            stated.non_torch_bytes
        ) as room_bytes,
        lengths.request_tokens,
        lengths.origin as length_origin,
        telemetry.used_bytes as device_bytes,
        explained.part_bytes
    from int_ledger_pools as pools
    left join int_model_sizes as sizes on pools.facts_level is not distinct from sizes.level
    left join stated on pools.facts_level is not distinct from stated.level
    left join lengths on pools.level is not distinct from lengths.level
    left join telemetry on pools.level is not distinct from telemetry.level
    left join explained
        on
            pools.level is not distinct from explained.level
            and pools.replica_id = explained.replica_id
            and pools.tier = explained.tier

),

reckoned as (

    select
        *,
        coalesce(whole_blocks(request_tokens, block_size), request_tokens) as booked_tokens,
        coalesce(capacity_bytes, capacity_tokens) > 0 as holds_kv,
        used_tokens / nullif(running_at_peak, 0) as share_tokens,
        sequence_kv_bytes(
            coalesce(whole_blocks(request_tokens, block_size), request_tokens),
            full_kv_bytes_gpu,
            window_kv_bytes_gpu,
            window_tokens,
            state_bytes_gpu
        ) as request_bytes
    from gathered

),

fitted as (

    select
        *,
        cast(round(1e2 * full_samples / nullif(waiting_samples, 0)) as integer) as full_share,
        coalesce(
            request_capacity(capacity_bytes, request_bytes),
            request_capacity(capacity_tokens, booked_tokens)
        ) as fit_count
    from reckoned

),

listed as (

    select
        level,
        replica_id,
        tier,
        unnest([
            case when pool = 'device' and share_tokens > 0 then ledger_line(
                12,
                'per_request',
                'share of one of ' || cast(running_at_peak as integer)
                || ' running requests at the highest occupancy',
                'KV used / requests running then',
                bytes := share_tokens * kv_bytes_per_token_gpu,
                tokens := share_tokens
            ) end,
            case when booked_tokens > 0 and holds_kv then ledger_line(
                13,
                'requests_fit',
                coalesce(format('{:,}', cast(fit_count as bigint)), 'unknown number of')
                || ' requests of this run''s mean length fit at their full length'
                || if(
                    pool = 'device' and running_peak > fit_count,
                    '; ' || cast(running_peak as integer)
                    || ' ran at once: shared prefixes, or not yet at full length',
                    ''
                ),
                length_origin,
                bytes := request_bytes,
                tokens := booked_tokens
            ) end,
            case when pool = 'device' and waiting_samples is not null then ledger_line(
                14,
                'admission',
                case
                    when waiting_samples = 0
                        then 'no request waited: the load did not fill the engine'
                    when full_samples * 2 >= waiting_samples
                        then
                            'KV pool: at its ceiling in ' || full_share
                            || ' % of the samples with waiting requests'
                    when running_peak >= max_num_seqs
                        then
                            'max_num_seqs (' || cast(max_num_seqs as integer)
                            || '): the pool was at its ceiling in ' || full_share
                            || ' % of the samples with waiting requests only'
                    else
                        'token budget of a step, or a limit that no file states: the pool was at '
                        || 'its ceiling in ' || full_share
                        || ' % of the samples with waiting requests only'
                end,
                'kv_occupancy'
            ) end,
            case when pool = 'device' and room_bytes is not null then ledger_line(
                15,
                'pool_check',
                coalesce(
                    'memory x limit less weights, peak and rest; the pool is '
                    || printf('%.1f', 1e2 * capacity_bytes / nullif(room_bytes, 0))
                    || ' % of it',
                    'memory x limit less weights, peak and rest'
                ),
                'settings',
                bytes := room_bytes,
                tokens := block_count(room_bytes, coalesce(block_size, 1), kv_bytes_per_token_gpu)
                * coalesce(block_size, 1)
            ) end,
            case when pool = 'device' and kv_cache_bytes is not null then ledger_line(
                16,
                'pool_printed',
                coalesce(
                    'KV pool as the engine prints it; the pool in these books is '
                    || printf('%.1f', 1e2 * capacity_bytes / nullif(kv_cache_bytes, 0))
                    || ' % of it'
                    || if(
                        abs(capacity_bytes / nullif(kv_cache_bytes, 0) - 1)
                        > threshold('books_mismatch_ratio'),
                        ': the block count was overridden, or layers are counted otherwise',
                        ''
                    ),
                    'KV pool as the engine prints it'
                ),
                'settings',
                bytes := kv_cache_bytes
            ) end,
            case when tier = 'hbm' and device_bytes is not null then ledger_line(
                17,
                'device_used',
                case
                    when part_bytes is null then 'most memory in use on one GPU'
                    when weight_bytes is null
                        then 'most memory in use on one GPU; weights are not known apart'
                    when device_bytes >= part_bytes
                        then
                            'most memory in use on one GPU: '
                            || printf('%.2f', (device_bytes - part_bytes) / 1073741824e0)
                            || ' GiB more than the parts above: driver context, CUDA graphs, other '
                            || 'processes'
                    else
                        'most memory in use on one GPU: '
                        || printf('%.2f', (part_bytes - device_bytes) / 1073741824e0)
                        || ' GiB less than the parts above, so one of them is stated too high'
                end,
                'GPU telemetry',
                bytes := device_bytes
            ) end
        ]) as entry,
        case when pool = 'device' then running_at_peak end as running_at_peak,
        max_num_seqs,
        fit_count
    from fitted

)

select
    level,
    replica_id,
    tier,
    listed.entry.line,
    listed.entry.meaning,
    listed.entry.origin,
    listed.entry.bytes,
    listed.entry.tokens,
    cast(
        case listed.entry.line
            when 'per_request' then running_at_peak
            when 'requests_fit' then fit_count
            when 'admission' then max_num_seqs
        end as bigint
    ) as request_count,
    listed.entry.line_no
from listed
where listed.entry.line is not null
