-- what:  What load clients state about each level of a sweep.
-- grain: one row per level
-- key:   level
-- needs: int_sweep_levels
-- columns:
--   level                    VARCHAR  label
--   tokens_per_s             DOUBLE   [tokens/s] generated, over all replicas
--   concurrency_limit        DOUBLE   the client's own limit, null when it has none
--   request_rate_per_s       DOUBLE   [requests/s] asked for, null when all were sent at once
--   achieved_rate_per_s      DOUBLE   [requests/s] sent
--   schedule_delay_ms        DOUBLE   [ms] median lateness of the client
--   ttft_p50_ms              DOUBLE   [ms]
--   itl_p50_ms               DOUBLE   [ms]
--   itl_p99_ms               DOUBLE   [ms]
--   decoding_count           DOUBLE   mean requests between first and last token
--   before_first_count       DOUBLE   mean requests before their first token
-- notes: counts follow from rate times mean time (Little's law). A client whose median chunk gap
--        is far below the mean one gets several tokens at once: then the median time per output
--        token stands in for the median, and there is no p99.
with

stated as (

    select
        levels.level,
        sources.replica,
        entries.source_id,
        entries.load_no,
        max(entries.value) filter (where entries.name = 'completed') as completed_count,
        max(entries.value)
        filter (where entries.name = 'output_tokens_per_s') as tokens_per_s,
        max(entries.value) filter (where entries.name = 'max_concurrency') as concurrency_limit,
        max(entries.value) filter (
            where entries.name = 'request_rate' and isfinite(entries.value)
        ) as request_rate_per_s,
        max(entries.value)
        filter (where entries.name = 'achieved_rate_per_s') as achieved_rate_per_s,
        max(entries.value)
        filter (where entries.name = 'median_schedule_delay_ms') as schedule_delay_ms,
        max(entries.value)
        filter (where entries.name = 'request_throughput_per_s') as finished_per_s,
        max(entries.value) filter (where entries.name = 'mean_e2el_ms') as mean_e2e_ms,
        max(entries.value) filter (where entries.name = 'mean_ttft_ms') as mean_ttft_ms,
        max(entries.value) filter (where entries.name = 'median_ttft_ms') as ttft_p50_ms,
        max(entries.value) filter (where entries.name = 'mean_itl_ms') as mean_itl_ms,
        max(entries.value) filter (where entries.name = 'median_itl_ms') as itl_p50_ms,
        max(entries.value) filter (where entries.name = 'p99_itl_ms') as itl_p99_ms,
        max(entries.value) filter (where entries.name = 'median_tpot_ms') as tpot_p50_ms
    from stg_client__summary as entries
    inner join stg_sources as sources on entries.source_id = sources.source_id
    inner join int_sweep_levels as levels
        on
            (levels.origin = 'folder' and entries.level = levels.level)
            or (
                levels.origin = 'file'
                and entries.source_id = levels.source_id
                and entries.load_no = levels.load_no
            )
    group by levels.level, sources.replica, entries.source_id, entries.load_no

),

chosen as (

    select
        *,
        coalesce(
            itl_p50_ms < threshold('sweep_chunk_median_ratio') * mean_itl_ms, false
        ) as is_bunched
    from stated
    qualify
        row_number() over (
            partition by level, replica
            order by
                tokens_per_s is null asc,
                completed_count desc nulls last,
                source_id asc,
                load_no asc
        ) = 1

)

select
    level,
    fsum(tokens_per_s) as tokens_per_s,
    fsum(concurrency_limit) as concurrency_limit,
    fsum(request_rate_per_s) as request_rate_per_s,
    fsum(achieved_rate_per_s) as achieved_rate_per_s,
    max(schedule_delay_ms) as schedule_delay_ms,
    max(ttft_p50_ms) as ttft_p50_ms,
    max(case when is_bunched then tpot_p50_ms else itl_p50_ms end) as itl_p50_ms,
    max(case when not is_bunched then itl_p99_ms end) as itl_p99_ms,
    fsum(finished_per_s * (mean_e2e_ms - mean_ttft_ms) / 1e3) as decoding_count,
    fsum(finished_per_s * mean_ttft_ms / 1e3) as before_first_count
from chosen
group by level
