"""What the auditor costs, and how it does beside other tools: ``python -m benchmarks``."""
