"""The server of a schema tracker: whose it is, the dump of its schema, and statements that are replayed there."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from auditor.errors import AccessDenied, AuditorError, ConfigError, ConnectionLost, Unreachable
from auditor.pipeline.binlog.log_connection import Source, query
from auditor.pipeline.binlog.table_statements import TableStatement
from auditor.pipeline.binlog.tracked_columns import TrackedTable
from auditor.pipeline.tracker.replay import Name, describe_tables, quote
from auditor.points import reach
from dialects.mysql.errors import driver_errors, translate_error
from dialects.mysql.expressions import MySQLNames
from dialects.mysql.session import server_version

OWN = "auditor_tracker"
"""The database that says whose tracker a server is."""

SYSTEM = frozenset({"mysql", "information_schema", "performance_schema", "sys", "ndbinfo"})
"""Databases of the servers themselves."""

PARSED_MODES = 1 | 2 | 4 | 8 | 64 | 1 << 9 | 1 << 20 | 1 << 29
"""Bits of sql_mode that decide how a statement is read: REAL_AS_FLOAT, PIPES_AS_CONCAT, ANSI_QUOTES, IGNORE_SPACE, NO_UNSIGNED_SUBTRACTION,
ORACLE, NO_BACKSLASH_ESCAPES, HIGH_NOT_PRECEDENCE. The others are left out: what the source took as strict, is taken here anyhow, and a
storage engine that is missing on this server is replaced. https://mariadb.com/kb/en/sql-mode/"""
NO_DIRECTORIES = 1 << 7
"""The bit of NO_DIR_IN_CREATE: folders of the source are not made here."""
ORACLE = 1 << 9

SESSION = (
    "SET SESSION foreign_key_checks = 0",
    "SET SESSION innodb_strict_mode = 0",
    "SET SESSION sql_require_primary_key = 0",
    "SET SESSION sql_generate_invisible_primary_key = 0",
    "SET SESSION system_versioning_alter_history = 'KEEP'",
    "SET SESSION check_constraint_checks = 0",
    "SET SESSION lock_wait_timeout = 10",
    "SET SESSION sql_log_bin = 0",
)
"""Tables are empty here, and those that foreign keys name may be missing. Each server knows some of these."""

UNKNOWN_VARIABLE = 1193
READ_ONLY_HERE = (1227, 1231, 1238)

_NEXT_NUMBER = re.compile(r" AUTO_INCREMENT=\d+")


