"""One place where runs are kept: opening it, reading it, and writing it wholly or not at all."""

from __future__ import annotations

import datetime as dt
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, bindparam, create_engine, event, exc, func, select, type_coerce

from auditor.errors import StoreUnavailable
from auditor.store import _migrate
from auditor.store._errors import collided, told
from auditor.store._types import Moment
from auditor.store._url import POSTGRES_PINS, WAIT, parsed

Result = TypeVar("Result")

TRIES = 6


class Store:
    """A store that is open. Any thread may use it."""

    def __init__(self, engine: Engine, name: str, reads: Engine | None = None) -> None:
        self.engine = engine
        self.name = name
        """The URL without the password."""
        self.reads = reads or engine
        """By which it is read: on servers, connections that begin no transactions."""
        self._file = _file(engine)
        self._held = threading.local()

    def close(self) -> None:
        """Close every connection that is not in use."""
        self.engine.dispose()
        self.reads.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that only reads: in one transaction on SQLite, whose statements are cheaper then, and on servers in none.

        There a statement sees what was committed before it either way, and is spared two messages. Raises errors of the tree,
        StoreError among them.
        """
        with told(self.name):
            if held := getattr(self._held, "connection", None):
                yield held
                return
            with self.reads.connect() as connection, connection.begin():
                yield connection

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let one connection be all that this thread reads by in the block, which costs less than many. Raises StoreError."""
        with self.reading() as connection:
            before, self._held.connection = getattr(self._held, "connection", None), connection
            try:
                yield
            finally:
                self._held.connection = before

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Do the work in one transaction, again where another process wrote the same at the same moment. Raises StoreError.

        The work must not do anything that cannot be done twice.
        """
        with told(self.name):
            for tried in range(1, TRIES + 1):
                try:
                    with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
                        done = work(connection)
                    if _file(self.engine) != self._file:  # what is open would be written on, and be gone at the end
                        raise StoreUnavailable(f"store {self.name}: its file was deleted or replaced while it was in use")
                    return done
                except exc.DBAPIError as error:
                    if tried == TRIES or not collided(error):
                        raise
                    time.sleep(random.uniform(0, 0.02 * tried))
        raise AssertionError("the last try returns or raises")


def _file(engine: Engine) -> int | None:
    """Which file SQLite's database is; None where there is none, or it is another database's."""
    path = engine.url.database if engine.dialect.name == "sqlite" else None
    try:
        return Path(path).stat().st_ino if path else None
    except OSError:
        return None


def now(connection: Connection) -> dt.datetime:
    """What time it is by the database's clock, which all that share a store share; SQLite's is this machine's."""
    if connection.dialect.name == "sqlite":
        return dt.datetime.now(dt.UTC)
    return connection.execute(select(clock(connection.dialect.name))).scalar_one()


def clock(database: str) -> ColumnElement[dt.datetime]:
    """`now` as a part of another statement."""
    if database == "sqlite":
        return bindparam("clock", callable_=lambda: dt.datetime.now(dt.UTC), type_=Moment)
    return type_coerce(func.utc_timestamp(6) if database == "mysql" else func.clock_timestamp(), Moment)


def open_store(url: str) -> Store:
    """Open a store, make what is missing of it, and bring it up to this version. Raises BadUrl and StoreError.

    Any number of processes may do so at once.
    """
    address = parsed(url)
    shared: dict[str, Any] = {"connect_args": dict(address.options), "hide_parameters": True}
    if address.url.drivername == "sqlite":
        engine = reads = create_engine(address.url, **shared)
        event.listen(engine, "connect", _pin_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        # One statement sees what was committed before it, the same on PostgreSQL and MySQL, whatever the server's default is.
        shared["pool_pre_ping"] = True
        engine = create_engine(address.url, isolation_level="READ COMMITTED", **shared)
        reads = create_engine(address.url, isolation_level="AUTOCOMMIT", **shared)
        for one in (engine, reads) if engine.dialect.name == "postgresql" else ():
            event.listen(one, "connect", _pin_postgres)
    try:
        with told(address.name):
            if engine.dialect.name == "sqlite":
                _prepare_sqlite(engine)
            _migrate.migrate(engine, address.name)
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, address.name, reads)


def _pin_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions at moments of its own
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at once: one that first read would fail, not wait, where another wrote in between.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _pin_postgres(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(POSTGRES_PINS)
    connection.commit()


def _prepare_sqlite(engine: Engine) -> None:
    """Once for the file: readers and the writer do not wait for each other, and what is deleted can be given back."""
    connection = engine.raw_connection()
    try:
        driver: Any = connection.driver_connection
        until = time.monotonic() + WAIT
        while driver.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                driver.execute("PRAGMA auto_vacuum = INCREMENTAL")
                driver.execute("PRAGMA journal_mode = WAL").fetchone()
                break  # "delete" where the file system cannot: it serves, with more waiting
            except sqlite3.OperationalError as error:
                # SQLite does not wait by itself here when two processes do this at once.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.02)
    finally:
        connection.close()
