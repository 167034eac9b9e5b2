"""Faults of a pipeline, injected one by one, and what each way of auditing says of them; `make faults` writes docs/faults.md."""
