"""kvcliff: finds the KV-cache cliff in a load test and explains slow token generation."""

__version__ = "0.1.0"
