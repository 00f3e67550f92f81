-- what:  Requests whose token stream stalled in a swap point.
-- grain: one row per swap point and request
-- key:   swap_point_id, source_id, request_no
-- columns:
--   level          VARCHAR  level of a sweep, null when the run has one level
--   replica_id     VARCHAR  engine replica
--   swap_point_id  BIGINT   swap point
--   source_id      INTEGER  client file
--   request_no     BIGINT   request in the file
--   request_id     VARCHAR  client's request id
--   prompt_tokens  BIGINT   prompt tokens
--   output_tokens  BIGINT   generated tokens
--   gap_count      BIGINT   stalls of the request in the swap point
--   gap_ms         DOUBLE   [ms] longest stall
--   gap_total_ms   DOUBLE   [ms] all stalls
--   start_ns       BIGINT   [ns] start of the first stall
--   end_ns         BIGINT   [ns] end of the last stall
with

numbered as (

    select
        points.swap_point_id,
        episodes.level,
        episodes.replica_id,
        episodes.episode_no
    from swap_points as points
    inner join int_episode_spans as episodes
        on
            points.replica_id = episodes.replica_id
            and points.level is not distinct from episodes.level
            and points.at_ns = episodes.at_ns
            and points.end_ns = episodes.end_ns

)

select
    stalls.level,
    stalls.replica_id,
    numbered.swap_point_id,
    stalls.source_id,
    stalls.request_no,
    any_value(stalls.request_id) as request_id,
    any_value(requests.prompt_tokens) as prompt_tokens,
    any_value(requests.output_tokens) as output_tokens,
    count(*) as gap_count,
    max(stalls.gap_ms) as gap_ms,
    fsum(stalls.gap_ms) as gap_total_ms,
    min(stalls.start_ns) as start_ns,
    max(stalls.end_ns) as end_ns
from int_episode_stalls as stalls
inner join numbered
    on
        stalls.replica_id = numbered.replica_id
        and stalls.level is not distinct from numbered.level
        and stalls.episode_no = numbered.episode_no
inner join requests
    on stalls.source_id = requests.source_id and stalls.request_no = requests.request_no
group by
    stalls.level, stalls.replica_id, numbered.swap_point_id, stalls.source_id, stalls.request_no
