"""Times as text: ISO 8601."""

from __future__ import annotations

import datetime as dt


def parse_time(text: str) -> dt.datetime:
    """Return an ISO 8601 date or time as an aware datetime in UTC; without an offset it is taken as UTC. Raises ValueError."""
    try:
        time = dt.datetime.fromisoformat(text)
        return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise ValueError("write a time as 2026-11-01 or 2026-11-01T06:30:00, in UTC unless it says otherwise") from None
