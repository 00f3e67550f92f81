"""The database: opening it, filling raw tables from a run folder, building the SQL models, storing marts."""
