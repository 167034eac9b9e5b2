"""Find out whether what is between lends a connection another server session: for each transaction, or in the middle of a snapshot.

What a session must keep, its settings, temporary tables and streamed results, is lost then, without an error. PgBouncer does so in its
modes ``transaction`` and ``statement``, and ProxySQL, RDS Proxy and others while they do not know that a session has settings of its own.
https://www.pgbouncer.org/features.html, https://proxysql.com/documentation/multiplexing/,
https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/rds-proxy-pinning.html

Who does so from the start is found out when the connection is made (``refuse_lent_sessions``). Who does so later, as ProxySQL did within
transactions (https://github.com/sysown/proxysql/issues/1947), and as any of them may after a failover, is found out where a snapshot
begins and ends: what reads it is asked which session it is, by a mark that only this one has, and by its settings (``DriverSession.hold``).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from dialects.errors import SessionNotKept
from dialects.session import Driver, DriverSession
from dialects.wire import Wire

ROUNDS = 5
"""How often both connections ask for their process: a pooler lends first what was given back last, unless others were quicker."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The statements by which a session is recognised, each of which is a transaction of its own."""

    mark: str
    """Sets a value of the session to ``{mark}``."""
    ask: str
    """Returns the session's process on the server, and that value."""
    suggestion: str
    """What a person is to do, as a clause."""


def refuse_lent_sessions(connection: Any, announced: int, answering: int, probe: Probe, driver: Driver, mark: str) -> None:
    """Raise SessionNotKept if server sessions are not this connection's own, which is given the ``mark``.

    A server sends each client, when it connects, the process that serves it (``announced``), which is also the one that answers queries
    (``answering``). A pooler sends something else, since it has no process yet; only then another connection is opened. One process that
    serves both of them, or two that serve one, belong to none, and a session that forgets its mark is not kept either. Where the other
    connection gets no session within half of the driver's patience, the only one of a small pool is this connection's.
    """
    if announced == answering:
        return
    _execute(connection, probe.mark.format(mark=mark))
    own, others = {_ask(connection, probe)}, set[tuple[int, str]]()
    with closing(driver.connect()) as other, closing(Wire(driver.file_descriptor(other))) as wire:
        try:
            with wire.limit(driver.patience / 2):
                for _ in range(ROUNDS):
                    others.add(_ask(other, probe))
                    own.add(_ask(connection, probe))
        except Exception:
            if not wire.is_cut:
                raise
    serving, serving_other = ({process for process, _ in sessions} for sessions in (own, others))
    is_forgotten = any(kept != mark for _, kept in own)
    if is_forgotten or serving & serving_other or len(serving) > 1 or len(serving_other) > 1:
        raise SessionNotKept(
            f"{driver.where}: a pooler lends this connection another server session for each transaction, so that neither settings nor"
            f" temporary tables nor streamed results last; connect to the server itself, {probe.suggestion}"
        )


def changes_of_session(session: DriverSession, process: int, mark: str, place: str) -> list[str]:
    """Return what of a session's identity, as it was read back, is not as it was when the session began, as clauses."""
    changes = []
    if process != session.process_id:
        changes.append(f"its number is {process}, not {session.process_id}")
    if place != session.server_place:
        changes.append(f"its server is {place}, not {session.server_place}")
    if mark != session.mark:
        changes.append("its mark is another's" if mark else "its mark is gone")
    return changes


def _execute(connection: Any, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _ask(connection: Any, probe: Probe) -> tuple[int, str]:
    with connection.cursor() as cursor:
        cursor.execute(probe.ask)
        process, mark = cursor.fetchone()
    return int(process), str(mark or "")
