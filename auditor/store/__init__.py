"""The store: runs and their results, and the state of resuming, rolling audits, scheduling and the service.

`open_store` opens a SQLite file or a database on a server. The functions of the modules read and write it; each call is one
transaction. They raise StoreError for whatever a driver raises (`_driver_errors` translates it).

A module of the store is imported by who uses it (``from auditor.store import runs``), so that a command loads what it needs alone.

Names: ``get_`` returns one value, ``list_`` many, ``save_`` and ``record_`` write, ``delete_`` removes.
"""

from __future__ import annotations

from auditor.store.database import Store, open_store

__all__ = ["Store", "open_store"]
