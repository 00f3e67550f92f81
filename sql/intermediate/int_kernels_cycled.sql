-- what:  Kernels that begin an engine step where no sampling kernel ends one, found by the cycle of layers.
-- grain: one row per first kernel or opaque graph of a step
-- key:   source_id, is_opaque, work_no
-- columns:
--   source_id  INTEGER  trace file
--   work_no    BIGINT   number in the file
--   is_opaque  BOOLEAN  a graph whose kernels are invisible
-- notes: each layer writes its KV once, so layers are counted by that. Steps of different kinds (attention
--        of decode, of other queries, of both, inside a graph) leave runs of alike layers; what divides
--        all run lengths is the number of layers, the cut ones at both ends left out. A step begins at the
--        longest pause between the attention of one layer and the KV write of the next. Piecewise
--        opaque graphs leave no such runs; nothing is said then.
with

work as (

    select * from int_gpu_work

),

names as (

    select distinct
        kernel_id,
        family,
        phase,
        max_grid_x,
        is_main
    from int_kernels_named

),

unphased as (

    select
        work.source_id,
        work.process_id,
        work.device_id,
        work.work_no,
        work.is_opaque,
        work.is_in_graph,
        work.start_ns,
        work.end_ns,
        coalesce(names.family = 'sampling', false) as is_sampling,
        coalesce(names.is_main, false) as is_main,
        work.is_opaque or coalesce(names.family = 'kv_write', false) as is_layer,
        coalesce(
            names.phase = 'decode' and work.grid_x <= coalesce(names.max_grid_x, work.grid_x), false
        ) as is_decode
    from work
    left join names on work.kernel_id = names.kernel_id
    where work.step_id is null

),

silent as (

    select
        source_id,
        process_id,
        device_id
    from unphased
    group by source_id, process_id, device_id
    having not bool_or(is_sampling) and bool_or(is_layer)

),

ordered as (

    select
        unphased.*,
        row_number() over in_order as order_no,
        sum(cast(unphased.is_layer as bigint)) over (in_order rows unbounded preceding)
            as layer_no,
        unphased.start_ns - max(unphased.end_ns) over (
            in_order rows between unbounded preceding and 1 preceding
        ) as pause_ns
    from unphased
    semi join silent
        on
            unphased.source_id = silent.source_id
            and unphased.process_id is not distinct from silent.process_id
            and unphased.device_id is not distinct from silent.device_id
    window in_order as (
        partition by unphased.source_id, unphased.process_id, unphased.device_id
        order by unphased.start_ns, unphased.end_ns, unphased.is_opaque, unphased.work_no
    )

),

layers as (

    select
        source_id,
        process_id,
        device_id,
        layer_no,
        bool_or(is_opaque) as is_opaque,
        concat_ws(
            ' ',
            bool_or(is_opaque),
            bool_or(is_main and is_in_graph),
            bool_or(is_main and is_decode),
            bool_or(is_main and not is_decode)
        ) as kind,
        coalesce(max(order_no) filter (where is_main or is_opaque), min(order_no))
            as attention_order_no
    from ordered
    where layer_no > 0
    group by source_id, process_id, device_id, layer_no

),

compared as (

    select
        *,
        coalesce(kind <> lag(kind) over in_order, true) as is_run_start
    from layers
    window in_order as (partition by source_id, process_id, device_id order by layer_no)

),

numbered as (

    select
        *,
        sum(cast(is_run_start as bigint)) over in_order as run_no
    from compared
    window in_order as (
        partition by source_id, process_id, device_id
        order by layer_no rows unbounded preceding
    )

),

runs as (

    select
        source_id,
        process_id,
        device_id,
        run_no,
        min(layer_no) as first_layer_no,
        count(*) as layer_count,
        bool_or(is_opaque) as is_opaque,
        max(run_no) over (partition by source_id, process_id, device_id) as run_count
    from numbered
    group by source_id, process_id, device_id, run_no

),

whole_runs as (

    select
        *,
        min(layer_count) over (partition by source_id, process_id, device_id) as least_count
    from runs
    where not is_opaque and (run_count < 3 or run_no not in (1, run_count))

),

divided as (

    select
        source_id,
        process_id,
        device_id,
        layer_count,
        min(gcd(layer_count, least_count)) over (partition by source_id, process_id, device_id)
            as cycle_length
    from whole_runs

),

cycles as (

    select
        source_id,
        process_id,
        device_id,
        cycle_length
    from divided
    group by source_id, process_id, device_id, cycle_length
    having cycle_length > 1 and bool_and(layer_count % cycle_length = 0)
    union all
    select
        source_id,
        process_id,
        device_id,
        1 as cycle_length
    from runs
    group by source_id, process_id, device_id
    having bool_and(is_opaque)

),

first_layers as (

    select
        numbered.source_id,
        numbered.process_id,
        numbered.device_id,
        numbered.layer_no
    from numbered
    inner join runs
        on
            numbered.source_id = runs.source_id
            and numbered.process_id is not distinct from runs.process_id
            and numbered.device_id is not distinct from runs.device_id
            and numbered.run_no = runs.run_no
    inner join cycles
        on
            numbered.source_id = cycles.source_id
            and numbered.process_id is not distinct from cycles.process_id
            and numbered.device_id is not distinct from cycles.device_id
    where
        numbered.is_opaque
        -- The first run can begin inside a step: it is counted from its end.
        or case
            when runs.run_no = 1 and runs.run_count > 1
                then runs.first_layer_no + runs.layer_count - numbered.layer_no
            else numbered.layer_no - runs.first_layer_no
        end % cycles.cycle_length = 0

),

candidates as (

    select
        first_layers.source_id,
        first_layers.layer_no,
        ordered.process_id,
        ordered.device_id,
        ordered.work_no,
        ordered.is_opaque,
        ordered.order_no,
        ordered.pause_ns
    from first_layers
    inner join layers
        on
            first_layers.source_id = layers.source_id
            and first_layers.process_id is not distinct from layers.process_id
            and first_layers.device_id is not distinct from layers.device_id
            and first_layers.layer_no = layers.layer_no + 1
    inner join ordered
        on
            layers.source_id = ordered.source_id
            and layers.process_id is not distinct from ordered.process_id
            and layers.device_id is not distinct from ordered.device_id
            and layers.layer_no in (ordered.layer_no, ordered.layer_no - 1)
    where
        ordered.order_no > layers.attention_order_no
        and (ordered.layer_no = layers.layer_no or ordered.is_layer)

)

select
    source_id,
    arg_max(work_no, (pause_ns, -order_no)) as work_no,
    arg_max(is_opaque, (pause_ns, -order_no)) as is_opaque
from candidates
group by source_id, process_id, device_id, layer_no
