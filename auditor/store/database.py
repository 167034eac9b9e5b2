"""Open a store by its URL, create or migrate its tables, read it, and write it in transactions."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    bindparam,
    create_engine,
    event,
    exc,
    func,
    inspect,
    select,
    text,
    type_coerce,
)
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_fixed

import dialects
from auditor.durations import durations
from auditor.errors import BadUrl, StoreError, StoreTooNew, StoreUnavailable
from auditor.store._driver_errors import is_write_conflict, translate_errors
from auditor.store.schema import HEAD, VERSION_TABLE, Moment
from dialects import extras
from dialects.mysql import login as mysql_login
from dialects.postgres import login as postgres_login

Result = TypeVar("Result")

MAX_ATTEMPTS = 6
"""Attempts at a transaction that conflicts with another process's."""

PRIVATE = 0o600
"""Mode of SQLite's file: only its owner may read it."""


class Store:
    """An open store; thread-safe."""

    def __init__(self, engine: Engine, name: str, read_engine: Engine | None = None) -> None:
        self.engine = engine
        self.name = name
        """The URL without the password."""
        self.read_engine = read_engine or engine
        """The engine for reading; on servers its connections are in autocommit mode."""
        self._inode = _file_inode(engine)
        self._shared = threading.local()

    def close(self) -> None:
        """Close all connections that are not in use."""
        self.engine.dispose()
        self.read_engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Return a connection for reading, as a context manager. Driver errors in the block become StoreError.

        On SQLite the block is one transaction, because statements outside of one are slower. On servers it has none: each statement
        sees what was committed before it even within a transaction (READ COMMITTED), and BEGIN and COMMIT would cost two round trips.
        """
        if writing := self._writing():
            yield writing  # whose transaction retries a conflict, which a StoreError would hide
            return
        with self._translate_errors():
            if shared := getattr(self._shared, "connection", None):
                yield shared
                return
            with self.read_engine.connect() as connection, connection.begin():
                yield connection

    @contextmanager
    def share_connection(self) -> Iterator[None]:
        """Use one connection for everything this thread reads in the block, instead of one per call. Raises StoreError."""
        with self.reading() as connection:
            outer, self._shared.connection = getattr(self._shared, "connection", None), connection
            try:
                yield
            finally:
                self._shared.connection = outer

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run ``work`` in one transaction, retrying it on a write conflict with another process. Raises StoreError.

        ``work`` may run several times, so it must have no effects outside of the transaction. What it reads and writes through the store
        in its thread is in the same transaction: so functions that are a transaction each become one together. Of these an error must
        not be caught within ``work``: a statement that failed may have ended the transaction.
        """
        if writing := self._writing():
            return work(writing)
        with self._translate_errors():
            result: Result = retry_conflicts(self._write_once, work)
        return result

    def _writing(self) -> Connection | None:
        """Return the connection of the transaction in which this thread writes; None outside of `write`."""
        connection: Connection | None = getattr(self._shared, "writing", None)
        return connection

    @contextmanager
    def sqlite_driver(self) -> Iterator[Any]:
        """Yield the driver's connection to SQLite's file, outside transactions; None of a store on a server. Raises StoreError."""
        if self.engine.dialect.name != "sqlite":
            yield None
            return
        with translate_errors(self.name):
            connection = self.engine.raw_connection()
            try:
                yield connection.driver_connection
            finally:
                connection.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise a StoreError in place of a driver's error in the block; one that says so, where SQLite's file was deleted or replaced."""
        try:
            with translate_errors(self.name):
                yield
        except StoreError as error:
            self._check_file(error)  # a new connection makes an empty file, which lacks every table
            raise

    def _check_file(self, cause: StoreError | None = None) -> None:
        """Raise StoreUnavailable if SQLite's file is no longer the one that was opened."""
        if _file_inode(self.engine) != self._inode:
            raise StoreUnavailable(f"store {self.name}: its file was deleted or replaced while in use; restart this process") from cause

    def _write_once(self, work: Callable[[Connection], Result]) -> Result:
        with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
            self._shared.writing = connection
            try:
                result = work(connection)
            finally:
                self._shared.writing = None
        self._check_file()  # else the transaction went to a file that no longer has a name, and will be lost
        return result


