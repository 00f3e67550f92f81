-- Formulas behind predictions and advice: what a measured step becomes with another batch or KV.

-- what:   decode step after a change of what it reads
-- unit:   ms; step_ms measured, bytes that it read and that it would read
-- source: roofline of a bandwidth-bound step at the share of the peak bandwidth that this run reached
create or replace temp macro scaled_step_ms(step_ms, read_bytes, new_read_bytes) as (
    step_ms * new_read_bytes / nullif(read_bytes, 0)
);

-- what:   decode step when it reads fewer bytes for the same batch
-- unit:   ms; saved bytes of one step, bytes per second at which they were read
-- source: only the time of the saved bytes goes away; launches, sampling and computing stay
create or replace temp macro shortened_step_ms(step_ms, saved_bytes, bytes_per_s) as (
    step_ms - transfer_ms(saved_bytes, bytes_per_s)
);

-- what:   token rate after a change of batch and step time
-- unit:   tokens per second; batch_factor new over old sequences, step times in ms
-- source: one token per sequence and step; pauses between steps grow as the steps do
create or replace temp macro scaled_tokens_per_s(
    tokens_per_s, batch_factor, step_ms, new_step_ms
) as (
    tokens_per_s * batch_factor * step_ms / nullif(new_step_ms, 0)
);

-- what:   growth of the load at which the highest occupancy reaches the ceiling when requests vary
--         independently of each other
-- unit:   factor; mean and peak occupancy 0-1
-- source: n requests take a mean that grows with n and a scatter that grows with its square root:
--         mean x r + (peak - mean) x sqrt(r) = 1, solved for r
create or replace temp macro independent_growth(mean_ratio, peak_ratio) as (
    pow(
        (
            sqrt(pow(peak_ratio - mean_ratio, 2) + 4e0 * mean_ratio)
            - (peak_ratio - mean_ratio)
        ) / nullif(2e0 * mean_ratio, 0),
        2
    )
);

-- what:   share of transfers that must be over before they are needed
-- unit:   0-1; one transfer and one decode step in ms
-- source: then the mean wait, (1 - share) x transfer, stays within one decode step
create or replace temp macro needed_prefetch_ratio(transfer_time_ms, step_ms) as (
    case
        when transfer_time_ms > step_ms then 1e0 - step_ms / transfer_time_ms
        when transfer_time_ms <= step_ms then 0e0
    end
);
