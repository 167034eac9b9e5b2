"""Write heartbeats into a database: a row with a serial number and the time.

A reader of the database's log, or of a copy of the row, sees by it how far it has come: audits (`settle: {heartbeat: ...}`), and
`auditor pipeline failover`, which finds a place in another server's log by it. See `auditor.pipeline.binlog.heartbeats` for the reader.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import dialects
import sql_templates
from auditor.background import NEVER, Backoff, Service
from auditor.config import Settings
from auditor.connections.writer import create_table, open_patch_session, patching_dialect, transaction
from auditor.durations import durations
from auditor.errors import AccessDenied, AuditorError, ConfigError
from auditor.model import HEARTBEAT_TABLE, parse_time
from dialects import Session

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """A heartbeat that was written."""

    serial: int
    at: dt.datetime


@dataclass(slots=True)
class HeartbeatWriter:
    """Writes heartbeats by one session. Others may write into the same table: each heartbeat has a serial number of its own."""

    session: Session
    table: str
    """As SQL text."""

    def prepare(self) -> None:
        """Make the table, if it is not there. Raises AccessDenied with what to grant, and EngineError."""
        try:
            create_table(self.session, self._fill("heartbeat_create"))
        except AccessDenied as error:
            raise AccessDenied(f"{error}; run: GRANT CREATE, SELECT, INSERT, UPDATE ON {self.table} TO the user") from error

    def write(self) -> Written:
        """Write the next heartbeat and return it. Raises AccessDenied with what to grant, and EngineError."""
        try:
            with transaction(self.session):
                self.session.execute(self._fill("heartbeat_write"))
                [(serial, at)] = self.session.query(self._fill("heartbeat_read"))
        except AccessDenied as error:
            raise AccessDenied(f"{error}; run: GRANT SELECT, INSERT, UPDATE ON {self.table} TO the user") from error
        return Written(int(serial), parse_time(str(at)))

    def _fill(self, template: str) -> str:
        return sql_templates.fill(self.session.dialect.template(template), {"table": self.table})


@contextmanager
def open_heartbeat(settings: Settings, connection: str) -> Iterator[HeartbeatWriter]:
    """Yield a writer of heartbeats by a connection, whose table is there.

    Raises ConfigError for a connection that may only read, and an engine that is no source of a log; EngineError.
    """
    chosen = settings.connection(connection)
    dialect = patching_dialect(connection, chosen)
    try:
        dialect.template("heartbeat_write")
    except LookupError:
        raise ConfigError(
            f"heartbeats are written into MySQL, MariaDB and PostgreSQL, and {connection!r} leads to {dialect.name}"
        ) from None
    assert chosen.write
    schema = dialects.parse_url(chosen.write.url).database if dialect.name == "mysql" else ""
    session = open_patch_session(connection, chosen)
    try:
        writer = HeartbeatWriter(session, dialect.names.table(*([schema] if schema else []), HEARTBEAT_TABLE))
        writer.prepare()
        yield writer
    finally:
        session.close()


def run(settings: Settings, connection: str, every: float, stop: threading.Event) -> int:
    """Write a heartbeat every so many seconds until ``stop`` is set, and return how many were written.

    After an error that may pass, as of a server that is not reached, it continues with growing waits. Raises ConfigError and AccessDenied,
    and other errors that are not retryable.
    """
    written, fatal, opened = 0, list[Exception](), ExitStack()
    writer: HeartbeatWriter | None = None

    def beat() -> float | None:
        nonlocal written, writer
        try:
            writer = writer or opened.enter_context(open_heartbeat(settings, connection))
            heartbeat = writer.write()
        except AuditorError as error:
            writer = None
            opened.close()
            if error.retryable:
                raise
            fatal.append(error)
            return NEVER
        if not written or service.last_error:
            extra = {"action": "heartbeat", "connection": connection, "serial": heartbeat.serial}
            log.info("%s: heartbeat %d was written, and one follows every %g s", connection, heartbeat.serial, every, extra=extra)
        written += 1
        return None

    failure, fields = f"{connection}: no heartbeat was written; it is tried again", {"connection": connection}
    backoff, action = Backoff(2 * durations().pipeline_first_retry, durations().pipeline_longest_retry), "heartbeat_delayed"
    service = Service(
        "heartbeats", beat, every, failure=failure, action=action, fields=fields, backoff=backoff, at_end=opened.close, stopping=stop
    )
    service.on_bug = fatal.append
    service.run()
    if fatal:
        raise fatal[0]
    return written
