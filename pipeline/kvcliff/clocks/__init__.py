"""Every file of a run on one clock: which events two sources share, and the offset and drift they tell."""
