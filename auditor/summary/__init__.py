"""Summaries between SQL and comparison: arrays, their stored form, the field, measures and minhashes."""
