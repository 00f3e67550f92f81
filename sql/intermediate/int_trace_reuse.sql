-- what:  How many other prefix blocks were asked for since a block was last used.
-- grain: one row per request and block that an earlier request used
-- key:   source_id, request_no, block_place
-- columns:
--   source_id       INTEGER  trace file
--   request_no      BIGINT   request
--   block_place     BIGINT   place in the prompt, from 1
--   distance_count  BIGINT   [blocks] different blocks used since: a least-recently-used cache with more blocks than this still has it
-- notes: a request looks its blocks up when it arrives; then its blocks are the most recent, the first of the prompt last of all, as engines free a prompt from its end. The distance is exact: uses in between less those that repeat another of them, counted over a grid of 256 by 256 ranks and its two partial strips.
with

uses as (

    select
        source_id,
        request_no,
        block_place,
        block_id,
        row_number() over (
            partition by source_id order by arrival_no asc, block_place desc
        ) as use_no
    from int_trace_blocks

),

timed as (

    select
        source_id,
        request_no,
        block_place,
        use_no,
        min(use_no) over (partition by source_id, request_no) as lookup_no,
        lag(use_no) over (partition by source_id, block_id order by use_no) as prior_no
    from uses

),

ranked as (

    select
        source_id,
        request_no,
        block_place,
        lookup_no - prior_no - 1 as use_count,
        row_number() over (partition by source_id order by use_no) - 1 as use_rank,
        row_number() over (partition by source_id order by prior_no) - 1 as prior_rank
    from timed
    where prior_no is not null

),

repeats as (

    select
        *,
        min(use_rank) over (partition by source_id, request_no) as lookup_rank
    from ranked

),

cells as (

    select
        source_id,
        use_rank // 256 as use_cell,
        prior_rank // 256 as prior_cell,
        count(*) as repeat_count
    from repeats
    group by source_id, use_rank // 256, prior_rank // 256

),

sides as (

    select
        source_id,
        unnest(range(max(use_rank) // 256 + 1)) as cell
    from repeats
    group by source_id

),

grid as (

    select
        use_sides.source_id,
        use_sides.cell as use_cell,
        prior_sides.cell as prior_cell,
        coalesce(cells.repeat_count, 0) as repeat_count
    from sides as use_sides
    inner join sides as prior_sides on use_sides.source_id = prior_sides.source_id
    left join cells
        on
            use_sides.source_id = cells.source_id
            and use_sides.cell = cells.use_cell
            and prior_sides.cell = cells.prior_cell

),

counted_by_use as (

    select
        source_id,
        use_cell,
        prior_cell,
        coalesce(sum(repeat_count) over (
            partition by source_id, prior_cell order by use_cell
            rows between unbounded preceding and 1 preceding
        ), 0) as before_count
    from grid

),

counted_cells as (

    select
        source_id,
        use_cell,
        prior_cell,
        coalesce(sum(before_count) over (
            partition by source_id, use_cell order by prior_cell desc
            rows between unbounded preceding and 1 preceding
        ), 0) as nested_count
    from counted_by_use

),

counted_in_prior_strip as (

    select
        repeats.source_id,
        repeats.use_rank,
        count(*) as nested_count
    from repeats
    inner join repeats as others
        on
            repeats.source_id = others.source_id
            and repeats.prior_rank // 256 = others.prior_rank // 256
            and repeats.prior_rank < others.prior_rank
            and repeats.lookup_rank // 256 * 256 > others.use_rank
    group by repeats.source_id, repeats.use_rank

),

counted_in_use_strip as (

    select
        repeats.source_id,
        repeats.use_rank,
        count(*) as nested_count
    from repeats
    inner join repeats as others
        on
            repeats.source_id = others.source_id
            and repeats.lookup_rank // 256 = others.use_rank // 256
            and repeats.lookup_rank > others.use_rank
            and repeats.prior_rank < others.prior_rank
    group by repeats.source_id, repeats.use_rank

)

select
    repeats.source_id,
    repeats.request_no,
    repeats.block_place,
    cast(
        repeats.use_count
        - cells.nested_count
        - coalesce(prior_strip.nested_count, 0)
        - coalesce(use_strip.nested_count, 0) as bigint
    ) as distance_count
from repeats
inner join counted_cells as cells
    on
        repeats.source_id = cells.source_id
        and repeats.lookup_rank // 256 = cells.use_cell
        and repeats.prior_rank // 256 = cells.prior_cell
left join counted_in_prior_strip as prior_strip
    on
        repeats.source_id = prior_strip.source_id
        and repeats.use_rank = prior_strip.use_rank
left join counted_in_use_strip as use_strip
    on
        repeats.source_id = use_strip.source_id
        and repeats.use_rank = use_strip.use_rank
