"""The salt of a store, from which digests of masked values are made: random, and the same for all processes and for ever.

It is a row of the table of left-out rows, under the name that no audit has: the empty one.
"""

from __future__ import annotations

import secrets
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, insert, select

from auditor.store._schema import left_out
from auditor.store._store import Store

BYTES = 32
"""Length of a salt."""

NO_AUDIT = ""

_known: WeakKeyDictionary[Store, bytes] = WeakKeyDictionary()
_FIND = select(left_out.c.body).where(left_out.c.audit == NO_AUDIT)


def get_salt(store: Store) -> bytes:
    """Return the store's salt, which the first call creates. Raises StoreError."""
    if store not in _known:
        with store.reading() as connection:
            found = connection.execute(_FIND).scalar()
        _known[store] = bytes(found) if found is not None else store.write(_create)
    return _known[store]


def _create(connection: Connection) -> bytes:
    found = connection.execute(_FIND).scalar()
    if found is not None:
        return bytes(found)
    salt = secrets.token_bytes(BYTES)
    connection.execute(insert(left_out).values(audit=NO_AUDIT, settings="salt", body=salt))
    return salt
