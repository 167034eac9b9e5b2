"""Migrate the store to the current schema; safe when several processes start at once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from auditor.errors import StoreTooNew, StoreUnavailable
from auditor.store._schema import HEAD, VERSION_TABLE
from auditor.waits import waits

MIGRATIONS = Path(__file__).parent / "migrations"

_alembic_lock = threading.Lock()
"""Held while a migration runs: Alembic keeps the current migration in module globals."""


def migrate(engine: Engine, name: str) -> None:
    """Create the tables, or migrate them to `HEAD`.

    Raises StoreTooNew if this version does not know their schema, StoreUnavailable if another process does not finish migrating.
    """
    with engine.connect() as connection, connection.begin():
        if _stored_version(connection) == HEAD:
            return
    with _exclusive_transaction(engine, name) as connection:
        version = _stored_version(connection)
        if version != HEAD:
            _upgrade(connection, version, name)


def _stored_version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version: str | None = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return version


@contextmanager
def _exclusive_transaction(engine: Engine, name: str) -> Iterator[Connection]:
    """A write transaction that only one process holds at a time."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(7305804402)"))
        if engine.dialect.name != "mysql":
            yield connection
            return
        # https://dev.mysql.com/doc/refman/en/locking-functions.html: names are global to the server, 64 characters at most.
        lock = {"lock": f"auditor_{hashlib.sha256(str(engine.url.database).encode()).hexdigest()[:32]}"}
        if connection.execute(text(f"SELECT GET_LOCK(:lock, {waits().store_lock})"), lock).scalar() != 1:
            raise StoreUnavailable(f"store {name}: another process has not finished migrating it; retry")
        try:
            yield connection
        finally:
            if not connection.invalidated:
                connection.execute(text("SELECT RELEASE_LOCK(:lock)"), lock)


def _upgrade(connection: Connection, version: str | None, name: str) -> None:
    # Imported here because it is slow, and only needed for a migration.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if version is not None and version not in known:
        raise StoreTooNew(
            f"store {name}: another version of the auditor made it: its schema is {version}, and this version knows {HEAD};"
            " upgrade the auditor, or use another store"
        )
    with _alembic_lock:
        command.upgrade(config, "head")
