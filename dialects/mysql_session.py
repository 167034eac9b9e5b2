"""A session on MySQL or MariaDB: equal snapshots under a table lock, streamed results, cancelled statements."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

from dialects import errors
from dialects.base import Session
from dialects.kinds import Kind
from dialects.pooler import Probe
from dialects.session import BATCH_ROWS, DriverSession
from dialects.text_lines import text_lines
from dialects.url import Url

MAX_LOCK_SECONDS = 1
"""Seconds to wait for the lock under which sessions open equal snapshots, and to hold it; writers to the table wait as long."""


INSERT_BYTES = 1 << 20
"""Bytes of one statement that inserts rows of a copy: longer ones are no quicker."""


PROBE = Probe(
    mark="SET @auditor_session = '{mark}'",
    ask="SELECT CONNECTION_ID(), @auditor_session",
    remedy="or keep the pooler from multiplexing this user's sessions",
)
"""https://dev.mysql.com/doc/refman/9.4/en/user-variables.html"""


def open_connection(url: Url, port: int) -> Any:
    """Return a new connection of PyMySQL in autocommit mode; ``port`` is used if the URL has none. Raises the driver's errors.

    Each answer is waited for as long as the URL's ``connect_timeout`` says, or 10 seconds.
    """
    options: dict[str, Any] = {}
    if "ssl_ca" in url.options:
        options["ssl_ca"] = url.options["ssl_ca"]
    if url.option("ssl", "") in ("false", "0"):
        options["ssl_disabled"] = True
    patience = url.integer_option("connect_timeout", 10)
    return _connection_class()(
        host=url.host or "localhost",
        port=url.port or port,
        user=url.user or "",
        password=url.password or "",
        database=url.database or None,
        unix_socket=url.options.get("unix_socket"),
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=patience,
        read_timeout=patience,
        write_timeout=patience,
        **options,
    )


@cache
def _connection_class() -> Any:
    """Return PyMySQL's class with one TLS context for all connections that verify no certificate: to make one takes 30 ms."""
    from pymysql.connections import Connection

    plain: Any = Connection  # whose annotations leave this method out

    class CachingConnection(plain):  # type: ignore[misc]
        _unverified: list[Any] = []

        def _create_ssl_ctx(self, settings: Any) -> Any:
            if settings:
                return super()._create_ssl_ctx(settings)
            if not self._unverified:
                self._unverified.append(super()._create_ssl_ctx({}))
            return self._unverified[0]

    return CachingConnection


def server_version(connection: Any) -> str:
    """Return the version that the server named when the connection was made."""
    return str(connection.get_server_info()).removeprefix("5.5.5-")  # MariaDB feigns it, because old replicas read one digit


class MySQLSession(DriverSession):
    """A session over PyMySQL."""

    def share_snapshot(self, sessions: Sequence[Session], table: str, helper: Session | None) -> bool:
        # MySQL cannot export a snapshot. A table lock keeps writers out while each session opens its own, so all are equal. The server
        # grants it within a second or not at all, and takes it back from a session that is silent for a second, even if this process
        # hangs; a server that is slow to open the snapshots meanwhile loses the session that holds it.
        # https://dev.mysql.com/doc/refman/9.4/en/lock-tables.html
        assert isinstance(helper, DriverSession)
        isolation, start = self.dialect.BEGIN_SNAPSHOT
        for session in sessions:
            session.execute(isolation)
        self.end()
        self.execute(isolation)
        helper.execute(f"SET SESSION lock_wait_timeout = {MAX_LOCK_SECONDS}, wait_timeout = {MAX_LOCK_SECONDS}")
        try:
            with helper.wait_at_most(2 * MAX_LOCK_SECONDS):
                helper.execute(f"LOCK TABLES {table} READ")
            with helper.wait_at_most(MAX_LOCK_SECONDS), ThreadPoolExecutor(len(sessions) + 1, thread_name_prefix="snapshot") as pool:
                list(pool.map(lambda session: session.execute(start), [self, *sessions]))
                helper.execute("UNLOCK TABLES")
        except errors.AccessDenied:
            self.begin()
            return False
        except (errors.LockTimeout, errors.StatementTimeout) as error:
            self.begin()
            raise errors.LockTimeout(f"{table} could not be locked for a moment, as others use it: {error}") from error
        except errors.ConnectionLost as error:
            helper.close()  # closing the session also releases its lock
            self.begin()
            raise errors.LockTimeout(f"{table} was locked, and within {MAX_LOCK_SECONDS} s not all snapshots were begun") from error
        return True

    def fetch_batches(self, sql: str) -> Generator[list[tuple[Any, ...]]]:
        from pymysql.cursors import SSCursor

        cursor: Any = self.connection.cursor(SSCursor)
        try:
            cursor.execute(sql)
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield list(rows)
        finally:
            result = cursor._result
            with suppress(Exception):  # closing reads the rest of the result, which fails on a lost connection
                cursor.close()
            if result:
                result.unbuffered_active = False  # else the driver reads on when it is collected as garbage
            cursor.connection = None

    def load(self, table: str, columns: Mapping[str, Kind], rows: Any) -> None:
        # Not by LOAD DATA LOCAL, which makes warnings of values that do not fit, and which servers forbid by default.
        # https://dev.mysql.com/doc/refman/9.4/en/load-data.html
        assert self.dialect.LINES
        lines = text_lines(columns, rows, self.dialect.LINES)
        pieces = (lines.slice(first, BATCH_ROWS).to_pylist() for first in range(0, len(lines), BATCH_ROWS))
        self.load_lines(table, [self.dialect.quote(name) for name in columns], pieces)

    def load_lines(self, table: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
        begin = f"INSERT INTO {table} ({', '.join(columns)}) VALUES\n"
        room = min(INSERT_BYTES, self.dialect.MAX_STATEMENT_BYTES // 2)
        some: list[str] = []
        used = 0
        for line in (line for batch in lines for line in batch):
            size = len(line) if line.isascii() else len(line.encode())
            if len(begin) + size >= self.dialect.MAX_STATEMENT_BYTES:
                raise errors.StatementRefused(
                    f"a row takes {size:,} bytes in a statement, and the server takes {self.dialect.MAX_STATEMENT_BYTES:,} at most; raise"
                    " max_allowed_packet there"
                )
            if some and used + size > room:
                self.execute(begin + ",\n".join(some))
                some, used = [], 0
            some.append(line)
            used += size
        if some:
            self.execute(begin + ",\n".join(some))

    def cancel_statement(self) -> str:
        return f"KILL QUERY {self.process_id}"  # not what the connection was told when it was made, perhaps by a proxy
