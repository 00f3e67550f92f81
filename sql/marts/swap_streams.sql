-- what:  Token streams around the worst swap point, for a look from close by.
-- grain: one row per request and time bin in which it got tokens
-- key:   source_id, request_no, ts_ns
-- columns:
--   level          VARCHAR  level of a sweep, null when the run has one level
--   replica_id     VARCHAR  engine replica
--   swap_point_id  BIGINT   the worst swap point: surest class, then longest stall
--   source_id      INTEGER  client file
--   request_no     BIGINT   request in the file
--   request_id     VARCHAR  client's request id
--   stream_no      BIGINT   victims first, by their longest stall; others in order of arrival
--   tokens         BIGINT   tokens of the stream since the window began
--   is_victim      BOOLEAN  its stream stalled in this swap point
--   ts_ns          BIGINT   [ns] last arrival in the bin
-- notes: from zoom_before_s ahead of the first action to zoom_after_s behind the end of the first stalls, at most zoom_longest_s; zoom_streams victims and as many others.
with

worst as (

    select *
    from swap_points
    where class in ('confirmed', 'probable') and victim_count > 0
    qualify
        row_number()
            over (
                order by
                    case class when 'confirmed' then 0 else 1 end,
                    -longest_gap_ms,
                    at_ns,
                    swap_point_id
            )
        = 1

),

hit as (

    select
        victims.*,
        worst.at_ns
    from victims
    inner join worst on victims.swap_point_id = worst.swap_point_id

),

framed as (

    select
        hit.level,
        hit.replica_id,
        hit.swap_point_id,
        min(hit.at_ns) - cast(threshold('zoom_before_s') * 1e9 as bigint) as start_ns,
        least(
            max(hit.end_ns) filter (
                where hit.start_ns
                <= hit.at_ns + cast(threshold('zoom_longest_s') * 5e8 as bigint)
            )
            + cast(threshold('zoom_after_s') * 1e9 as bigint),
            min(hit.at_ns) + cast(threshold('zoom_longest_s') * 1e9 as bigint)
        ) as end_ns
    from hit
    group by hit.level, hit.replica_id, hit.swap_point_id

),

arrived as (

    select
        framed.level,
        framed.replica_id,
        framed.swap_point_id,
        arrivals.source_id,
        arrivals.request_no,
        hit.gap_ms,
        hit.request_no is not null as is_victim,
        -- 400 bins: what a page can show
        (arrivals.ts_ns - framed.start_ns) * 400 // (framed.end_ns - framed.start_ns) as bin_no,
        sum(coalesce(arrivals.tokens, 1)) over (
            partition by arrivals.source_id, arrivals.request_no
            order by arrivals.ts_ns, arrivals.chunk_no
        ) as tokens,
        requests.request_id,
        requests.arrival_ns,
        arrivals.ts_ns
    from framed
    inner join int_token_arrivals as arrivals
        on
            framed.replica_id = arrivals.replica_id
            and framed.level is not distinct from arrivals.level
            and framed.start_ns <= arrivals.ts_ns
            and framed.end_ns > arrivals.ts_ns
    inner join requests
        on arrivals.source_id = requests.source_id and arrivals.request_no = requests.request_no
    left join hit
        on arrivals.source_id = hit.source_id and arrivals.request_no = hit.request_no
    -- victims of later stalls are neither the story nor bystanders
    where
        hit.request_no is null
        or hit.start_ns <= hit.at_ns + cast(threshold('zoom_longest_s') * 5e8 as bigint)

),

numbered as (

    select
        *,
        dense_rank() over (
            order by
                case when is_victim then 0 else 1 end,
                -gap_ms nulls last,
                arrival_ns,
                request_id,
                source_id,
                request_no
        ) as stream_no,
        count(
            distinct case
                when is_victim then struct_pack(source := source_id, request := request_no)
            end
        ) over () as victim_count
    from arrived

),

kept as (

    select *
    from numbered
    where
        case
            when is_victim then stream_no <= threshold('zoom_streams')
            else stream_no <= victim_count + threshold('zoom_streams')
        end

)

select
    kept.level,
    kept.replica_id,
    kept.swap_point_id,
    kept.source_id,
    kept.request_no,
    any_value(kept.request_id) as request_id,
    any_value(kept.stream_no) as stream_no,
    cast(max(kept.tokens) as bigint) as tokens,
    any_value(kept.is_victim) as is_victim,
    max(kept.ts_ns) as ts_ns
from kept
group by
    kept.level,
    kept.replica_id,
    kept.swap_point_id,
    kept.source_id,
    kept.request_no,
    kept.bin_no
