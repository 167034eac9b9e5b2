"""Read a result of one column of texts from PyMySQL in blocks of bytes.

PyMySQL makes a packet, a tuple and a decoded string of each row, which for a copy of a table takes longer than the server takes to
build its lines. Here what the socket brings is cut into rows, and nothing else is made of them.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html,
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

from dialects.mysql import driver
from dialects.mysql.driver import FULL, HEADER

BLOCK = 1 << 18
"""Bytes that are read at once."""

NULL, TWO, THREE, EIGHT, ERROR = 0xFB, 0xFC, 0xFD, 0xFE, 0xFF
"""What a row's first byte says where it is not the length of its text: the bytes that have this, or that there is none."""

PREFIXES = {TWO: 3, THREE: 4, EIGHT: 9}
"""Bytes in front of a text whose length takes so many."""

LONGEST_EOF = 8
"""Bytes of the longest packet that ends a result: a row that begins alike is longer."""


def fetch_lines(connection: Any, sql: str) -> Generator[tuple[int, bytes | None]]:
    """Run a statement of one column of texts and yield these in blocks: how many, and each in UTF-8 with a line feed after it.

    None stands for a block with a NULL. A block is what has arrived, so it may be of one row. Raises the driver's errors.
    """
    rows = Rows(connection, driver.begin_rows(connection, sql))
    try:
        while not rows.ended:
            texts = rows.read()
            if texts:
                yield len(texts), None if None in texts else b"\n".join(texts) + b"\n"  # type: ignore[arg-type]
    finally:
        with suppress(Exception):  # reading the rest of a result fails on a lost connection
            while not rows.ended:
                rows.read()


class Rows:
    """The rows of a result that have not been read yet."""

    def __init__(self, connection: Any, receive: Callable[[int], bytes]) -> None:
        self._connection = connection
        self._receive = receive
        self._data = b""
        self.ended = False
        """Whether the server has sent its last row, or an error."""

    def read(self) -> list[bytes | None]:
        """Return the texts of the rows that have arrived; none at the end. Raises the driver's errors."""
        texts = self._cut()
        while not texts and not self.ended:
            self._fill(1)
            texts = self._cut()
        return texts

    def _cut(self) -> list[bytes | None]:
        """Return the texts of the rows that are here as a whole, or of the first if it is so long that the rest has yet to come."""
        data, at, end = self._data, 0, len(self._data)
        texts: list[bytes | None] = []
        while end - at >= HEADER:
            size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            begin = at + HEADER
            stop = begin + size
            if size == FULL and not texts:
                return [self._read_long()]
            if size == FULL or stop > end:
                break
            first = data[begin]
            if first < NULL:
                texts.append(data[begin + 1 : stop])
            elif first == NULL:
                texts.append(None)
            elif first == ERROR or (first == EIGHT and size <= LONGEST_EOF):
                self._end(data[begin:stop])
                break
            else:
                texts.append(data[begin + PREFIXES[first] : stop])
            at = stop
        self._data = data[at:]
        return texts

    def _read_long(self) -> bytes:
        """Return a text that several packets hold."""
        parts, size, total = [], FULL, 0
        while size == FULL:
            total += FULL
            if total > driver.LONGEST_VALUE:
                self.ended = True
                raise driver.value_too_long()
            size = int.from_bytes(self._take(HEADER)[:3], "little")
            parts.append(self._take(size))
        whole = b"".join(parts)
        return whole[PREFIXES[whole[0]] :]

    def _take(self, size: int) -> bytes:
        while len(self._data) < size:
            self._fill(size - len(self._data))
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def _fill(self, size: int) -> None:
        from pymysql.constants import CR
        from pymysql.err import OperationalError

        block = self._receive(max(size, BLOCK))
        if not block:
            self.ended = True
            raise OperationalError(CR.CR_SERVER_LOST, "Lost connection to MySQL server during query")
        self._data += block

    def _end(self, packet: bytes) -> None:
        """Note that nothing follows. Raises the error that the server sent, if it is one."""
        from pymysql.err import raise_mysql_exception

        self.ended = True
        if packet[0] == ERROR:
            raise_mysql_exception(packet)
        self._connection.server_status = driver.status_of_end(packet)
