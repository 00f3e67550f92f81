-- what:  Whether the token arrivals of all clients lie in order, so that the chunk before is the row before.
-- grain: one row
-- key:   is_sorted
-- columns:
--   is_sorted  BOOLEAN  every stream is whole and in the order of its chunks
-- needs: stg_client__tokens
-- build: table; int_token_arrivals asks it at each of its uses
select coalesce(bool_and(is_in_turn), true) as is_sorted
from stg_client__tokens
having count(*) > 0
