"""A TCP proxy between the auditor and a server that falls silent when told to: what it swallows is acknowledged and never answered."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

BINLOG_DUMP = b"\0\x12"
"""How a client's packet begins, behind its length, that asks for a binary log."""

TAIL = 200
"""Bytes of a client's last words in which a text that silences is looked for, should it have been sent in two pieces."""


@dataclass(eq=False)
class Line:
    """One connection through the proxy."""

    client: socket.socket
    server: socket.socket | None = None
    is_silent: bool = False
    allowed: int | None = None
    """Bytes that the server may still say before the line falls silent; None: any number."""
    last_words: bytes = b""
    tamper: Callable[[bytes], bytes] | None = None
    """What becomes of each packet of the server; None: nothing."""
    unfinished: bytes = b""
    """The beginning of a packet of the server."""
    _is_closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reach(self, server: socket.socket) -> None:
        """Take the connection to the server, and close it where the line was closed while it was made: nobody else would."""
        with self._lock:
            self.server = server
            if self._is_closed:
                server.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for end in (self.client, self.server):
                if end:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                    end.close()


@dataclass
class Proxy:
    """When the proxy refuses, delays or silences connections, and what it saw; a test may change it at any time."""

    host: str
    port: int
    url: str = ""
    """The server's URL, through the proxy."""
    refuses: bool = False
    """Close new connections at once, as a server that is starting does."""
    allowed_at_login: int | None = None
    """Bytes that the server may say on a new connection before it falls silent; None: any number, 0: it never says a word."""
    silencing_text: bytes = b""
    """What a client has to send for its connection to fall silent."""
    allowed_after_text: int = 0
    """Bytes that the server may still say then."""
    login_delay: float = 0.0
    """Seconds by which the first word to a new connection is delayed."""
    heard: threading.Event = field(default_factory=threading.Event)
    """Set once a client has sent the silencing text."""
    opened: int = 0
    """How many connections were opened."""
    tamper: Callable[[], Callable[[bytes], bytes]] | None = None
    """Returns what becomes of each packet of a binary log, with its head of four bytes, on a connection that asks for one."""
    log: list[tuple[int, bytes]] = field(default_factory=list)
    """What clients sent, with the number of the connection."""
    _lines: list[Line] = field(default_factory=list)

    def fall_silent(self) -> None:
        """Say nothing any more, neither on open connections nor on new ones."""
        self.allowed_at_login = 0
        for line in self._lines:
            line.is_silent = True

    def accept(self, listener: socket.socket) -> None:
        """Serve connections until the listener is closed."""
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                break
            self.opened += 1
            if self.refuses:
                client.close()
                continue
            line = Line(client, allowed=self.allowed_at_login)
            self._lines.append(line)
            threading.Thread(target=self._serve, args=(line, self.opened), daemon=True).start()

    def close(self) -> None:
        """Close all connections."""
        for line in self._lines:
            line.close()

    def _serve(self, line: Line, number: int) -> None:
        if line.allowed != 0:
            time.sleep(self.login_delay)
            server = socket.create_connection((self.host, self.port))
            line.reach(server)
            threading.Thread(target=self._pass_on, args=(line, server, line.client, self._hear_server), daemon=True).start()
        self._pass_on(line, line.client, line.server, lambda line, data: self._hear_client(line, data, number))

    def _pass_on(self, line: Line, source: socket.socket, target: socket.socket | None, hear: Callable[[Line, bytes], bytes]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                was_silent = line.is_silent
                data = hear(line, data)
                if target and not was_silent:
                    target.sendall(data)
        if source is line.client or not line.is_silent:
            line.close()

    def _hear_client(self, line: Line, data: bytes, number: int) -> bytes:
        self.log.append((number, data))
        if self.tamper and data[3:5] == BINLOG_DUMP:
            line.tamper = self.tamper()
        line.last_words = (line.last_words + data)[-TAIL - len(data) :]
        if self.silencing_text and self.silencing_text in line.last_words:
            line.allowed, line.last_words = self.allowed_after_text, b""
            self.heard.set()
        return data

    def _hear_server(self, line: Line, data: bytes) -> bytes:
        if line.tamper:
            whole, line.unfinished = _packets(line.unfinished + data)
            return b"".join(line.tamper(one) for one in whole)
        if line.allowed is None:
            return data
        data = data[: line.allowed]
        line.allowed -= len(data)
        line.is_silent = line.allowed == 0
        return data


def _packets(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole packets of MySQL's protocol, and the beginning of the next one."""
    found: list[bytes] = []
    while len(data) >= 4 and len(data) >= (end := 4 + int.from_bytes(data[:3], "little")):
        found.append(data[:end])
        data = data[end:]
    return found, data


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """Run a proxy before the server of this URL for the block."""
    parts = urlsplit(url)
    proxy = Proxy(parts.hostname or "127.0.0.1", parts.port or 0)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        user, _, _ = parts.netloc.rpartition("@")
        options = [parts.query] if parts.query else []
        if parts.scheme in ("mysql", "mariadb"):
            options.append("ssl=false")  # what is sent has to be read here
        proxy.url = parts._replace(netloc=f"{user}@127.0.0.1:{listener.getsockname()[1]}", query="&".join(options)).geturl()
        thread = threading.Thread(target=proxy.accept, args=(listener,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            proxy.close()
