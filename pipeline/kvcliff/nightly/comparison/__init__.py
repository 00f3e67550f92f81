"""Two or more runs against each other: matching, statistics, verdicts, causes and the page that says so."""
