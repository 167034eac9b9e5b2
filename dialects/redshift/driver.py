"""What is used of redshift_connector that it does not promise: whatever begins with an underscore there is used in this module alone.

A connection has a socket (``_usock``) and a buffered stream over it (``_sock``), and no public name for either.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dialects.postgres.session import ResultColumn

TRIED = ("2.2.0",)
"""The versions of redshift_connector on which all of this was tried."""


def socket_of(connection: Any) -> Any:
    """Return the socket, of TLS or not, beneath a connection."""
    return connection._usock


def stream_of(connection: Any) -> Any:
    """Return the stream over a connection's socket, which stays open if the driver cannot send its Terminate message."""
    return connection._sock


def result_columns(cursor: Any) -> list[ResultColumn]:
    """Return what the server said of each column of a cursor's result; its ``description`` has no modifiers."""
    columns = (cursor.ps or {}).get("row_desc") or ()
    return [ResultColumn(_text(column["label"]), int(column["type_oid"]), int(column["type_modifier"])) for column in columns]


def _text(label: bytes | str) -> str:
    return label.decode() if isinstance(label, bytes) else label


def close_sockets_of_failed_login(error: BaseException) -> None:
    """Close the sockets of a failed login: the driver leaves them open in a connection object that it never returns."""
    trace = error.__traceback__
    while trace:
        connection = trace.tb_frame.f_locals.get("self")
        for stream in (getattr(connection, "_sock", None), getattr(connection, "_usock", None)):
            with suppress(Exception):
                stream.close()  # type: ignore[union-attr]
        trace = trace.tb_next
