"""What is used of PyMySQL that it does not promise: whatever begins with an underscore there is used in this module alone.

Each use is of something that PyMySQL has no public name for: the socket beneath a connection, which the session's watchdog cuts; the
server's status at the end of a result; a limit of what one answer may hold in memory; the TLS context of a connection that verifies
nothing; results that are read as bytes, what the server says of their columns, and the commands of the binary log.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from dialects.errors import StatementRefused

TRIED = ("1.2.4",)
"""The versions of PyMySQL on which all of this was tried."""

FULL = 0xFFFFFF
"""The size of a packet that another continues."""

HEADER = 4
"""Bytes in front of each packet: its size, and its number."""

LONGEST_VALUE = 256 << 20
"""Bytes of the longest row, or other answer, that is read from a server: a longer one is refused instead of held in memory."""


def value_too_long() -> StatementRefused:
    """Return the error of an answer that is longer than LONGEST_VALUE."""
    return StatementRefused(
        f"the server sent a row of more than {LONGEST_VALUE >> 20:,} MiB, which is not read; exclude the column of such values"
    )


def status_of_end(packet: bytes) -> int:
    """Return the server's status that a packet states which ends a result, or the columns in front of it.

    https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_eof_packet.html
    """
    return int.from_bytes(packet[3:5], "little")


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """What the server says of a column of a result.

    https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset_column_definition.html
    """

    name: str
    type: int
    """The number of its type in the protocol."""
    length: int
    """Bytes of its longest value, in the character set of results; of numbers their digits with sign and point."""
    flags: int
    decimals: int
    is_binary: bool
    """Whether its values are bytes."""


BINARY_SET = 63
"""The number of the character set of bytes."""


def result_columns(cursor: Any) -> list[ResultColumn]:
    """Return what the server said of the columns of a cursor's result."""
    fields = cursor._result.fields
    return [
        ResultColumn(str(one.name), one.type_code, one.length, one.flags, one.scale, one.charsetnr == BINARY_SET) for one in fields or ()
    ]


def unverified_tls() -> ssl.SSLContext:
    """Return the TLS context of a connection that is encrypted if the server can, and whose certificate is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@cache
def connection_class() -> Any:
    """Return PyMySQL's class with a limit of what a connection holds.

    It keeps the server's status from the end of each result, too, of which PyMySQL keeps only that of a statement without one.
    """
    from pymysql.connections import Connection, MySQLResult

    plain: Any = Connection  # whose annotations leave these methods out
    plain_result: Any = MySQLResult

    class Result(plain_result):  # type: ignore[misc]
        def _check_packet_is_eof(self, packet: Any) -> Any:
            is_end, connection = super()._check_packet_is_eof(packet), self.connection
            if is_end:
                connection.server_status = status_of_end(packet.get_all_data())
            return is_end

    class LimitedConnection(plain):  # type: ignore[misc]
        _held = 0

        def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
            # Where a URL says nothing of TLS, PyMySQL verifies nothing, and still reads the authorities that this machine trusts: 50 ms,
            # an eighth of a task of a pipeline.
            return sslp if isinstance(sslp, ssl.SSLContext) else unverified_tls()

        def _read_query_result(self, unbuffered: bool = False) -> Any:
            self._result = None
            result = Result(self)
            result.init_unbuffered_query() if unbuffered else result.read()
            self._result = result
            if result.server_status is not None:
                self.server_status = result.server_status
            return result.affected_rows

        def _read_bytes(self, num_bytes: int) -> Any:
            if num_bytes == FULL:  # a part of a packet that continues in the next
                self._held += num_bytes
                if self._held > LONGEST_VALUE:
                    self._force_close()
                    raise value_too_long()
            elif num_bytes != HEADER:
                self._held = 0
            return super()._read_bytes(num_bytes)

    return LimitedConnection


def socket_of(connection: Any) -> Any:
    """Return the socket, of TLS or not, beneath a connection."""
    return connection._sock


def lift_timeouts(connection: Any) -> None:
    """Let a connection wait without a limit of its own from now on."""
    connection._read_timeout = connection._write_timeout = None


def close_at_once(connection: Any) -> None:
    """Close a connection without a word to the server, whatever that still wants to send."""
    with suppress(Exception):  # whatever state the socket is in
        connection._force_close()


def close_unread(cursor: Any) -> None:
    """Close a cursor that reads row by row, and let the driver forget what was not read."""
    result = cursor._result
    with suppress(Exception):  # closing reads the rest of the result, which fails on a lost connection
        cursor.close()
    if result:
        result.unbuffered_active = False  # else the driver reads on when it is collected as garbage
    cursor.connection = None


def begin_rows(connection: Any, sql: str) -> Callable[[int], bytes]:
    """Run a statement, and return what reads the bytes of its rows: at most so many, and none once the server has closed the connection."""
    from pymysql.cursors import SSCursor

    cursor: Any = connection.cursor(SSCursor)
    cursor.execute(sql)
    result = cursor._result
    cursor.connection = None  # what closes it must read nothing
    result.unbuffered_active = False
    connection._sock.settimeout(connection._read_timeout)
    receive: Callable[[int], bytes] = connection._rfile.read1
    return receive


def run_command(connection: Any, command: int, body: bytes) -> None:
    """Send a command of the protocol, and read the server's answer. Raises the driver's errors."""
    connection._execute_command(command, body)
    connection._read_packet()


def begin_stream(connection: Any, body: bytes, silence: float) -> None:
    """Send a command whose answer has no end, and let each wait for a part of it last at most ``silence`` seconds."""
    connection._write_bytes(struct.pack("<I", len(body))[:3] + b"\0" + body)
    connection._sock.settimeout(silence)
