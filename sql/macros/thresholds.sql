-- what:  the value of a named threshold of sql/seeds/thresholds.csv, in the unit stated there
-- source: seed table thresholds, overridden by --policy
create or replace temp macro threshold(wanted) as (
    select thresholds.value from thresholds where thresholds.name = wanted
);
