-- what:  Scrapes (or rows of a time-series file): when a full set of metric values was taken.
-- grain: one row per scrape
-- key:   source_id, scrape_no
-- columns:
--   source_id   INTEGER  file the row came from
--   scrape_no   BIGINT   number in the file, from 0
--   src_ns      BIGINT   [ns] time on the file's own clock; of a file that states none, on that of the log
--                        whose access lines tell it (clocks.method is 'access_order')
--   end_src_ns  BIGINT   [ns] end of the scrape, null when unknown
--   is_timed    BOOLEAN  whether the time is known (false: only the order is known)
select
    cast(null as integer) as source_id,
    cast(null as bigint) as scrape_no,
    cast(null as bigint) as src_ns,
    cast(null as bigint) as end_src_ns,
    cast(null as boolean) as is_timed
where false