def _conflict_pause(attempt: RetryCallState) -> float:
    """Return random seconds, so that the same processes do not collide again; more after each attempt."""
    return random.uniform(0, 0.02 * attempt.attempt_number)


retry_conflicts = Retrying(
    retry=retry_if_exception(lambda error: isinstance(error, exc.DBAPIError) and is_write_conflict(error)),
    stop=stop_after_attempt(MAX_ATTEMPTS),
    wait=_conflict_pause,
    reraise=True,
)


def _file_inode(engine: Engine) -> int | None:
    """Return the inode of SQLite's file; None if the file does not exist, or the store is on a server."""
    path = engine.url.database if engine.dialect.name == "sqlite" else None
    try:
        return Path(path).stat().st_ino if path else None
    except OSError:
        return None


def database_time(connection: Connection) -> dt.datetime:
    """Return the current time (UTC) by the database's clock, which all processes share; for SQLite by this host's clock."""
    if connection.dialect.name == "sqlite":
        return dt.datetime.now(dt.UTC)
    return connection.execute(select(time_expression(connection.dialect.name))).scalar_one()


def time_expression(database: str) -> ColumnElement[dt.datetime]:
    """Return an SQL expression for `database_time`, for the dialect that SQLAlchemy calls ``database``."""
    if database == "sqlite":
        return bindparam("clock", callable_=lambda: dt.datetime.now(dt.UTC), type_=Moment)
    return type_coerce(func.utc_timestamp(6) if database == "mysql" else func.clock_timestamp(), Moment)


def open_store(url: str) -> Store:
    """Open a store: create its tables if needed, and migrate them to this version. Raises BadUrl and StoreError.

    Several processes may open the same store concurrently.
    """
    address = parse_store_url(url)
    shared: dict[str, Any] = {"connect_args": dict(address.options), "hide_parameters": True}
    if address.url.drivername == "sqlite":
        _create_private(str(address.url.database))
        engine = read_engine = create_engine(address.url, **shared)
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        # The same isolation on PostgreSQL and MySQL, whatever the server's default is.
        shared["pool_pre_ping"] = True
        backend = address.url.get_backend_name()
        extras.require(f"the store {address.name}", "postgres" if backend == "postgresql" else "mysql")
        if backend == "postgresql":
            from auditor.store._bounded_postgres import BoundedConnection

            shared["connect_args"]["connection_factory"] = BoundedConnection
        engine = create_engine(address.url, isolation_level="READ COMMITTED", **shared)
        read_engine = create_engine(address.url, isolation_level="AUTOCOMMIT", **shared)
        for each in (engine, read_engine) if engine.dialect.name == "postgresql" else ():
            event.listen(each, "connect", _configure_postgres)
    try:
        with translate_errors(address.name):
            if engine.dialect.name == "sqlite":
                _prepare_sqlite(engine)
            migrate(engine, address.name)
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, address.name, read_engine)


