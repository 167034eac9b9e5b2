"""A TCP proxy on loopback that counts what passes: bytes in each direction, connections, and statements.

It stands between every tool and every server alike, in a process of its own, so bytes are counted where they cross the wire,
whatever the tool says of itself. Statements are told from the client's messages: COM_QUERY and COM_STMT_EXECUTE of MySQL's
protocol, Query and Bind of PostgreSQL's.

    python -m benchmarks.wire PROTOCOL PORT     protocol: mysql | postgres; prints the port it listens on, then for every line
                                                of input what was counted since the last
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html
https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

BUFFER = 1 << 18


@dataclass(frozen=True)
class Counted:
    """What passed: bytes towards the tool, bytes towards the server, statements, connections."""

    received: int = 0
    sent: int = 0
    statements: int = 0
    connections: int = 0

    def __add__(self, other: Counted) -> Counted:
        return Counted(
            self.received + other.received,
            self.sent + other.sent,
            self.statements + other.statements,
            self.connections + other.connections,
        )


class Wire:
    """A proxy process before one server."""

    def __init__(self, protocol: str, upstream: int) -> None:
        command = [sys.executable, "-m", "benchmarks.wire", protocol, str(upstream)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def counted(self) -> Counted:
        """What passed since this was last asked."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Counted(**json.loads(self._process.stdout.readline()))

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)


class _Statements:
    """Finds statements in what a client sends, which arrives cut anywhere.

    A message begins with ``head`` bytes; ``read`` tells from them how long the rest is and how many of its bytes it must see.
    """

    def __init__(self, protocol: str) -> None:
        self.found = 0
        self._rest = b""
        self._skip = 0
        self._step: Callable[[], bool] = self._mysql if protocol == "mysql" else self._postgres
        self._started = False

    def feed(self, data: bytes) -> None:
        if self._skip >= len(data):
            self._skip -= len(data)
            return
        self._rest += data[self._skip :]
        self._skip = 0
        while self._step():
            pass

    def _take(self, size: int) -> bool:
        """Go to the end of the message at hand, which may be still to come."""
        self._skip = max(0, size - len(self._rest))
        self._rest = self._rest[size:]
        return not self._skip

    def _mysql(self) -> bool:
        if len(self._rest) < 5:
            return False
        if self._rest[3] == 0 and self._rest[4] in (0x03, 0x17):  # number 0 begins a command
            self.found += 1
        return self._take(4 + int.from_bytes(self._rest[:3], "little"))

    def _postgres(self) -> bool:
        if len(self._rest) < 8:
            if self._started and len(self._rest) >= 5:  # Sync and Terminate are five bytes
                return self._tagged()
            return False
        if self._started:
            return self._tagged()
        self._started = int.from_bytes(self._rest[4:8], "big") not in (80877103, 80877104)  # the requests for encryption
        return self._take(int.from_bytes(self._rest[:4], "big"))

    def _tagged(self) -> bool:
        self.found += self._rest[:1] in (b"Q", b"B")
        return self._take(1 + int.from_bytes(self._rest[1:5], "big"))


class _Proxy:
    def __init__(self, protocol: str, upstream: int) -> None:
        self._protocol = protocol
        self._upstream = upstream
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("received", "sent", "statements", "connections"), 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    def serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._upstream))
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._add("connections", 1)
            statements = _Statements(self._protocol)

            def sent(data: memoryview, statements: _Statements = statements) -> None:
                before = statements.found
                statements.feed(bytes(data))
                self._add("sent", len(data))
                self._add("statements", statements.found - before)

            def received(data: memoryview) -> None:
                self._add("received", len(data))

            for one, other, note in ((client, server, sent), (server, client, received)):
                threading.Thread(target=_pump, args=(one, other, note), daemon=True).start()

    def _add(self, name: str, number: int) -> None:
        with self._lock:
            self._counts[name] += number

    def take(self) -> dict[str, int]:
        with self._lock:
            taken = dict(self._counts)
            self._counts = dict.fromkeys(taken, 0)
        return taken


def _pump(one: socket.socket, other: socket.socket, note: Callable[[Any], None]) -> None:
    room = memoryview(bytearray(BUFFER))
    try:
        while size := one.recv_into(room):
            note(room[:size])
            other.sendall(room[:size])
    except OSError:
        pass  # either side hung up, which ends the conversation
    for end in (other, one):
        with suppress(OSError):
            end.shutdown(socket.SHUT_WR if end is other else socket.SHUT_RD)


def main(protocol: str, upstream: str) -> None:
    """Serve until the input ends."""
    proxy = _Proxy(protocol, int(upstream))
    threading.Thread(target=proxy.serve, daemon=True).start()
    print(proxy.port, flush=True)
    for _ in sys.stdin:
        print(json.dumps(proxy.take()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
