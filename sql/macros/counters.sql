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
