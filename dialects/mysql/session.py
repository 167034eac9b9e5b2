"""A session on MySQL or MariaDB: equal snapshots under a table lock, streamed results, cancelled statements."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Literal

from dialects import errors
from dialects.base import Dialect, Session
from dialects.durations import durations
from dialects.log_places import PlacedSession
from dialects.mysql import settings
from dialects.mysql.driver import close_unread
from dialects.mysql.reading_lines import fetch_lines
from dialects.mysql.writing import MySQLLoading
from dialects.pooler import Probe, changes_of_session
from dialects.session import FETCHED_ROWS, Driver, DriverSession
from dialects.settings import find_others, refuse_others

PROBE = Probe(
    mark=f"SET {settings.MARK} = '{{mark}}'",
    ask=f"SELECT CONNECTION_ID(), {settings.MARK}",
    suggestion="or keep the pooler from multiplexing this user's sessions",
)

IN_TRANSACTION = 1
"""The bit of a server's status that says that a transaction is open.
https://dev.mysql.com/doc/dev/mysql-server/latest/mysql__com_8h.html#a1d854e841086925be1883e4d7b4e8cad"""


def server_version(connection: Any) -> str:
    """Return the version that the server named when the connection was made."""
    return str(connection.get_server_info()).removeprefix("5.5.5-")  # MariaDB feigns it, because old replicas read one digit


def server_label(version: str) -> str:
    """Return the name and version of a server that reports this version."""
    return f"MariaDB {version}" if "mariadb" in version.lower() else f"MySQL {version}"


