-- what:   a threshold by its name; null when there is none of that name
-- source: sql/seeds/thresholds.csv, overridden by the policy of the run; a variable, which is a constant to the
--         planner: a query of the table would cost a third of a millisecond of planning at each use
set variable thresholds = (select map(list(name), list(value)) from thresholds);
create or replace temp macro threshold(wanted) as (getvariable('thresholds')[wanted]);
