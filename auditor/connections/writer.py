"""Sessions that may write. Only the pipeline and repairs open them, with the URL under a connection's ``write``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import dialects
from auditor.config import ConnectionSettings
from auditor.errors import AuditorError, BadUrl, ConfigError, MayOnlyRead, StatementRefused
from dialects import Dialect, Session


def writing_dialect(name: str, connection: ConnectionSettings) -> Dialect:
    """Return the dialect of a connection that is written to. Raises MayOnlyRead, and ConfigError for an engine that cannot be loaded."""
    dialect = dialects.by_scheme(dialects.parse_url(_write_url(name, connection)).scheme)
    if not dialect.is_written:
        others = ", ".join(engine.name for engine in dialects.working() if engine.is_written)
        raise ConfigError(f"the connection {name!r}: {dialect.name} is no target of pipelines yet; use one that is ({others})")
    return dialect


def _write_url(name: str, connection: ConnectionSettings) -> str:
    if connection.write is None:
        raise MayOnlyRead(f"the connection {name!r} may only read; add write: {{url: ...}} to it")
    return connection.write.url


def patching_dialect(name: str, connection: ConnectionSettings) -> Dialect:
    """Return the dialect of a connection whose rows are patched. Raises MayOnlyRead, and ConfigError for an engine that cannot."""
    dialect = dialects.by_scheme(dialects.parse_url(_write_url(name, connection)).scheme)
    if not dialect.is_written:
        why = f"the rows of {dialect.name}'s tables cannot be changed one by one; copy the range again"
        raise ConfigError(f"the connection {name!r}: {why}")
    if connection.database != connection.model_copy(update={"url": _write_url(name, connection)}).database:
        raise ConfigError(f"the connection {name!r}: write: url leads to another database than url; write the same one")
    return dialect


def open_patch_session(name: str, connection: ConnectionSettings) -> Session:
    """Open a session that patches rows, which the caller closes. Raises ConfigError, BadUrl and EngineError."""
    dialect = patching_dialect(name, connection)
    assert connection.write
    return _connect(dialect, connection, dialect.writing.WRITE_SETTINGS)


def open_files_for_writing(connections: Mapping[str, ConnectionSettings], written: str) -> dict[str, ConnectionSettings]:
    """Return the connections, of which those to the file of the connection ``written`` open it as its writer does.

    A process that writes a file cannot open it a second time as one that only reads.
    """
    settings = connections[written]
    dialect = patching_dialect(written, settings)
    reopened = dict(connections)
    for name, connection in connections.items() if dialect.OPENS_FILES else ():
        with suppress(BadUrl):  # reported when that connection is used
            if connection.database == settings.database:
                url = re.sub(r"access_mode=[^&]*&?", "", connection.url)
                reopened[name] = connection.model_copy(update={"url": f"{url}{'&' if '?' in url else '?'}access_mode=read_write"})
    return reopened


@contextmanager
def open_writer(name: str, connection: ConnectionSettings) -> Iterator[Session]:
    """Open a session that may write for the block. Raises ConfigError, BadUrl and EngineError."""
    session = open_session(name, connection)
    try:
        yield session
    finally:
        session.close()


def open_session(name: str, connection: ConnectionSettings, longest_wait: float = math.inf) -> Session:
    """Open a session that may write, which the caller closes. Raises ConfigError, BadUrl and EngineError.

    While another process has the target's file open, it waits as long as for any lock, and ``longest_wait`` seconds at most.
    """
    dialect = writing_dialect(name, connection)
    writing = dialect.writing
    session = _connect(dialect, connection, [*writing.WRITE_SETTINGS, *writing.MERGE_SETTINGS], longest_wait)
    if writing.LOADS == "by files" and (why := session.loading.why_no_files()):
        session.close()
        raise ConfigError(f"the connection {name!r}: {why}")
    return session


def _connect(dialect: Dialect, connection: ConnectionSettings, settings: Sequence[str], longest_wait: float = math.inf) -> Session:
    """Open a session with the URL that may write, and run the statements of ``settings`` in it."""
    assert connection.write
    limits, url = connection.limits, dialect.addresses.write_url(dialects.parse_url(connection.write.url))
    lock_timeout = min(limits.lock_timeout, longest_wait) if dialect.OPENS_FILES else limits.lock_timeout
    session = dialect.connect(url, limits.statement_timeout, lock_timeout)
    try:
        for statement in settings:
            session.execute(statement)
    except AuditorError:
        session.close()
        raise
    return session


@contextmanager
def transaction(session: Session) -> Iterator[None]:
    """Commit what the block writes, or roll all of it back if the block fails."""
    session.execute("BEGIN")
    try:
        yield
    except BaseException:
        with suppress(AuditorError):  # the connection may be lost, and with it the transaction
            session.execute("ROLLBACK")
        raise
    session.execute("COMMIT")


def create_table(session: Session, statement: str) -> None:
    """Run a CREATE TABLE IF NOT EXISTS. Raises EngineError.

    PostgreSQL refuses one of two that make the same table at once, in spite of IF NOT EXISTS; on the second attempt it is there.
    """
    try:
        session.execute(statement)
    except StatementRefused:
        session.execute(statement)