class MySQLSession(DriverSession, PlacedSession):
    """A session over PyMySQL."""

    _unknown: Sequence[str] = ()
    """Variables that the server does not have, of those that sessions set."""

    _shared_at = ""
    """The place of the log at which the shared snapshot stands that is open; empty where it is not known."""

    def __init__(self, dialect: Dialect, server: str, connection: Any, driver: Driver) -> None:
        super().__init__(dialect, server, connection, driver)
        self.loading = MySQLLoading(self)

    def pin(self, statement_timeout: float, lock_timeout: float) -> None:
        values = settings.assignments(self._is_mariadb, statement_timeout, lock_timeout)
        self._unknown = settings.assign(self, self._is_mariadb, values, self.mark)
        self.statements = 0

    def read_server(self, has_md5: bool) -> settings.Answer:
        """Hold the settings that were made, and return what the server says of the session and of itself.

        Whether MD5() exists is asked for unless the server ``has_md5`` for certain. Raises SessionNotKept for a setting that the server
        keeps otherwise.
        """
        wanted = self._wanted()
        server = settings.read(self, list(wanted), has_md5)
        refuse_others(self.driver.where, wanted, server.values)
        self.process_id, self.server_place = server.process, server.place
        return server

    def _wanted(self) -> dict[str, str]:
        """Return the settings on which results depend, as far as the server knows them."""
        known = {name: value for name, value in settings.results(self._is_mariadb).items() if name not in self._unknown}
        return known | settings.names(self._is_mariadb)

    def find_changes(self, *, in_snapshot: bool) -> list[str]:
        wanted = self._wanted()
        process, mark, place, values = settings.read_back(self, list(wanted))
        return changes_of_session(self, process, mark, place) + find_others(wanted, values)

    def transaction(self) -> Literal["none", "open", "failed", "unknown"]:
        return "open" if int(self.connection.server_status) & IN_TRANSACTION else "none"

    def end(self) -> None:
        self._shared_at = ""
        super().end()

    def _start(self, start: str) -> None:
        self.execute(start)
        self.in_snapshot = True

    def share_snapshot(self, sessions: Sequence[Session], table: str, helper: Session | None) -> bool:
        # MySQL cannot export a snapshot. A table lock keeps writers out while each session opens its own, so all are equal. The server
        # grants it within a second or not at all, and takes it back from a session that is silent for a second, even if this process
        # hangs; a server that is slow to open the snapshots meanwhile loses the session that holds it.
        # https://dev.mysql.com/doc/refman/9.4/en/lock-tables.html
        assert isinstance(helper, DriverSession)
        isolation, start = self.dialect.BEGIN_SNAPSHOT
        others = [session for session in sessions if isinstance(session, MySQLSession)]
        for session in others:
            session.execute(isolation)
        self.end()
        self.execute(isolation)
        helper.execute(f"SET SESSION lock_wait_timeout = {durations().snapshot_lock}, wait_timeout = {durations().snapshot_lock}")
        try:
            with helper.wait_at_most(2 * durations().snapshot_lock):
                helper.execute(f"LOCK TABLES {table} READ")
            with (
                helper.wait_at_most(durations().snapshot_lock),
                ThreadPoolExecutor(len(sessions) + 1, thread_name_prefix="snapshot") as pool,
            ):
                list(pool.map(lambda session: session._start(start), [self, *others]))
                place = _log_end_if_allowed(helper)
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
            longest = durations().snapshot_lock
            raise errors.LockTimeout(f"{table} was locked, and within {longest} s not all snapshots were begun") from error
        self._shared_at = place
        return True

    def log_end(self) -> str:
        # MySQL 8.2 renamed the statement, 8.4 removed the old one. https://dev.mysql.com/doc/refman/8.4/en/show-binary-log-status.html
        version = tuple(int(digits) for digits in re.findall(r"\d+", self.server)[:2])
        rows = self.query("SHOW BINARY LOG STATUS" if not self._is_mariadb and version >= (8, 2) else "SHOW MASTER STATUS")
        return f"{rows[0][0]}:{rows[0][1]}" if rows else ""

    def snapshot_position(self) -> str:
        if self._shared_at:
            return self._shared_at
        # MariaDB reports it of the open snapshot itself; MySQL has no such variables. https://mariadb.com/kb/en/enhancements-for-start-transaction-with-consistent-snapshot/
        status = {str(name).lower(): str(value) for name, value in self.query("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'")}
        file, offset = status.get("binlog_snapshot_file", ""), status.get("binlog_snapshot_position", "")
        return f"{file}:{offset}" if file else ""

    def state_read(self, table: str) -> str:
        # Of a replica, which is read as it stands. The ids are asked for in the open snapshot, which shows nothing that came later.
        # https://dev.mysql.com/doc/refman/9.4/en/replication-options-gtids.html, https://mariadb.com/kb/en/gtid/#gtid_slave_pos
        if not self.in_snapshot:
            return ""
        ids = "@@GLOBAL.gtid_slave_pos" if self._is_mariadb else "IF(@@GLOBAL.gtid_mode = 'ON', @@GLOBAL.gtid_executed, '')"
        [(read_only, executed)] = self.query(f"SELECT @@GLOBAL.read_only, {ids}")
        if str(read_only) in ("0", "OFF"):
            return ""
        behind = _on_one_line(executed)
        return f"a read-only server is read, {f'at GTID {behind} or before' if behind else 'which has no GTIDs'}, {self._describe_lag()}"

    def _describe_lag(self) -> str:
        """Return how far replication into this server is behind, as a clause."""
        try:
            lag = self.dialect.server.server_load(self, ["lag"])["lag"]
        except errors.AccessDenied:
            return "and its lag is not known, because its user may not ask for the state of replication"
        return "while its replication was stopped" if lag == math.inf else f"{lag:.0f} s behind what it has received"

    def identify(self) -> str:
        # https://dev.mysql.com/doc/refman/9.4/en/replication-options.html#sysvar_server_uuid
        if self._is_mariadb:
            number, domain = self.query("SELECT @@GLOBAL.server_id, @@GLOBAL.gtid_domain_id")[0]
            return f"server id {number}, domain {domain}"
        return str(self.query("SELECT @@GLOBAL.server_uuid")[0][0])

    def storage_engine(self, table: Sequence[str]) -> str:
        schema, name = (self.dialect.names.literal(part) for part in table[-2:])
        rows = self.query(f"SELECT engine FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {name}")
        engine = str(rows[0][0] or "a view") if rows else "unknown"
        return "" if engine.lower() == "innodb" else engine

    def begin_placed(self) -> str:
        # MariaDB says in a snapshot at which place of its log it stands; Percona Server, by its manual, too.
        # https://mariadb.com/kb/en/enhancements-for-start-transaction-with-consistent-snapshot/
        self.begin()
        status = {str(name).lower(): str(value) for name, value in self.query("SHOW STATUS LIKE 'binlog_snapshot_%'")}
        file, offset = status.get("binlog_snapshot_file", ""), status.get("binlog_snapshot_position", "")
        return f"{file}:{offset}" if file and offset.isdecimal() else ""

    def executed_ids(self) -> str:
        # Without a log, or in the other modes of ids, transactions get none, and earlier ids are still listed.
        # https://dev.mysql.com/doc/refman/9.4/en/replication-options-gtids.html#sysvar_gtid_mode
        every = "@@GLOBAL.log_bin = 1 AND @@GLOBAL.gtid_mode = 'ON'"
        return "" if self._is_mariadb else _on_one_line(self.query(f"SELECT IF({every}, @@GLOBAL.gtid_executed, '')")[0][0])

    def owned_ids(self) -> str:
        # Each id is followed by the threads that own it. https://dev.mysql.com/doc/refman/9.4/en/replication-options-gtids.html
        return "" if self._is_mariadb else re.sub("#[0-9]+", "", _on_one_line(self.query("SELECT @@GLOBAL.gtid_owned")[0][0]))

    def are_executed(self, ids: str, executed: str) -> bool:
        if not ids:
            return True
        literal = self.dialect.names.string_literal
        return bool(self.query(f"SELECT GTID_SUBSET({literal(ids)}, {literal(executed)})")[0][0])

    def begin_locked(self, table: str, helper: Session, log_end: Callable[[], str]) -> str:
        # Not by FLUSH TABLES, whose waiting keeps writers off. https://dev.mysql.com/doc/refman/9.4/en/lock-tables.html
        assert isinstance(helper, DriverSession)
        isolation, start = self.dialect.BEGIN_SNAPSHOT
        self.execute(isolation)
        helper.execute(f"SET SESSION lock_wait_timeout = {durations().snapshot_lock}, wait_timeout = {durations().snapshot_lock}")
        try:
            with helper.wait_at_most(2 * durations().snapshot_lock):
                helper.execute(f"LOCK TABLES {table} READ")
            with helper.wait_at_most(durations().snapshot_lock):
                self._start(start)
                place = log_end()
                helper.execute("UNLOCK TABLES")
        except (errors.LockTimeout, errors.StatementTimeout) as error:
            raise errors.LockTimeout(f"{table} could not be locked for a moment, as others use it: {error}") from error
        except errors.ConnectionLost as error:
            helper.close()  # closing the session also releases its lock
            raise errors.LockTimeout(f"{table} was locked, and within {durations().snapshot_lock} s no snapshot was begun") from error
        return place

    @property
    def _is_mariadb(self) -> bool:
        return self.server.startswith("MariaDB")

    def fetch_batches(self, sql: str) -> Generator[list[tuple[Any, ...]]]:
        from pymysql.cursors import SSCursor

        cursor: Any = self.connection.cursor(SSCursor)
        try:
            cursor.execute(sql)
            while rows := cursor.fetchmany(FETCHED_ROWS):
                yield list(rows)
        finally:
            close_unread(cursor)

    def stream_lines(self, sql: str) -> Iterator[tuple[int, bytes | None]]:
        with closing(self.pass_on(fetch_lines(self.connection, sql))) as blocks:
            for count, lines in blocks:
                self._result_size += len(lines or b"")
                yield count, lines

    def cancel_statement(self) -> str:
        return f"KILL QUERY {self.process_id}"  # not what the login returned when the connection was made, perhaps by a proxy


def _log_end_if_allowed(session: Session) -> str:
    assert isinstance(session, PlacedSession)
    try:
        return session.log_end()
    except errors.AccessDenied:
        return ""


def _on_one_line(ids: Any) -> str:
    """Return ids without the line breaks that the server puts between those of several servers."""
    text = ids.decode() if isinstance(ids, bytes) else str(ids or "")
    return "".join(text.split())
