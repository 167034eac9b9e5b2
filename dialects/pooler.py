"""Find out whether a pooler lends a connection another server session for each transaction.

What a session must keep, its settings, temporary tables and streamed results, is lost then, without an error. PgBouncer does so in its
modes ``transaction`` and ``statement``, and ProxySQL, RDS Proxy and others while they do not know that a session has settings of its own.
https://www.pgbouncer.org/features.html, https://proxysql.com/documentation/multiplexing/,
https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/rds-proxy-pinning.html
"""

from __future__ import annotations

import secrets
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from dialects.errors import SessionNotKept
from dialects.session import Driver
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
    remedy: str
    """What a person is to do, as a clause."""


def refuse_lent_sessions(connection: Any, told: int, asked: int, probe: Probe, driver: Driver) -> None:
    """Raise SessionNotKept if server sessions are not this connection's own.

    A server tells each client, when it connects, the process that serves it (``told``), which is the one that answers when it is ``asked``.
    A pooler tells something else, since it has no process yet; only then another connection is opened. One process that serves both of
    them, or two that serve one, belong to none, and a session that forgets its mark is not kept either. Where the other connection gets
    no session within half of the driver's patience, the only one of a small pool is this connection's.
    """
    if told == asked:
        return
    mark = secrets.token_hex(8)
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
    serving, serving_other = ({process for process, _ in found} for found in (own, others))
    is_forgotten = any(kept != mark for _, kept in own)
    if is_forgotten or serving & serving_other or len(serving) > 1 or len(serving_other) > 1:
        raise SessionNotKept(
            f"{driver.where}: a pooler lends this connection another server session for each transaction, so that neither settings nor"
            f" temporary tables nor streamed results last; connect to the server itself, {probe.remedy}"
        )


def _execute(connection: Any, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _ask(connection: Any, probe: Probe) -> tuple[int, str]:
    with connection.cursor() as cursor:
        cursor.execute(probe.ask)
        process, mark = cursor.fetchone()
    return int(process), str(mark or "")
