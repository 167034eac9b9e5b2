"""The names of the table that `auditor heartbeat run` writes."""

from __future__ import annotations

HEARTBEAT_TABLE = "auditor_heartbeat"
"""The table, in the database of the connection by which it is written."""

HEARTBEAT_COLUMN = "beat_at"
"""Its column with the time of the last heartbeat, in UTC."""
