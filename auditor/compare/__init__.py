"""Comparison of both sides' summaries: pure functions over arrays, without clock, socket or thread."""
