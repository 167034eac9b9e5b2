"""Sessions of PostgreSQL.

https://www.postgresql.org/docs/current/functions-admin.html
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dialects import errors, versions
from dialects.base import ColumnBatch, Dialect, Loading, Session
from dialects.pooler import changes_of_session
from dialects.postgres import settings
from dialects.postgres.writing import PostgresLoading
from dialects.session import Driver, DriverSession, fetch_through_cursor
from dialects.settings import find_others, refuse_others

TRANSACTIONS: Mapping[int, Literal["none", "open", "failed", "unknown"]] = {0: "none", 2: "open", 3: "failed"}
"""What libpq's states of a transaction mean. https://www.postgresql.org/docs/current/libpq-status.html#LIBPQ-PQTRANSACTIONSTATUS"""

ISOLATION = "repeatable read"
"""The isolation of a snapshot."""

CLOCKS_DIFFER_BY = 0.9
"""Share of the time limit after which a statement that nobody here cancelled counts as having exceeded it."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """What the server says of a column of a result."""

    name: str
    type: int
    """The number of its type, of a domain that of the type below."""
    modifier: int
    """The modifier of its type, as far as the driver tells it; -1 for none."""
    table: int = 0
    """The number of the table whose column it is, unchanged; 0 for a computed one."""
    column: int = 0
    """The number of the column there."""


NUMERIC = 1700
"""The number of the type NUMERIC."""

ADDED = 4
"""What PostgreSQL adds to a length, or to the digits of a number, for a type's modifier, and psycopg2 takes off again."""


NO_PRECISION = 0xFFFF
"""What psycopg2 returns as the precision of a NUMERIC that has none."""


def _describe_column(column: Any) -> ResultColumn:
    # Of types of a fixed size, such as times, psycopg2 does not tell the modifier.
    # https://www.psycopg.org/docs/cursor.html#cursor.description
    modifier = -1
    if column.type_code == NUMERIC and column.precision not in (None, NO_PRECISION):
        modifier = ((column.precision << 16) | column.scale) + ADDED
    elif column.type_code in TYPES_WITH_LENGTH and (column.internal_size or 0) > 0:
        modifier = column.internal_size + ADDED
    return ResultColumn(column.name, column.type_code, modifier, column.table_oid or 0, column.table_column or 0)


TYPES_WITH_LENGTH = (1042, 1043)
"""The numbers of CHARACTER and CHARACTER VARYING."""


