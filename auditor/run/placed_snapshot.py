"""Open a snapshot of the source at a known place of its binary log.

MariaDB says the place in the snapshot itself. MySQL does not: a transaction is in the log before a snapshot sees it, and seen before it is
counted as executed. But what is executed is seen, and what is seen is in the log. So, with the executed transactions E read before the
snapshot and the end of the log P read after it: if no transaction of the log up to P that is not in E has a row of the table, then the
snapshot shows the table exactly as of P, whatever other tables do. Which transactions have such rows the pipeline knows. Transactions
before the first place that was read here are executed once those are that were owned then.

Where the table is written too often for that, writers are kept off it for a moment, by a lock that never lets them wait for others.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from typing import Protocol

from auditor.connections.connection import Connection
from auditor.errors import AccessDenied, LockTimeout
from auditor.planning import watermark
from dialects import Session
from dialects.log_places import PlacedSession

ATTEMPTS, SECONDS = 20, 2.0
"""How often a snapshot is tried whose place the transactions' ids prove, and for how long at most."""

LOCKS = 3
"""How often the lock is tried."""

BY_SERVER = "the server says in its snapshot where that stands"
BY_IDS = "no transaction on the table was between the snapshot and the end of the log"
BY_LOCK = "writers were kept off the table for a moment while the snapshot was opened"


class NotAligned(Exception):
    """Why a run is not aligned, as a clause. No command fails with it: the run continues without."""


class LogReader(Protocol):
    """What a pipeline knows of the source's log."""

    def read_server(self) -> str:
        """Return what identifies the server whose log it reads, as `PlacedSession.identify` does."""

    def log_end(self) -> str:
        """Return where the log ends now: ``FILE:POS``."""

    def ids_between(self, after: str, until: str) -> Sequence[str] | None:
        """Return the global ids of the transactions after a place, up to another, that have rows of the table.

        Waits until the stream has reached the second place. None if ids cannot show it. Raises NotAligned.
        """


def open_source(source: Connection, table: str, names: Sequence[str], log: LogReader) -> tuple[str, dt.datetime, str]:
    """Open a snapshot of a table (its name as SQL text, and in parts); return its place, the source's clock before it, and the way.

    Raises NotAligned, and errors of the tree; the snapshot may be open then.
    """
    source.run(lambda session: _check(_placed(session), names, log))
    at = source.run(watermark.read_clock)
    if place := source.begin_snapshot_by(lambda session: _placed(session).begin_placed()):
        return place, at, BY_SERVER
    source.end_snapshot()
    return _open_by_ids(source, log) or _open_by_lock(source, table, log)


def _check(session: PlacedSession, names: Sequence[str], log: LogReader) -> None:
    if session.identify() != log.read_server():
        raise NotAligned("the audit's connection leads to another server than the one whose log the pipeline reads")
    if engine := session.storage_engine(names):
        raise NotAligned(f"the storage engine of the source's table is {engine}, which has no snapshots; only InnoDB's are known")


def _open_by_ids(source: Connection, log: LogReader) -> tuple[str, dt.datetime, str] | None:
    """Try snapshots until ids prove where one stands; None, and no snapshot is open, if they do not."""
    first = log.log_end()
    owned = source.run(lambda session: _placed(session).owned_ids())
    until = time.monotonic() + SECONDS
    for _ in range(ATTEMPTS):
        at = source.run(watermark.read_clock)
        executed = source.run(lambda session: _placed(session).executed_ids())
        if not executed:
            return None
        source.begin_snapshot()
        place = log.log_end()
        if _are_executed(source, owned, executed):
            ids = log.ids_between(first, place)
            if ids is None:
                break
            if _are_executed(source, ",".join(ids), executed):
                return place, at, BY_IDS
        source.end_snapshot()
        if time.monotonic() > until:
            break
    source.end_snapshot()
    return None


def _are_executed(source: Connection, ids: str, executed: str) -> bool:
    return source.run(lambda session: _placed(session).are_executed(ids, executed))


def _open_by_lock(source: Connection, table: str, log: LogReader) -> tuple[str, dt.datetime, str]:
    """Open a snapshot while writers are kept off the table. Raises NotAligned."""
    why = ""
    for _ in range(LOCKS):
        at = source.run(watermark.read_clock)
        try:
            return _lock_once(source, table, log), at, BY_LOCK
        except LockTimeout as error:
            why = str(error)
        except AccessDenied as error:
            raise NotAligned(
                "the table is written too often for a snapshot at a known place of the log, and the audit's user may not keep writers off"
                f" it for a moment ({error}); grant LOCK TABLES and SELECT on it"
            ) from error
    raise NotAligned(f"the table is written too often for a snapshot at a known place of the log: {why}")


def _lock_once(source: Connection, table: str, log: LogReader) -> str:
    [helper] = source.open_siblings(1)
    try:
        return source.begin_snapshot_by(lambda session: _placed(session).begin_locked(table, helper.session, log.log_end))
    finally:
        helper.close()


def _placed(session: Session) -> PlacedSession:
    if not isinstance(session, PlacedSession):
        raise NotAligned(f"{session.dialect.name} does not say at which place of a log a snapshot stands")
    return session
