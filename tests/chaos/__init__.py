"""Kills of everything that a pipeline consists of, while it replicates random changes; `make chaos` runs them."""
