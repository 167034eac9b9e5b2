"""The salt of a store, from which digests of masked values are made: random, and the same for all processes and for ever."""

from __future__ import annotations

import secrets
from weakref import WeakKeyDictionary

from sqlalchemy import Column, Connection, Integer, Table, insert, select

from auditor.store.database import Store
from auditor.store.schema import long_binary, metadata

salts = Table(
    "auditor_salt",
    metadata,
    Column("number", Integer(), primary_key=True, autoincrement=False),
    Column("salt", long_binary(), nullable=False),
)
"""The store's salt, in one row, whose number is 1."""

BYTES = 32
"""Length of a salt."""

_known: WeakKeyDictionary[Store, bytes] = WeakKeyDictionary()


def get_salt(store: Store) -> bytes:
    """Return the store's salt, which the first call creates. Raises StoreError."""
    if store not in _known:
        with store.reading() as connection:
            salt = connection.execute(select(salts.c.salt)).scalar()
        if salt is None:
            return store.write(_create)  # not known before it is read: the transaction may be a part of one that ends in an error
        _known[store] = bytes(salt)
    return _known[store]


def _create(connection: Connection) -> bytes:
    stored_salt = connection.execute(select(salts.c.salt)).scalar()
    if stored_salt is not None:
        return bytes(stored_salt)
    salt = secrets.token_bytes(BYTES)
    connection.execute(insert(salts).values(number=1, salt=salt))  # of two processes the primary key lets one insert it
    return salt
