"""Bringing a store up to this version, once, whoever comes first."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from auditor.errors import StoreTooNew, StoreUnavailable
from auditor.store._schema import HEAD, VERSION_TABLE
from auditor.store._url import WAIT

MIGRATIONS = Path(__file__).parent / "migrations"

_alembic = threading.Lock()
"""Alembic keeps the migration at hand in its modules."""


def migrate(engine: Engine, name: str) -> None:
    """Make the tables, or bring them up to this version. Raises StoreTooNew where they are ahead of it."""
    with engine.connect() as connection, connection.begin():
        if _version(connection) == HEAD:
            return
    with _alone(engine, name) as connection:
        found = _version(connection)
        if found != HEAD:
            _upgrade(connection, found, name)


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version: str | None = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return version


@contextmanager
def _alone(engine: Engine, name: str) -> Iterator[Connection]:
    """A transaction that no other process has at the same time."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(7305804402)"))
        if engine.dialect.name != "mysql":
            yield connection
            return
        # https://dev.mysql.com/doc/refman/en/locking-functions.html: names are the server's, and end at 64 characters.
        lock = {"lock": f"auditor_{hashlib.sha256(str(engine.url.database).encode()).hexdigest()[:32]}"}
        if connection.execute(text(f"SELECT GET_LOCK(:lock, {WAIT})"), lock).scalar() != 1:
            raise StoreUnavailable(f"store {name}: another process is bringing it up to its version; try again")
        try:
            yield connection
        finally:
            if not connection.invalidated:
                connection.execute(text("SELECT RELEASE_LOCK(:lock)"), lock)


def _upgrade(connection: Connection, found: str | None, name: str) -> None:
    # Not needed, and slow to import, where the store is up to date.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise StoreTooNew(
            f"store {name}: a newer version of the auditor made it (its tables are at {found}, this version knows {HEAD}); "
            "use that version, or another store"
        )
    with _alembic:
        command.upgrade(config, "head")
