"""Benchmarks: the cost of each audit method, and a comparison with other tools. Run with ``python -m benchmarks``."""
