"""Sessions of Amazon Redshift, and the translation of the exceptions of Amazon's driver.

https://docs.aws.amazon.com/redshift/latest/mgmt/python-driver.html
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

from dialects import errors
from dialects.base import ColumnBatch, Dialect, Session
from dialects.postgres.errors import error_class
from dialects.postgres.session import CLOCKS_DIFFER_BY, PostgresSession, ResultColumn
from dialects.redshift import unload
from dialects.redshift.driver import result_columns, stream_of
from dialects.redshift.unload import Unloading
from dialects.redshift.writing import RedshiftLoading
from dialects.session import Driver, fetch_through_cursor

SERIALIZATION_CONFLICT = "1023"
"""How the message begins where transactions form a cycle; its detail names the table.
https://docs.aws.amazon.com/redshift/latest/dg/c_serial_isolation.html#c_serial_isolation-serializable-isolation-troubleshooting"""

NOT_VERIFIED = ("CERTIFICATE_VERIFY_FAILED", "Server refuses SSL")
"""How the driver says that the server is not the one that the URL asks for, or does not encrypt."""

FAILED_TRANSACTION = "SQLSTATE 25P02"
"""How a statement is refused in a transaction in which another failed."""

DATE_STYLE = "ISO, YMD"
"""The style of dates that sessions are pinned to."""


class RedshiftSession(PostgresSession):
    """A session of Redshift."""

    unloading: Unloading | None = None
    """Where large results are unloaded; None if they come through a cursor."""

    _unloaded_bytes = 0

    def state_read(self, table: str) -> str:
        return ""  # Redshift has no standbys

    def describe_columns(self, sql: str) -> list[ResultColumn]:
        return self.describe_result(sql, result_columns)

    def execute_all(self, statements: Sequence[str]) -> None:
        Session.execute_all(self, statements)  # Amazon's driver prepares what it sends, which can be one statement only

    def __init__(self, dialect: Dialect, server: str, connection: Any, driver: Driver) -> None:
        super().__init__(dialect, server, connection, driver)
        self.loading = RedshiftLoading(self, lambda: self.unloading)

    def pin(self, statement_timeout: float, lock_timeout: float) -> None:
        Session.pin(self, statement_timeout, lock_timeout)

    def explain_cancelled(self, error: errors.StatementCancelled, seconds: float) -> errors.AuditorError:
        # A statement that took too long is reported in the words of one that was cancelled: Query (150) cancelled on user's request.
        # A rule of the workload management names itself; it would end the same statement again, so that it must be cut too.
        # https://docs.aws.amazon.com/redshift/latest/dg/r_statement_timeout.html, and cm-c-wlm-query-monitoring-rules.html
        if "WLM" in str(error):
            return errors.StatementTimeout(f"{error}: it exceeded a limit of the cluster")
        if self.statement_timeout is not None and seconds >= CLOCKS_DIFFER_BY * self.statement_timeout:
            return errors.StatementTimeout(
                f"{error}: so Redshift reports what exceeds the statement timeout of {self.statement_timeout:g} s"
            )
        return errors.StatementCancelled(f"{error}: by somebody else, not by this process")

    def transaction(self) -> Literal["none", "open", "failed", "unknown"]:
        return "open" if self.connection.in_transaction else "none"  # the driver does not report one that has failed

    def find_changes(self, *, in_snapshot: bool) -> list[str]:
        # Nothing of Redshift's says which cluster answers, and no setting can be made up to hold a mark.
        try:
            process, style = self.query("SELECT pg_backend_pid(), CURRENT_SETTING('datestyle')")[0]
        except errors.StatementRefused as error:
            if FAILED_TRANSACTION in str(error):
                return []
            raise
        changes = [] if int(process) == self.process_id else [f"its process is {process}, not {self.process_id}"]
        return changes if style == DATE_STYLE else [*changes, f"datestyle is {style}, not {DATE_STYLE}"]

    def read_process_id(self) -> None:
        # https://docs.aws.amazon.com/redshift/latest/dg/r_CURRENT_SETTING.html; the default is ISO, MDY
        process, style = self.query("SELECT pg_backend_pid(), CURRENT_SETTING('datestyle')")[0]
        self.process_id = int(process)
        if style != DATE_STYLE:
            raise errors.SessionNotKept(
                f"{self.driver.where}: the session lost the settings that were made when it began: a pooler lends this connection another"
                " one for each transaction, or resets it; connect to the cluster itself"
            )

    def terminate_statement(self) -> str:
        # A statement inside a transaction may not be cancelled. https://docs.aws.amazon.com/redshift/latest/dg/PG_CANCEL_BACKEND.html
        return f"SELECT pg_terminate_backend({self.process_id})"

    def snapshot_position(self) -> str:
        return ""  # pg_current_snapshot() does not exist

    def share_snapshot(self, sessions: Sequence[Session], table: str, helper: Session | None) -> bool:
        return False  # pg_export_snapshot() does not exist

    def export_snapshot(self) -> str:
        return ""

    def fetch_batches(self, sql: str) -> Generator[list[tuple[Any, ...]]]:
        # The driver loads a whole result into memory. A single-node cluster allows a fetch size of at most 1,000 rows.
        # https://docs.aws.amazon.com/redshift/latest/dg/fetch.html
        yield from fetch_through_cursor(self.connection.cursor(), sql, rows_at_once=1000)

    def stream_many(self, sql: str, rows: int) -> Iterator[ColumnBatch]:
        if self.unloading is None or rows < unload.ROWS:
            return self.stream(sql)
        return self.unloading.fetch(sql, self.execute, self._count_unloaded, self._add_unloaded)

    def stream_whole(self, sql: str, rows: int = 0) -> Iterator[ColumnBatch]:
        # Rows that are unloaded are counted by the server itself.
        is_unloaded = self.unloading is not None and rows >= unload.ROWS
        return self.stream_many(sql, rows) if is_unloaded else super().stream_whole(sql, rows)

    def _count_unloaded(self) -> int:
        # https://docs.aws.amazon.com/redshift/latest/dg/PG_LAST_UNLOAD_COUNT.html
        return int(self.query("SELECT PG_LAST_UNLOAD_COUNT()")[0][0])

    def _add_unloaded(self, size: int) -> None:
        self._unloaded_bytes += size

    def bytes_received(self) -> int:
        return super().bytes_received() + self._unloaded_bytes

    def close(self) -> None:
        stream = stream_of(self.connection)  # which the driver may leave open
        super().close()
        with suppress(Exception):
            stream.close()


