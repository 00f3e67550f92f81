-- what:  What is known of the serving GPU, for each level: stated facts, else those of its model.
-- grain: one row per level
-- key:   level
-- columns:
--   level                VARCHAR  level; the row with null holds for the run as a whole
--   gpu_name             VARCHAR  name as a file states it, null when none does
--   gpu_model            VARCHAR  row of the seed gpus that the name fits, null when doubtful
--   memory_origin        VARCHAR  file that states the memory size
--   bandwidth_origin     VARCHAR  file that states the bandwidth, or 'gpus.csv: ' and its source
--   flops_origin         VARCHAR  the same for the compute rate
--   reason               VARCHAR  why the bandwidth is unknown, null when it is known
--   memory_bytes         DOUBLE   [bytes] memory of one GPU as stated; never taken from the seed
--   hbm_bytes_per_s      DOUBLE   [bytes/s] peak bandwidth
--   flops_per_s          DOUBLE   [FLOP/s] peak dense rate in the model's element type
--   pcie_bytes_per_s     DOUBLE   [bytes/s] host link, one direction
--   nvlink_bytes_per_s   DOUBLE   [bytes/s] NVLink, all links, one direction
--   l2_bytes             DOUBLE   [bytes] L2 cache
--   sm_count             DOUBLE   streaming multiprocessors
-- notes: a name fits a seed row only when a stated memory size does not contradict it: parts of one
--        name differ in memory and bandwidth (H100 64 GB, 80 GB, 94 GB). A MIG slice has a share
--        of its GPU that its name does not tell. Weight-only quantisation
--        computes in the model's type; for other kinds but FP8 the rate is unknown.
with

given as (

    select
        level,
        map_from_entries(list((name, value) order by name)) as texts,
        map_from_entries(list((name, number) order by name)) as numbers,
        map_from_entries(list((name, origin) order by name)) as origins
    from int_settings_effective
    group by level

),

stated as (

    select
        level,
        texts['gpu_name'] as gpu_name,
        lower(texts['dtype']) as dtype,
        coalesce(lower(texts['quantization']), '') as quantization,
        coalesce(numbers['gpu_memory_bytes'], numbers['total_gpu_memory_bytes']) as memory_bytes,
        coalesce(origins['gpu_memory_bytes'], origins['total_gpu_memory_bytes']) as memory_origin,
        numbers['hbm_bytes_per_s'] as hbm_bytes_per_s,
        origins['hbm_bytes_per_s'] as bandwidth_origin,
        numbers['peak_flops_per_s'] as flops_per_s,
        origins['peak_flops_per_s'] as flops_origin,
        numbers['pcie_bytes_per_s'] as pcie_bytes_per_s,
        numbers['nvlink_bytes_per_s'] as nvlink_bytes_per_s,
        numbers['l2_bytes'] as l2_bytes,
        numbers['sm_count'] as sm_count
    from given

),

fitting as (

    select
        stated.level,
        gpus.*,
        count(*) over (partition by stated.level) as fit_count,
        coalesce(
            abs(stated.memory_bytes / gpus.memory_bytes - 1)
            > threshold('gpu_memory_mismatch_ratio'),
            false
        ) as is_contradicted
    from stated
    inner join gpus
        on
            (
                regexp_matches(lower(stated.gpu_name), gpus.name_pattern)
                or lower(stated.gpu_name) = lower(gpus.gpu)
            )
            and not regexp_matches(lower(stated.gpu_name), '\bmig\b')

),

fitted as (

    select * from fitting where fit_count = 1 and not is_contradicted

)

select
    stated.level,
    stated.gpu_name,
    fitted.gpu as gpu_model,
    stated.memory_origin,
    coalesce(stated.bandwidth_origin, 'gpus.csv: ' || fitted.source) as bandwidth_origin,
    coalesce(stated.flops_origin, 'gpus.csv: ' || fitted.source) as flops_origin,
    case
        when stated.hbm_bytes_per_s is not null or fitted.gpu is not null then null
        when stated.gpu_name is null then 'no file names the GPU'
        when exists (
            select 1 from fitting
            where fitting.level is not distinct from stated.level and fitting.is_contradicted
        ) then 'the memory size is not that of the known part with this name'
        else 'the GPU is not in the list of known parts'
    end as reason,
    stated.memory_bytes,
    coalesce(stated.hbm_bytes_per_s, cast(fitted.hbm_bytes_per_s as double)) as hbm_bytes_per_s,
    coalesce(
        stated.flops_per_s,
        case
            when regexp_matches(stated.quantization || ' ' || stated.dtype, 'fp8|float8')
                then cast(fitted.fp8_flops_per_s as double)
            when
                dtype_bytes(stated.dtype) = 2
                and regexp_matches(stated.quantization, '^$|awq|gptq|bitsandbytes')
                then cast(fitted.bf16_flops_per_s as double)
        end
    ) as flops_per_s,
    coalesce(stated.pcie_bytes_per_s, cast(fitted.pcie_bytes_per_s as double))
        as pcie_bytes_per_s,
    coalesce(stated.nvlink_bytes_per_s, cast(fitted.nvlink_bytes_per_s as double))
        as nvlink_bytes_per_s,
    coalesce(stated.l2_bytes, cast(fitted.l2_bytes as double)) as l2_bytes,
    coalesce(stated.sm_count, cast(fitted.sm_count as double)) as sm_count
from stated
left join fitted on stated.level is not distinct from fitted.level
