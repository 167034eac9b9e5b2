"""Tests that need no server: pure functions, and whole runs on DuckDB."""
