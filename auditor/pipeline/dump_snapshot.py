"""Open the snapshot that a dump reads, and find where in the source's stream of changes it is.

MariaDB and PostgreSQL say that themselves. MySQL does not: a transaction is in its log before a snapshot sees it, and seen before it counts
as executed. But if the executed transactions are the same before and after a snapshot, and none had an id in between that was not yet
executed, then the snapshot shows exactly these. Where the server is written to too often for that, writers are kept off the table for a
moment, and the end of its log is read meanwhile; connections that are to share a snapshot of MySQL open theirs under that lock anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from auditor.connections.connection import Connection
from auditor.errors import AccessDenied, LockTimeout
from dialects import Session
from dialects.log_places import PlacedSession

ATTEMPTS = 20
"""How often a snapshot is tried whose place the transactions' ids prove; each takes some milliseconds."""


@dataclass(frozen=True, slots=True)
class DumpSnapshot:
    """One snapshot, and the connections that read it."""

    readers: list[Connection]
    position: str
    """Where it is, as the server's tools write it; empty if that is not known."""
    why_unknown: str = ""
    """Why the position is not known, as a clause; empty if it is."""


@contextmanager
def open_snapshot(main: Connection, table: str) -> Iterator[DumpSnapshot]:
    """Yield a snapshot of a table until the end of the block, read by several connections where the engine and its user can share it.

    Raises SessionSwitched at the end of the block if what was read may be of several sessions.
    """
    wanted = main.settings.connections - 1
    siblings = main.open_siblings(wanted) if wanted else []
    try:
        yield (_share(main, siblings, table) if siblings else None) or _open_alone(main, table)
        for reader in (main, *siblings):
            reader.end_snapshot()
    finally:
        for sibling in siblings:
            sibling.close()


def _share(main: Connection, siblings: list[Connection], table: str) -> DumpSnapshot | None:
    """Return a snapshot that all of these connections read; None, and none is open, if it cannot be shared."""
    main.begin_snapshot()
    try:
        if main.share_snapshot(siblings, table):
            position = _position(main)
            may_not = "the source's user may not see where the log ends, or there is none; grant REPLICATION CLIENT"
            return DumpSnapshot([main, *siblings], position, "" if position else may_not)
    except LockTimeout:
        pass  # one connection reads all, in a snapshot of its own
    main.end_snapshot()
    return None


def _open_alone(main: Connection, table: str) -> DumpSnapshot:
    if not isinstance(main.session, PlacedSession):
        main.begin_snapshot()
        position = _position(main)
        return DumpSnapshot([main], position, "" if position else "this engine does not tell where a snapshot is")
    if place := main.begin_snapshot_by(lambda session: _placed(session).begin_placed()):
        return DumpSnapshot([main], place)
    main.end_snapshot()
    if ids := _begin_by_ids(main):
        return DumpSnapshot([main], f"GTIDs {ids}")
    try:
        place = _begin_by_lock(main, table)
        why = "the server keeps no binary log"
    except LockTimeout as error:
        place, why = "", f"the source is written to too often ({error})"
    except AccessDenied as error:
        place, why = "", f"the source is written to too often, or without GTIDs ({error}); grant LOCK TABLES and REPLICATION CLIENT"
    main.begin_snapshot()  # unless one is open
    return DumpSnapshot([main], place, "" if place else why)


def _begin_by_ids(main: Connection) -> str:
    """Open a snapshot that shows exactly the transactions of these ids, and return them; '', and none is open, if that cannot be."""
    for _ in range(ATTEMPTS):
        before = main.run(lambda session: _placed(session).executed_ids())
        if not before:
            return ""
        main.begin_snapshot()
        owned = main.run_once(lambda session: _placed(session).owned_ids())  # first: what it does not list any more is executed
        if not owned and main.run_once(lambda session: _placed(session).executed_ids()) == before:
            return before
        main.end_snapshot()
    return ""


def _begin_by_lock(main: Connection, table: str) -> str:
    """Open a snapshot while writers are kept off the table, and return where the log ends then. Raises LockTimeout and AccessDenied."""
    [helper] = main.open_siblings(1)
    try:
        return main.begin_snapshot_by(lambda session: _placed(session).begin_locked(table, helper.session, _placed(session).log_end))
    finally:
        helper.close()


def _position(main: Connection) -> str:
    return main.run_once(lambda session: session.snapshot_position())


def _placed(session: Session) -> PlacedSession:
    assert isinstance(session, PlacedSession)
    return session
