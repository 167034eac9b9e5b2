"""Sessions that may write. Only the pipeline and repairs open them, with the URL under a connection's ``write``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import dialects
from auditor.config import ConnectionSettings
from auditor.errors import AuditorError, ConfigError
from dialects import Dialect, Session


def writing_dialect(name: str, connection: ConnectionSettings) -> Dialect:
    """Return the dialect of a connection that is written to. Raises ConfigError without ``write``, or if its engine cannot be loaded."""
    if connection.write is None:
        raise ConfigError(f"the connection {name!r} may only read; add write: {{url: ...}} to it")
    dialect = dialects.by_scheme(dialects.parse_url(connection.write.url).scheme)
    if not dialect.LOADS:
        raise ConfigError(f"the connection {name!r}: {dialect.name} is no target of pipelines yet; use one that is (postgresql, duckdb)")
    return dialect


@contextmanager
def open_writer(name: str, connection: ConnectionSettings) -> Iterator[Session]:
    """Open a session that may write for the block. Raises ConfigError, BadUrl and EngineError."""
    session = open_session(name, connection)
    try:
        yield session
    finally:
        session.close()


def open_session(name: str, connection: ConnectionSettings) -> Session:
    """Open a session that may write, which the caller closes. Raises ConfigError, BadUrl and EngineError."""
    dialect = writing_dialect(name, connection)
    assert connection.write
    limits = connection.limits
    url = dialect.write_url(dialects.parse_url(connection.write.url))
    return dialect.connect(url, limits.statement_timeout, limits.lock_timeout)


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
