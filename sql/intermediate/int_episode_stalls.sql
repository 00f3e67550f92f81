-- what:  Stalled token streams that fall into a pressure episode.
-- grain: one row per stall
-- key:   source_id, request_no, start_ns
-- columns:
--   level       VARCHAR  level of a sweep, null when the run has one level
--   replica_id  VARCHAR  engine replica
--   episode_no  BIGINT   episode in the level and replica
--   source_id   INTEGER  client file
--   request_no  BIGINT   request in the file
--   request_id  VARCHAR  client's request id
--   gap_ms      DOUBLE   [ms] silence
--   low_ns      BIGINT   [ns] the engine stopped the request not before
--   high_ns     BIGINT   [ns] the engine stopped the request not after
--   start_ns    BIGINT   [ns] last token before the silence
--   end_ns      BIGINT   [ns] first token after it
-- notes: the step in which a victim is stopped begins within a step of its last token: two median gaps and 20 ms of delivery on both sides. A stall less than episode_gap_s ahead of the first mark belongs to the episode.
with

stalls as (

    select
        gaps.*,
        cast(2e6 * gaps.median_itl_ms + 2e7 as bigint)
        + coalesce(requests.uncertainty_ns, 0) as half_width_ns
    from token_gaps as gaps
    inner join stg_client__requests as requests
        on gaps.source_id = requests.source_id and gaps.request_no = requests.request_no
    where gaps.is_stall and gaps.kv_used_ratio >= threshold('kv_high_ratio')

)

select
    stalls.level,
    stalls.replica_id,
    min(episodes.episode_no) as episode_no,
    stalls.source_id,
    stalls.request_no,
    any_value(stalls.request_id) as request_id,
    any_value(stalls.gap_ms) as gap_ms,
    stalls.start_ns - any_value(stalls.half_width_ns) as low_ns,
    stalls.start_ns + any_value(stalls.half_width_ns) as high_ns,
    stalls.start_ns,
    any_value(stalls.end_ns) as end_ns
from stalls
inner join int_episodes as episodes
    on
        stalls.replica_id = episodes.replica_id
        and stalls.level is not distinct from episodes.level
        and stalls.start_ns <= episodes.last_mark_ns + 1000000000
        -- what an episode's rule puts into one episode: acts less than the gap apart
        and stalls.end_ns
        >= episodes.first_mark_ns - cast(threshold('episode_gap_s') * 1e9 as bigint)
group by stalls.level, stalls.replica_id, stalls.source_id, stalls.request_no, stalls.start_ns
