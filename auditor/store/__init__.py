"""What is kept: runs, what they found, and what resuming, rolling and scheduling need to remember.

`open_store` opens an SQLite file or a database on a server; the modules' functions read and write it, each call one
transaction. What a driver raises is turned into errors of the tree in `_errors` alone.
"""

from __future__ import annotations

from auditor.store._store import Store, open_store

from . import chunks, claims, defined, events, queue, repairs, retention, runs, slots, standing, stretches, tokens, told

__all__ = [
    "Store",
    "chunks",
    "claims",
    "defined",
    "events",
    "open_store",
    "queue",
    "repairs",
    "retention",
    "runs",
    "slots",
    "standing",
    "stretches",
    "tokens",
    "told",
]  # fmt: skip
