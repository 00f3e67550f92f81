"""Comparing runs with each other, and the nightly gate."""
