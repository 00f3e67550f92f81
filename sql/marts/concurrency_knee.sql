-- what:  Throughput and latency of each level of a sweep, and where more load stops paying.
-- grain: one row per level
-- key:   level
-- columns:
--   level               VARCHAR  label: sub-folder, stage, tag of a client or its concurrency limit
--   sweep               VARCHAR  folder of one of several sweeps, each with a knee of its own; null when there is one
--   load_kind           VARCHAR  concurrency or request rate: what was raised from level to level
--   cause               VARCHAR  at a knee or saturation: kv, scheduler limit, client, l2, bandwidth, compute, bandwidth or compute; null when nothing shows it
--   reason              VARCHAR  what shows the cause, or on every row why neither knee nor saturation is claimed
--   l2_reuse            VARCHAR  what read_hit_ratio is worth: verdict of the mart l2_reuse, null without
--                                profiled kernels
--   load                DOUBLE   how much of load_kind; null when no file says
--   level_number        DOUBLE   number in the label, null without one
--   concurrency         DOUBLE   client's limit or the label's number; with request rates the mean requests in flight
--   tokens_per_s        DOUBLE   [tokens/s] generated: the client's total, else its requests, else the engine's rate
--   itl_p50_ms          DOUBLE   [ms] from token times, else the client's percentile, else the engine's
--   itl_p99_ms          DOUBLE   [ms]
--   ttft_p50_ms         DOUBLE   [ms]
--   kv_used_ratio_max   DOUBLE   highest KV occupancy, 0-1; null when not recorded
--   read_hit_ratio      DOUBLE   L2 hit rate of SM reads by profiled kernels; compare levels where l2_reuse is
--                                present or none
--   dram_use_ratio      DOUBLE   share of the peak DRAM bandwidth, by counters over time, else of profiled kernels
--   elasticity          DOUBLE   relative growth of throughput over relative growth of load since the level before; null at the first
--   running_max         BIGINT   most requests running
--   waiting_max         BIGINT   most requests waiting
--   preemption_count    BIGINT   preemptions, null when not recorded
--   knee_min_load       DOUBLE   at the knee: lower bound of the load at which elasticity falls below 0.5
--   knee_max_load       DOUBLE   at the knee: upper bound of it
--   place_no            BIGINT   place in the order of load of its sweep, null without load or throughput
--   is_knee             BOOLEAN  last level before elasticity falls below 0.5
--   is_saturation       BOOLEAN  first level with 95 % of a reached plateau
--   is_hit_collapse     BOOLEAN  last level before the L2 hit rate of SM reads collapses
--   is_client_late      BOOLEAN  the client sent fewer requests per second than asked for
-- notes: empty unless the run has at least two levels. A knee needs two levels on each side and loads 1.4
--        times apart, a saturation a plateau of three levels; without them none is claimed.
with

measures as (

    select * from int_sweep_measures

),

knees as (

    select * from int_sweep_knees

),

causes as (

    select * from int_sweep_causes

)

select
    measures.level,
    measures.sweep,
    measures.load_kind,
    causes.cause,
    case
        when causes.place_no is not null then causes.reason
        when knees.knee_place is not null or knees.saturation_place is not null then null
        when
            coalesce(knees.level_count, 0)
            < 2 * threshold('knee_side_levels') then 'too few levels'
        when knees.is_scattered then 'throughput scatters too much from level to level'
        else 'no knee with enough levels on both sides'
    end as reason,
    measures.l2_reuse,
    measures.load,
    measures.level_number,
    measures.concurrency,
    measures.tokens_per_s,
    measures.itl_p50_ms,
    measures.itl_p99_ms,
    measures.ttft_p50_ms,
    measures.kv_used_ratio_max,
    measures.read_hit_ratio,
    measures.dram_use_ratio,
    measures.elasticity,
    measures.running_max,
    measures.waiting_max,
    measures.preemption_count,
    case when measures.place_no = knees.knee_place then knees.knee_min_load end as knee_min_load,
    case when measures.place_no = knees.knee_place then knees.knee_max_load end as knee_max_load,
    measures.place_no,
    coalesce(measures.place_no = knees.knee_place, false) as is_knee,
    coalesce(measures.place_no = knees.saturation_place, false) as is_saturation,
    coalesce(measures.is_hit_collapse, false) as is_hit_collapse,
    coalesce(
        measures.achieved_rate_per_s
        < threshold('sweep_late_ratio') * measures.request_rate_per_s, false
    ) as is_client_late
from measures
left join knees on measures.sweep is not distinct from knees.sweep
left join causes
    on
        measures.sweep is not distinct from causes.sweep
        and measures.place_no = causes.place_no
