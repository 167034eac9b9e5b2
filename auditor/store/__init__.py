"""The store: runs and their results, and the state of resuming, rolling audits, scheduling and the service.

`open_store` opens a SQLite file or a database on a server. The functions of the modules read and write it; each call is one
transaction. They raise StoreError for whatever a driver raises (`_errors` translates it).

Names: ``get_`` returns one value, ``list_`` many, ``save_`` and ``record_`` write, ``delete_`` removes.
"""

from __future__ import annotations

from auditor.store import (
    audit_state,
    bootstraps,
    chunks,
    definitions,
    events,
    evidence,
    holds,
    lags,
    leases,
    live_epochs,
    notifications,
    parts,
    patch_requests,
    patches,
    pipelines,
    problems,
    queue,
    refreshes,
    repairs,
    retention,
    rolling_parts,
    runs,
    salt,
    schedule_claims,
    scrubbing,
    segment_register,
    segments,
    slots,
    tokens,
    trackers,
)
from auditor.store._store import Store, open_store

__all__ = [
    "Store",
    "audit_state",
    "bootstraps",
    "chunks",
    "definitions",
    "events",
    "evidence",
    "holds",
    "lags",
    "leases",
    "live_epochs",
    "notifications",
    "open_store",
    "parts",
    "patch_requests",
    "patches",
    "pipelines",
    "problems",
    "queue",
    "refreshes",
    "repairs",
    "retention",
    "rolling_parts",
    "runs",
    "salt",
    "schedule_claims",
    "scrubbing",
    "segment_register",
    "segments",
    "slots",
    "tokens",
    "trackers",
]  # fmt: skip
