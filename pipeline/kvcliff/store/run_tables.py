"""Tables of a run that the store and the findings write; no model builds them."""

#: Tables that the store itself writes for each run, beside raw tables and marts.
RUN_TABLES = ("runs", "sources", "clocks", "findings", "thresholds")

FINDINGS_DDL = """
create or replace temp table findings (
    finding_no integer, finding varchar, verdict varchar, severity varchar, confidence double,
    summary varchar, action varchar, capture varchar, evidence varchar, reason varchar
)
"""