@dataclass(slots=True)
class TrackerServer:
    """A server that has a pipeline's tables without rows, over one connection."""

    source: Source
    """The tracker's server; its name says whose it is, for messages."""
    pipeline: str
    token: str
    """What its database ``auditor_tracker`` must say."""
    _connection: Any = None

    def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        if connection:
            with suppress(Exception):  # it may be lost
                connection.close()

    def is_there(self) -> bool:
        """Return whether the connection still works; a server ends one that is idle for long."""
        try:
            self.connection.ping(reconnect=False)
        except driver_errors():
            self.close()
            return False
        return True

    @property
    def connection(self) -> Any:
        """The connection, opened if need be. Raises errors of ``auditor.errors``."""
        if self._connection is None:
            self._connection = self.source.connect()
            for statement in SESSION:
                self._set(statement)
        return self._connection

    def check_own(self, origin: Source, carried: Callable[[str], bool], marks: bool = True) -> None:
        """Check that this server may be used, as the tracker of this pipeline alone, and mark it as such. Raises ConfigError."""
        with closing(origin.connect()) as connection:
            if unfit := find_unfit(self.connection, connection):
                raise ConfigError(f"{self.source.name}: {unfit}")
        tables = _count_tables(self.connection)
        owner = self._owner() if OWN in _list_databases(self.connection) else None
        if owner is None:
            if foreign := sorted(set(tables) - {OWN}):
                raise ConfigError(self._holds(foreign))
            if marks:
                self._mark()
        elif owner[1] != self.token:
            raise ConfigError(
                f"{self.source.name}: the server at tracker: is that of pipeline {owner[0]!r} of another store; give it an empty server, or"
                f" drop the databases of this one, {OWN} last"
            )
        elif foreign := sorted(database for database in tables if database != OWN and not carried(database)):
            raise ConfigError(self._holds(foreign))

    def _holds(self, foreign: list[str]) -> str:
        return (
            f"{self.source.name}: the server at tracker: holds tables that are not the tracker's, in {', '.join(foreign[:3])}; give it a"
            " server of its own, which has none"
        )

    def _owner(self) -> tuple[str, str] | None:
        with suppress(AuditorError):
            rows = query(self.connection, f"SELECT pipeline, token FROM {OWN}.owner")
            return (str(rows[0][0]), str(rows[0][1])) if rows else None
        return None

    def _mark(self) -> None:
        literal = MySQLNames().string_literal
        self.run(f"CREATE DATABASE IF NOT EXISTS {OWN} CHARACTER SET utf8mb4")
        self.run(f"CREATE TABLE IF NOT EXISTS {OWN}.owner (pipeline varchar(255) NOT NULL PRIMARY KEY, token varchar(64) NOT NULL)")
        self.run(f"DELETE FROM {OWN}.owner")
        self.run(f"INSERT INTO {OWN}.owner VALUES ({literal(self.pipeline)}, {literal(self.token)})")

    def run(self, statement: str) -> None:
        """Run a statement of the tracker's own. Raises errors of ``auditor.errors``."""
        if error := self._failure(statement):
            raise error

    def make_databases(self, names: Collection[str]) -> None:
        """Make databases that are not here, because the source's user could not see them before they had tables. Raises AuditorError."""
        for name in sorted(set(names) - _list_databases(self.connection)):
            self.run(f"CREATE DATABASE {quote(name)}")

    def replay(self, statement: TableStatement, text: bytes | str) -> str:
        """Run a statement as the source's session would; return why it failed, '' if it did not.

        Raises AccessDenied, and what is worth a retry, as ConnectionLost.
        """
        self._enter(statement, isinstance(text, bytes))
        try:
            error = self._failure(text)
        finally:
            self._set("SET NAMES utf8mb4")
            self._set("SET SESSION sql_mode = ''")
        if error is None:
            return ""
        if error.retryable or isinstance(error, AccessDenied):
            raise error
        return str(error)

    def _enter(self, statement: TableStatement, is_own_text: bool) -> None:
        databases = _list_databases(self.connection)
        self.run(f"USE {quote(statement.database if statement.database in databases else OWN)}")
        mode = statement.sql_mode & PARSED_MODES | NO_DIRECTORIES
        if "mariadb" not in server_version(self.connection).lower():
            mode &= ~ORACLE
        self.run(f"SET SESSION sql_mode = {mode}")
        if statement.charsets and is_own_text:
            client, connection, server = statement.charsets
            self._set(f"SET SESSION character_set_client = {client}, collation_connection = {connection}, collation_server = {server}")

    def _set(self, statement: str) -> None:
        """Set variables of the session, if the server knows them and lets the user do so."""
        from pymysql import MySQLError

        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement)
        except MySQLError as error:
            if error.args[0] in (UNKNOWN_VARIABLE, *READ_ONLY_HERE):
                return
            self.close()
            raise translate_error(error) or ConnectionLost(str(error)) from error

    def _failure(self, statement: bytes | str) -> AuditorError | None:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement)
            return None
        except driver_errors() as error:
            known = translate_error(error, self.source.name) or ConnectionLost(f"{self.source.name}: {error}")
            if isinstance(known, ConnectionLost | Unreachable):
                self.close()
            return known

    def read_dump(self, tables: Iterable[Name] | None = None) -> dict[Name, str | None]:
        """Return the statements that make these tables, or everything, again; None for one that is not there. Raises AuditorError."""
        if tables is None:
            return dict(read_dump(self.connection, lambda database: database != OWN))
        return {name: show_table(self.connection, name) for name in tables}

    def describe(self, tables: Collection[Name]) -> dict[Name, TrackedTable]:
        """Return the columns of these tables, of those that are there. Raises AuditorError."""
        return describe_tables(self.connection, tables)

    def restore(self, dump: Mapping[Name, str]) -> list[Name]:
        """Bring the schema to what a dump has; return what was not so. Raises AuditorError."""
        present = self.read_dump()
        wrong = [name for name in {**present, **dump} if present.get(name) != dump.get(name)]
        gone = {database for database, table in wrong if not table and (database, table) not in dump}
        for name in sorted(wrong):
            if name[1] and name[0] not in gone and present.get(name):
                self.run(f"DROP TABLE IF EXISTS {quote(name[0])}.{quote(name[1])}")
            elif name[0] in gone and not name[1]:
                self.run(f"DROP DATABASE IF EXISTS {quote(name[0])}")
        reach("tracker.emptied")
        for name in _in_order({name: dump[name] for name in wrong if name in dump}):
            self._make(name, dump[name])
        return wrong

    def take_over(self, dump: Mapping[Name, str]) -> dict[Name, str]:
        """Have the schema that a dump of the source makes, and nothing else; return the tables that cannot be made, and why.

        Raises AccessDenied, and what is worth a retry, as ConnectionLost.
        """
        for database in sorted(_list_databases(self.connection) - SYSTEM - {OWN}):
            self.run(f"DROP DATABASE IF EXISTS {quote(database)}")
        failed: dict[Name, str] = {}
        for name in _in_order(dump):
            try:
                self._make(name, dump[name])
            except AuditorError as error:
                if error.retryable or isinstance(error, AccessDenied) or not name[1]:
                    raise
                failed[name] = str(error)
        return failed

    def drop(self, name: Name) -> None:
        """Drop a table, if it is there: nobody knows its columns any more. Raises AuditorError."""
        if name[0] in _list_databases(self.connection):
            self.run(f"DROP TABLE IF EXISTS {quote(name[0])}.{quote(name[1])}")

    def _make(self, name: Name, text: str) -> None:
        if not name[1]:
            self.run(f"CREATE DATABASE IF NOT EXISTS {quote(name[0])}")
            self.run(text)
            return
        self.run(f"USE {quote(name[0])}")
        self.run(text)


