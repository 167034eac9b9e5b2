"""A proxy that passes single statements of a connection on to another session, which sees other rows under one name, without a word.

Poolers do so that multiplex, proxies that split reads, and any of them after a failover: ProxySQL within transactions, in its issue 1947.
The client logs in to the first session itself; the other is opened by a driver, which then only lends its socket. Instead of another
server, the other session is given statements in which another table, whose name is as long, stands for the one of that name.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import psycopg2

import dialects
from dialects.mysql.login import open_connection

QUERY_OF_MYSQL = 3
"""The command that begins a packet which holds a statement."""

Choose = Callable[[bytes], int]
"""Returns the number of the session, 0 or 1, that a statement is passed on to."""


def keep(_: bytes) -> int:
    """Pass on everything to the first session."""
    return 0


@dataclass
class Switching:
    """Where statements go; a test may change it at any time."""

    behind: str
    """The URL of the server."""
    table: str
    other: str
    """What stands for the table in statements of the second session; both names are as long."""
    url: str = ""
    """The server's, through the proxy."""
    choose: Callable[[], Choose] = lambda: keep
    """Returns what decides where the statements of a new connection go."""
    switched: int = 0
    """Statements that went to the second session."""
    _open: list[socket.socket] = field(default_factory=list)

    def accept(self, listener: socket.socket) -> None:
        """Serve connections until the listener is closed."""
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                break
            self._open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Close all connections."""
        for one in self._open:
            _shut(one)

    def _serve(self, client: socket.socket) -> None:
        first, choose = urlsplit(self.behind), self.choose()
        is_mysql = first.scheme in ("mysql", "mariadb")
        with contextlib.ExitStack() as closing_all, contextlib.suppress(OSError):
            closing_all.callback(_shut, client)
            own = socket.create_connection((first.hostname or "", first.port or 0))
            closing_all.callback(_shut, own)
            other = self._other_of_mysql() if is_mysql else self._other_of_postgres()
            closing_all.callback(other.close)
            lent = socket.socket(fileno=os.dup(other._sock.fileno() if is_mysql else other.fileno()))
            lent.setblocking(True)
            closing_all.callback(_shut, lent)
            sessions = (own, lent)
            for session in sessions:
                threading.Thread(target=_pump, args=(session, client), daemon=True).start()
            for packet, statement in (_of_mysql if is_mysql else _of_postgres)(client):
                number = choose(statement) if statement else 0
                self.switched += number
                sessions[number].sendall(self._renamed(packet) if number else packet)

    def _renamed(self, packet: bytes) -> bytes:
        for quote in ("`", '"'):  # not in literals, by which the catalogue is asked
            packet = packet.replace(f"{quote}{self.table}{quote}".encode(), f"{quote}{self.other}{quote}".encode())
        return packet

    def _other_of_mysql(self) -> Any:
        return open_connection(dialects.parse_url(self.behind + ("&" if "?" in self.behind else "?") + "ssl=false"), 3306)

    def _other_of_postgres(self) -> Any:
        connection = psycopg2.connect(self.behind, sslmode="disable", client_encoding="UTF8")
        connection.autocommit = True
        return connection


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)


def _take(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise ConnectionError("the client has gone")
        data += more
    return data


def _of_mysql(client: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Yield the client's packets, and what statement each holds; empty for those of the login.

    https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html
    """
    while True:
        head = _take(client, 4)
        body = _take(client, int.from_bytes(head[:3], "little"))
        yield head + body, body[1:] if head[3] == 0 and body[:1] == bytes([QUERY_OF_MYSQL]) else b""


def _of_postgres(client: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Yield the client's messages, and what statement each holds; empty for those of the login.

    https://www.postgresql.org/docs/current/protocol-message-formats.html
    """
    head = _take(client, 4)
    yield head + _take(client, int.from_bytes(head, "big") - 4), b""
    while True:
        head = _take(client, 5)
        body = _take(client, int.from_bytes(head[1:], "big") - 4)
        yield head + body, body if head[:1] == b"Q" else b""


@contextmanager
def switching(behind: str, table: str, other: str) -> Iterator[Switching]:
    """Run a proxy before a server for the block; in the second session's statements ``other`` stands for ``table``."""
    assert len(table) == len(other)
    proxy = Switching(behind, table, other)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        parts = urlsplit(behind)
        user, _, _ = parts.netloc.rpartition("@")
        plain = "ssl=false" if parts.scheme in ("mysql", "mariadb") else "sslmode=disable"
        query = "&".join([*([parts.query] if parts.query else []), plain])
        proxy.url = parts._replace(netloc=f"{user}@127.0.0.1:{listener.getsockname()[1]}", query=query).geturl()
        thread = threading.Thread(target=proxy.accept, args=(listener,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            proxy.close()