class PostgresSession(DriverSession):
    """A session of PostgreSQL, or of an engine derived from it."""

    _reads_at_once = False
    """Whether the rows of a summary are received at once, instead of through a cursor."""

    def __init__(self, dialect: Dialect, server: str, connection: Any, driver: Driver) -> None:
        super().__init__(dialect, server, connection, driver)
        self.loading: Loading = PostgresLoading(self)

    def read_process_id(self) -> None:
        """Ask the server for the session's process, which ``cancel`` needs, where it is, and what it is."""
        process, place, version, signs, extensions = self.query(settings.READ_SERVER)[0]
        self.process_id, self.server_place = int(process), str(place)
        facts = {"version": str(version), "settings": str(signs or ""), "extensions": str(extensions or "")}
        self.variants = versions.recognise("postgres", facts)

    def transaction(self) -> Literal["none", "open", "failed", "unknown"]:
        return TRANSACTIONS.get(self.connection.info.transaction_status, "unknown")

    def find_changes(self, *, in_snapshot: bool) -> list[str]:
        process, mark, place, isolation, *values = self.query(settings.READ_BACK)[0]
        actual = {name: value for name, value in zip(settings.HELD, values, strict=True) if value is not None}
        changes = changes_of_session(self, int(process), str(mark or ""), str(place)) + find_others(settings.HELD, actual)
        if in_snapshot and isolation != ISOLATION:
            changes.append(f"its isolation is {isolation}, not {ISOLATION}")
        return changes

    def pin(self, statement_timeout: float, lock_timeout: float) -> None:
        """Fix the settings on which results depend, and hold them, in one round trip. Raises SessionNotKept for one that stays another."""
        statements = self.dialect.pin_statements(statement_timeout, lock_timeout)
        marking = f"SET {settings.MARK} TO '{self.mark}'"
        values = self.query("; ".join([*statements, marking, settings.ADJUST, settings.READ]))[0]
        actual = dict(zip(settings.HELD, values, strict=True))
        refuse_others(self.driver.where, settings.HELD, {name: value for name, value in actual.items() if value is not None})
        self.statements = 0

    def describe_columns(self, sql: str) -> list[ResultColumn]:
        """Run a statement and return what the server says of each column of its result."""
        return self.describe_result(sql, lambda cursor: [_describe_column(column) for column in cursor.description or ()])

    def execute_all(self, statements: Sequence[str]) -> None:
        if statements:
            self.execute(";\n".join(statements))  # one message, of which each statement is run by itself
            self.statements += len(statements) - 1

    def explain_cancelled(self, error: errors.StatementCancelled, seconds: float) -> errors.AuditorError:
        # What exceeds the timeout and what is cancelled share a state, and the server's language may be any (lc_messages).
        if self.statement_timeout is not None and seconds >= CLOCKS_DIFFER_BY * self.statement_timeout:
            return errors.StatementTimeout(f"{error}: after the statement timeout of {self.statement_timeout:g} s")
        return error

    def allow_workers(self, workers: int) -> None:
        super().allow_workers(workers)
        self._reads_at_once = workers > 0

    def stream_summaries(self, sql: str) -> Iterator[ColumnBatch]:
        # The statement of a cursor is never run in parallel.
        # https://www.postgresql.org/docs/current/when-can-parallel-query-be-used.html
        if not self._reads_at_once:
            return super().stream_summaries(sql)
        rows = self.query(sql)
        return iter([list(zip(*rows, strict=True))] if rows else [])

    def share_snapshot(self, sessions: Sequence[Session], table: str, helper: Session | None) -> bool:
        snapshot = self.export_snapshot()
        for session in sessions:
            session.join_snapshot(snapshot)
        return True

    def snapshot_position(self) -> str:
        # https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT
        return f"snapshot {self.query('SELECT CAST(pg_current_snapshot() AS TEXT)')[0][0]}"

    def state_read(self, table: str) -> str:
        # Of a standby, which is read as it stands. The position is asked for in the open snapshot, which shows nothing that was replayed
        # later. Aurora's readers replay no log and refuse the function.
        # https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-RECOVERY-INFO
        if not self.in_snapshot or not self.query("SELECT pg_is_in_recovery()")[0][0]:
            return ""
        is_aurora = self.query(self.dialect.catalogue_query("aurora", {}))[0][0]
        place = "" if is_aurora else f", at WAL position {self.query('SELECT CAST(pg_last_wal_replay_lsn() AS TEXT)')[0][0]} or before"
        lag = self.dialect.server.server_load(self, ["lag"])["lag"]
        behind = "which has replayed no transaction yet" if lag == math.inf else f"{lag:.0f} s behind what it has received"
        return f"a standby is read{place}, {behind}"

    def export_snapshot(self) -> str:
        # https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION
        return str(self.query("SELECT pg_export_snapshot()")[0][0])

    def join_snapshot(self, name: str) -> None:
        Session.begin(self)
        self.execute(f"SET TRANSACTION SNAPSHOT {self.dialect.names.string_literal(name)}")  # before any query
        self.begin_holding()

    def fetch_batches(self, sql: str) -> Generator[list[tuple[Any, ...]]]:
        with self.connection.cursor() as cursor:
            yield from fetch_through_cursor(cursor, sql, several_statements=True)

    def cancel_statement(self) -> str:
        # Not by the driver's own cancel(): it holds Python's lock while it waits, so that a silent server stops the whole process.
        # https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADMIN-SIGNAL
        return f"SELECT pg_cancel_backend({self.process_id})"
