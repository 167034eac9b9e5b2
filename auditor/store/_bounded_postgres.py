"""PostgreSQL connections each of whose waits on the server ends by itself.

libpq bounds the login (``connect_timeout``) and no wait for an answer: a server that is up and silent would hold a heartbeat, and with it
the end of its run, for ever.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from psycopg2.extensions import connection, cursor

from auditor.durations import durations
from dialects.wire import Wire


class BoundedConnection(connection):
    """A connection that is cut when the server takes longer than SOCKET_TIMEOUT for an answer, which then fails as a lost one does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        # Sent with the login. Otherwise the driver asks for this style afterwards, and nothing bounds its wait for the answer.
        os.environ.setdefault("PGDATESTYLE", "ISO")
        super().__init__(*args, **options)
        self.cursor_factory = BoundedCursor
        self.wire = Wire(self.fileno())

    def commit(self) -> None:
        """Commit the transaction."""
        with self.wire.limit(durations().store_answer):
            super().commit()

    def rollback(self) -> None:
        """Roll the transaction back."""
        with self.wire.limit(durations().store_answer):
            super().rollback()

    def close(self) -> None:
        """Close the connection."""
        super().close()
        self.wire.close()


class BoundedCursor(cursor):
    """A cursor of a BoundedConnection. It holds whole results, so that only statements wait for the server."""

    connection: BoundedConnection

    def execute(self, query: Any, vars: Any = None) -> None:
        """Run a statement."""
        with self.connection.wire.limit(durations().store_answer):
            super().execute(query, vars)

    def executemany(self, query: Any, vars_list: Iterable[Any]) -> None:
        """Run a statement once with each of the parameters, as the driver does, with a bound for each."""
        for parameters in vars_list:
            self.execute(query, parameters)
