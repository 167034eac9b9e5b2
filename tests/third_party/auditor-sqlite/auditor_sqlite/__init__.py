"""SQLite as an engine of auditor."""