def _in_order(dump: Mapping[Name, str]) -> list[Name]:
    """Return databases, then MariaDB's sequences, which defaults may name, then tables."""
    return sorted(dump, key=lambda name: (bool(name[1]), " SEQUENCE=" not in dump[name], name))


def read_dump(connection: Any, wanted: Callable[[str], bool]) -> dict[Name, str]:
    """Return the statements that make the tables of some databases of a server, and these themselves. Raises AuditorError."""
    statements: dict[Name, str] = {}
    for database in sorted(_list_databases(connection)):
        if wanted(database) and database not in SYSTEM:
            statements[database, ""] = _database_statement(connection, database)
            statements |= {name: _table_statement(connection, name) for name in _list_tables(connection, database)}
    return statements


def show_table(connection: Any, name: Name) -> str | None:
    """Return the statement that makes a table, or a database, whose table is ''; None if there is none. Raises AuditorError."""
    if not name[1]:
        return _database_statement(connection, name[0]) if name[0] in _list_databases(connection) else None
    if name[1] not in [table for _, table in _list_tables(connection, name[0], name[1])]:
        return None
    return _table_statement(connection, name)


def find_unfit(tracker: Any, source: Any) -> str:
    """Return why a server cannot be the tracker of another one; '' if it can. Both are connections."""
    kinds = ["mariadb" in server_version(connection).lower() for connection in (tracker, source)]
    if kinds[0] != kinds[1]:
        names = ["MariaDB" if kind else "MySQL" for kind in kinds]
        return f"the server at tracker: is {names[0]}, and the source {names[1]}, whose statements it cannot read; give it a {names[1]}"
    if _identify(tracker) == _identify(source):
        return "the server at tracker: is the source itself, where replayed statements would come back in its log; give it another server"
    cases = [query(connection, "SELECT @@lower_case_table_names")[0][0] for connection in (tracker, source)]
    if cases[0] != cases[1]:
        return f"lower_case_table_names is {cases[0]} at tracker:, and {cases[1]} on the source; start the tracker with the source's"
    return ""


def _identify(connection: Any) -> tuple[Any, ...]:
    """Return what distinguishes servers: MySQL's own id; of MariaDB, which has none in all versions, where it runs and when it began."""
    if "mariadb" not in server_version(connection).lower():
        return query(connection, "SELECT @@GLOBAL.server_uuid")[0]
    return query(connection, "SELECT @@hostname, @@port, @@datadir, @@socket, @@pid_file")[0]


def _database_statement(connection: Any, database: str) -> str:
    wanted = f"schema_name = {MySQLNames().string_literal(database)}"
    columns = "default_character_set_name, default_collation_name"
    [(charset, collation)] = query(connection, f"SELECT {columns} FROM information_schema.schemata WHERE {wanted}")
    return f"ALTER DATABASE {quote(database)} CHARACTER SET {charset} COLLATE {collation}"


def _table_statement(connection: Any, name: Name) -> str:
    return _NEXT_NUMBER.sub("", str(query(connection, f"SHOW CREATE TABLE {quote(name[0])}.{quote(name[1])}")[0][1]))


def _list_databases(connection: Any) -> set[str]:
    return {str(row[0]) for row in query(connection, "SELECT schema_name FROM information_schema.schemata")}


def _list_tables(connection: Any, database: str, table: str | None = None) -> list[Name]:
    literal = MySQLNames().string_literal
    wanted = f"table_schema = {literal(database)}" + (f" AND table_name = {literal(table)}" if table is not None else "")
    kinds = "('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')"
    statement = f"SELECT table_name FROM information_schema.tables WHERE {wanted} AND table_type IN {kinds}"
    return [(database, str(row[0])) for row in query(connection, statement)]


def _count_tables(connection: Any) -> dict[str, int]:
    """Return how many tables the databases have that are no system's."""
    rows = query(connection, "SELECT table_schema, COUNT(*) FROM information_schema.tables GROUP BY table_schema")
    return {str(row[0]): int(row[1]) for row in rows if str(row[0]).lower() not in SYSTEM}