def _create_private(path: str) -> None:
    """Create SQLite's file, if there is none, so that only its owner can read it: it holds keys and values. -wal and -shm are alike."""
    with suppress(OSError):  # SQLite says what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE))


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # else the driver starts transactions implicitly
    connection.execute("PRAGMA foreign_keys = ON")
    # Some builds of SQLite write zeros over what is deleted: deleting would then need as much room on the disk as it frees.
    connection.execute("PRAGMA secure_delete = FAST")


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock immediately: upgrading from a read lock fails without waiting if another process wrote in between.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _configure_postgres(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(postgres_settings())
    connection.commit()


def _prepare_sqlite(engine: Engine) -> None:
    """Set the file's persistent modes: WAL, so that readers and the writer do not block each other, and incremental vacuum.

    A file system without shared memory keeps the journal mode "delete", with which everything works, but waits more.
    """
    connection = engine.raw_connection()
    try:
        # SQLite's busy timeout does not apply when two processes switch to WAL concurrently.
        retry_busy = Retrying(
            retry=retry_if_exception(_is_busy),
            stop=stop_after_delay(durations().store_lock),
            wait=wait_fixed(durations().store_busy),
            reraise=True,
        )
        retry_busy(_switch_to_wal, connection.driver_connection)
    finally:
        connection.close()


def _switch_to_wal(driver: Any) -> None:
    if driver.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        driver.execute("PRAGMA auto_vacuum = INCREMENTAL")
        driver.execute("PRAGMA journal_mode = WAL").fetchone()


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mysql+pymysql", "postgresql": "postgresql+psycopg2", "postgres": "postgresql+psycopg2"}
"""SQLAlchemy's name of the driver by a URL's scheme; a scheme that already names the driver means the same."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a store. ``name`` is its URL without the password; ``options`` are arguments of the driver's ``connect``."""

    name: str
    url: URL
    options: Mapping[str, Any]


def parse_store_url(text: str) -> Address:
    """Parse a store's URL. Raises BadUrl; its message does not contain ``text``, which may hold a password."""
    if text.startswith("sqlite:"):
        return _sqlite_address(text)
    given = dialects.parse_url(text)
    driver = DRIVERS.get(given.scheme.removesuffix("+pymysql").removesuffix("+psycopg2"))
    if driver is None:
        raise BadUrl(
            f"store: url has the scheme {given.scheme}://, which is not supported; use sqlite:///, postgresql://, mysql:// or mariadb://"
        )
    if not given.database:
        raise BadUrl(f"store: url {given} names no database; append its name: /DATABASE")
    if driver.startswith("postgresql"):
        options = postgres_login.libpq_options(given)
        url = URL.create(driver, database=given.database)
        return Address(str(given), url, options)
    url = URL.create(driver, given.user, given.password, given.host or "localhost", given.port, given.database)
    return Address(str(given), url, _mysql_options(given))


def _sqlite_address(text: str) -> Address:
    path = text.removeprefix("sqlite:///")
    if path == text or path in ("", ":memory:"):
        raise BadUrl("store: url names no SQLite file; write sqlite:///relative/path or sqlite:////absolute/path")
    if "?" in path:
        raise BadUrl("store: url of a SQLite file has options after a question mark, and SQLite's has none; remove them")
    return Address(text, URL.create("sqlite", database=path), {"timeout": durations().store_lock})


def _mysql_options(url: dialects.Url) -> dict[str, Any]:
    return {
        **mysql_login.login_options(url),
        "charset": "utf8mb4",
        "read_timeout": durations().store_answer,
        "write_timeout": durations().store_answer,
        "sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
        "init_command": f"SET time_zone = '+00:00', innodb_lock_wait_timeout = {durations().store_lock}",
    }


def postgres_settings() -> str:
    """Return a session's settings, which are statements because connection poolers reject them as connection options."""
    lock = f"SET lock_timeout = '{durations().store_lock}s'"
    return f"SET TIME ZONE 'UTC'; SET extra_float_digits = 3; {lock}; SET standard_conforming_strings = on"


MIGRATIONS = Path(__file__).parent / "migrations"

_alembic_lock = threading.Lock()
"""Held while a migration runs: Alembic keeps the current migration in module globals."""


def migrate(engine: Engine, name: str) -> None:
    """Create the tables, or migrate them to `HEAD`.

    Raises StoreTooNew if this version does not know their schema, StoreUnavailable if another process does not finish migrating.
    """
    # In a store of this version one statement says so. Where it fails, as in an empty store, the transaction below raises what is wrong.
    with engine.connect() as connection, suppress(exc.OperationalError, exc.ProgrammingError), connection.begin():
        if connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar() == HEAD:
            return
    with _exclusive_transaction(engine, name) as connection:
        version = _stored_version(connection)
        if version != HEAD:
            upgrade_schema(connection, version, name)


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
        if connection.execute(text(f"SELECT GET_LOCK(:lock, {durations().store_lock})"), lock).scalar() != 1:
            raise StoreUnavailable(f"store {name}: another process has not finished migrating it; retry")
        try:
            yield connection
        finally:
            if not connection.invalidated:
                connection.execute(text("SELECT RELEASE_LOCK(:lock)"), lock)


def upgrade_schema(connection: Connection, version: str | None, name: str) -> None:
    """Run the migrations after a version, or all on an empty store (None). ``name`` is the store's, for messages. Raises StoreError."""
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