OF_VALUES = ("22", "23")
"""Classes of errors whose details show values of rows: ``Failing row contains (...)``.
https://www.postgresql.org/docs/current/errcodes-appendix.html"""


def translate_error(error: BaseException, where: str = "") -> errors.AuditorError | None:
    """Return the error of ``dialects.errors`` for an exception of the driver, or None; ``where`` names the URL while connecting."""
    from redshift_connector.error import Error, InterfaceError

    prefix = f"{where}: " if where else ""
    if isinstance(error, Error):
        facts = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        text, state = str(facts.get("M", error.args[-1] if error.args else error)), str(facts.get("C", ""))
        if where and any(words in text for words in NOT_VERIFIED):
            return errors.NotVerified(f"{prefix}{text}")
        if (detail := facts.get("D")) and state[:2] not in OF_VALUES:
            text = f"{text}: {detail}"
        if state == "XX000" and text.startswith(SERIALIZATION_CONFLICT):
            return errors.SerializationConflict(f"{prefix}{text} (SQLSTATE {state})")
        if state:
            return error_class(state, text)(f"{prefix}{text} (SQLSTATE {state})")
        closed = isinstance(error, InterfaceError)
        return (errors.Unreachable if where else errors.ConnectionLost if closed else errors.StatementRefused)(f"{prefix}{text}")
    if type(error).__module__.startswith("botocore"):  # while credentials are asked for
        return errors.AccessDenied(f"{prefix}AWS gave no credentials: {error}")
    if isinstance(error, OSError):
        return (errors.Unreachable if where else errors.ConnectionLost)(f"{prefix}{error or 'the connection was lost'}")
    return None
