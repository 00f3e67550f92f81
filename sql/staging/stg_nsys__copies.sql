-- what:  Memory copies and sets of GPU traces on the run clock.
-- grain: one row per operation
-- key:   source_id, copy_no
-- columns:
--   level           VARCHAR  level of a sweep, null when the run has one level
--   replica_id      VARCHAR  engine replica
--   source_id       INTEGER  trace file
--   copy_no         BIGINT   number in the file
--   device_id       INTEGER  GPU index
--   process_id      UBIGINT  process key
--   stream_id       INTEGER  CUDA stream
--   correlation_id  BIGINT   links to the launch call of the same process
--   kind            VARCHAR  htod, dtoh, dtod, htoh, ptop, uvm_htod, uvm_dtoh, uvm_dtod, memset or other
--   source_memory   VARCHAR  pageable, pinned, device, managed or other
--   target_memory   VARCHAR  pageable, pinned, device, managed or other
--   bytes           BIGINT   bytes copied or set
--   start_ns        BIGINT   [ns] start, run clock
--   end_ns          BIGINT   [ns] end, run clock
select
    sources.level,
    coalesce(sources.replica, '0') as replica_id,
    copies.source_id,
    copies.copy_no,
    copies.device_id,
    copies.process_id,
    copies.stream_id,
    copies.correlation_id,
    copies.kind,
    copies.source_memory,
    copies.target_memory,
    copies.bytes,
    copies.start_src_ns + sources.offset_ns as start_ns,
    copies.end_src_ns + sources.offset_ns as end_ns
from raw_copies as copies
inner join stg_sources as sources on copies.source_id = sources.source_id
