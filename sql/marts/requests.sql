-- what:  Requests as their load client saw them.
-- grain: one row per request
-- key:   source_id, request_no
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica_id      VARCHAR  engine replica
--   source_id       INTEGER  client file
--   request_no      BIGINT   request in the file
--   request_id      VARCHAR  client's request id
--   tag             VARCHAR  tag or level name given by the client
--   prompt_tokens   BIGINT   prompt tokens
--   output_tokens   BIGINT   generated tokens
--   cached_tokens   BIGINT   prompt tokens served from a cache, when reported
--   ttft_ms         DOUBLE   [ms] time to first token
--   e2e_ms          DOUBLE   [ms] end-to-end latency, the client's own figure when it states one
--   tpot_ms         DOUBLE   [ms] (last token, else end of stream - first token) / (output tokens - 1)
--   itl_median_ms   DOUBLE   [ms] median chunk gap
--   longest_gap_ms  DOUBLE   [ms] longest chunk gap
--   is_error        BOOLEAN  failed, cancelled or incomplete
--   is_warmup       BOOLEAN  not part of the measurement
--   is_slo_met      BOOLEAN  TTFT and TPOT within the stated objectives, null without objectives
--   arrival_ns      BIGINT   [ns] run clock, null when the client keeps no times
--   first_token_ns  BIGINT   [ns] run clock
--   end_ns          BIGINT   [ns] run clock
with

objectives as (

    select
        max(number) filter (where name = 'slo_ttft_ms') as slo_ttft_ms,
        max(number) filter (where name = 'slo_itl_ms') as slo_itl_ms
    from settings
    where is_effective

),

measured as (

    select
        requests.level,
        coalesce(requests.replica, matched.replica_id, replicas.replica_id, '0') as replica_id,
        requests.source_id,
        requests.request_no,
        requests.request_id,
        requests.tag,
        requests.prompt_tokens,
        requests.output_tokens,
        requests.cached_tokens,
        requests.ttft_ns / 1e6 as ttft_ms,
        coalesce(requests.latency_ns, requests.end_ns - requests.arrival_ns) / 1e6 as e2e_ms,
        (
            coalesce(streams.last_ns, requests.last_token_ns, requests.end_ns)
            - requests.first_token_ns
        )
        / nullif(requests.output_tokens - 1, 0) / 1e6 as tpot_ms,
        streams.median_gap_ns / 1e6 as itl_median_ms,
        streams.longest_gap_ns / 1e6 as longest_gap_ms,
        requests.is_error,
        requests.is_warmup,
        requests.arrival_ns,
        requests.first_token_ns,
        requests.end_ns
    from stg_client__requests as requests
    left join int_client_replicas as replicas
        on requests.level is not distinct from replicas.level and replicas.request_no is null
    left join int_client_replicas as matched
        on requests.source_id = matched.source_id and requests.request_no = matched.request_no
    left join int_token_streams as streams
        on requests.source_id = streams.source_id and requests.request_no = streams.request_no

)

select
    measured.level,
    measured.replica_id,
    measured.source_id,
    measured.request_no,
    measured.request_id,
    measured.tag,
    measured.prompt_tokens,
    measured.output_tokens,
    measured.cached_tokens,
    measured.ttft_ms,
    measured.e2e_ms,
    measured.tpot_ms,
    measured.itl_median_ms,
    measured.longest_gap_ms,
    measured.is_error,
    measured.is_warmup,
    case
        when objectives.slo_ttft_ms is null and objectives.slo_itl_ms is null then null
        when measured.is_error then false
        else
            coalesce(measured.ttft_ms <= objectives.slo_ttft_ms, true)
            and coalesce(measured.tpot_ms <= objectives.slo_itl_ms, true)
    end as is_slo_met,
    measured.arrival_ns,
    measured.first_token_ns,
    measured.end_ns
from measured
cross join objectives
