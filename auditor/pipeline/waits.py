"""How long the loops of a pipeline wait."""

from __future__ import annotations

FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before what failed is tried again the first time, and at most; each wait is twice the one before."""

FIRST_RECONNECT, LONGEST_RECONNECT = 0.1, 5.0
"""The same before the binary log's connection is opened again."""

POLL = 0.5
"""Seconds between two looks at the store for what another process staged."""
