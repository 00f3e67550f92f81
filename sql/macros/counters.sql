-- what:  a kernel's full name as traces and counters share it: no blanks, no casts in template arguments, no
--        return type
-- source: names of the same kernels printed by Nsight Compute 2022.3 to 2025.1 and Nsight Systems
create or replace temp macro counter_name_key(kernel_name) as (
    regexp_replace(
        regexp_replace(
            regexp_replace(kernel_name, '^void ', ''), '\((bool|int|unsigned int)\)', '', 'g'
        ),
        '\s', '', 'g'
    )
);

-- what:  [warps] most warps that one scheduler of a GPU can hold, null for a compute capability that is not listed
-- source: CUDA C++ programming guide, technical specifications per compute capability: resident warps of a
--         multiprocessor over its four schedulers
create or replace temp macro warp_slots(compute_capability) as (
    case
        when compute_capability in ('7.0', '7.2', '8.0', '9.0', '10.0', '10.3') then 16
        when compute_capability in ('8.6', '8.7', '8.9', '12.0', '12.1') then 12
        when compute_capability = '7.5' then 8
    end
);

-- what:  whether the L2 of a GPU has two partitions whose traffic is counted, null for an unknown compute capability
-- source: metrics that the profiler offers for each chip: GA100 and GH100 alone have those of the fabric between them
create or replace temp macro has_l2_partitions(compute_capability) as (
    compute_capability in ('8.0', '9.0')
);

-- what:  whether a GPU has HBM memory, null for an unknown compute capability
-- source: vendor's data sheets of the data-centre parts of each compute capability
create or replace temp macro has_hbm(compute_capability) as (
    compute_capability in ('7.0', '8.0', '9.0', '10.0', '10.3')
);
