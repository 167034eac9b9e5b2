"""``auditor.yaml`` and the environment, as typed settings, each declared once: in this package.

A mistake is told with its file and line, and with what to write instead. ``${NAME}`` is an environment variable (an unset one
is an error), ``${file:/path}`` the contents of a file without its last line break. Inside a longer ``url:`` they are
percent-encoded, so that a password may hold any character.
"""

from __future__ import annotations

from auditor.config._audit import Audit, Columns, Limits, Override, Partition, TableRef
from auditor.config._base import Per, Sql, Written, seconds
from auditor.config._connection import Connection, Guest, Heartbeat, PauseWhen
from auditor.config._life import Counts, Ladder, Proxy, Recheck, Rolling, Settle, Threshold, Tolerance
from auditor.config._load import checked, checked_audit, checked_ranges, find, load
from auditor.config._section import KeyRange, Ranges, TimeRange, moment
from auditor.config._service import Schedule, Service
from auditor.config._settings import Channel, Keep, Notify, Occasion, Settings, Store

__all__ = [
    "Audit", "Channel", "Columns", "Connection", "Counts", "Guest", "Heartbeat", "Keep", "KeyRange", "Ladder", "Limits", "Notify",
    "Occasion", "Override", "Partition", "PauseWhen", "Per", "Proxy", "Ranges", "Recheck", "Rolling", "Schedule", "Service", "Settings",
    "Settle", "Sql", "Store", "TableRef", "Threshold", "TimeRange", "Tolerance", "Written", "checked", "checked_audit",
    "checked_ranges", "find", "load", "moment", "seconds",
]  # fmt: skip
