"""Find out whether a pooler lends this connection another server session for each transaction.

What a session must keep, its settings, temporary tables and streamed results, is lost then, without an error. PgBouncer's modes
``transaction`` and ``statement`` do so; ``session`` does not. https://www.pgbouncer.org/features.html
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from dialects.errors import SessionNotKept
from dialects.wire import Wire

ROUNDS = 5
"""How often both connections ask for their process: a pooler lends first what was given back last, unless others were quicker."""


def refuse_lent_sessions(connection: Any, log_in: Callable[[], Any], where: str, patience: float) -> None:
    """Raise SessionNotKept if server sessions are not this connection's own; ``log_in`` opens another connection like it.

    A server tells each client the process that serves it. A pooler tells something else, since it has no process yet; only then another
    connection is opened. One process that serves both of them, or two that serve one, belong to none. Where the other connection gets no
    session within ``patience`` seconds, the only one of a small pool is this connection's.
    """
    import psycopg2

    own = {_process(connection)}
    if connection.info.backend_pid in own:
        return
    with closing(log_in()) as other, closing(Wire(other.fileno())) as wire:
        others: set[int] = set()
        try:
            with wire.limit(patience):
                for _ in range(ROUNDS):
                    others.add(_process(other))
                    own.add(_process(connection))
        except psycopg2.OperationalError:
            if not wire.is_cut:
                raise
    if own & others or len(own) > 1 or len(others) > 1:
        raise SessionNotKept(
            f"{where}: a pooler lends this connection another server session for each transaction, so that neither settings nor temporary"
            " tables nor streamed results last; connect to the server itself, or to a pool with pool_mode = session"
        )


def _process(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])
