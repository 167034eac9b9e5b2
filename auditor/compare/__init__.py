"""Comparing two sides' summaries: pure functions over arrays, with no clock, socket or thread."""
