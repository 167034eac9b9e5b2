"""A TCP proxy on loopback that counts bytes in each direction, connections and statements.

It runs in its own process between a tool and a server, so all tools are measured in the same way, at the socket. Statements are
recognized by the client's messages: COM_QUERY and COM_STMT_EXECUTE of MySQL's protocol, Query and Bind of PostgreSQL's.

    python -m benchmarks.wire PROTOCOL PORT DELAY     PROTOCOL is mysql or postgres, PORT the server's, DELAY the seconds that it adds to
                                                      each exchange; prints the port it listens on, then for each line of input the
                                                      counts since the previous line, as JSON
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html
https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

from __future__ import annotations

import json
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

BUFFER_BYTES = 1 << 18


@dataclass(frozen=True)
class Traffic:
    """Counts of a proxy; ``received`` are the bytes from the server to the tool, ``sent`` those from the tool to the server."""

    received: int = 0
    sent: int = 0
    statements: int = 0
    connections: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.received + other.received,
            self.sent + other.sent,
            self.statements + other.statements,
            self.connections + other.connections,
        )


class CountingProxy:
    """A proxy process in front of one server; ``port`` is the port it listens on."""

    def __init__(self, protocol: str, upstream: int, delay: float = 0.0) -> None:
        command = [sys.executable, "-m", "benchmarks.wire", protocol, str(upstream), str(delay)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def take_traffic(self) -> Traffic:
        """Return the counts since the previous call."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Traffic(**json.loads(self._process.stdout.readline()))

    def stop(self) -> None:
        """Stop the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)


class _StatementCounter:
    """Counts the statements in a client's byte stream, which arrives in arbitrary pieces; ``count`` is the number so far."""

    def __init__(self, protocol: str) -> None:
        self.count = 0
        self._buffer = b""
        self._skip = 0  # bytes of the current message that are still to come
        self._step: Callable[[], bool] = self._mysql if protocol == "mysql" else self._postgres
        self._started = False

    def feed(self, data: bytes) -> None:
        if self._skip >= len(data):
            self._skip -= len(data)
            return
        self._buffer += data[self._skip :]
        self._skip = 0
        while self._step():
            pass

    def _skip_message(self, size: int) -> bool:
        """Advance to the end of the current message; return whether all of it has arrived."""
        self._skip = max(0, size - len(self._buffer))
        self._buffer = self._buffer[size:]
        return not self._skip

    def _mysql(self) -> bool:
        if len(self._buffer) < 5:
            return False
        if self._buffer[3] == 0 and self._buffer[4] in (0x03, 0x17):  # sequence number 0: a new command
            self.count += 1
        return self._skip_message(4 + int.from_bytes(self._buffer[:3], "little"))

    def _postgres(self) -> bool:
        if len(self._buffer) < 8:
            if self._started and len(self._buffer) >= 5:  # Sync and Terminate have five bytes
                return self._tagged_message()
            return False
        if self._started:
            return self._tagged_message()
        self._started = int.from_bytes(self._buffer[4:8], "big") not in (80877103, 80877104)  # requests for encryption
        return self._skip_message(int.from_bytes(self._buffer[:4], "big"))

    def _tagged_message(self) -> bool:
        self.count += self._buffer[:1] in (b"Q", b"B")
        return self._skip_message(1 + int.from_bytes(self._buffer[1:5], "big"))


class _Proxy:
    def __init__(self, protocol: str, upstream: int, delay: float) -> None:
        self._protocol = protocol
        self._upstream = upstream
        self._delay = delay
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("received", "sent", "statements", "connections"), 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    def serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._upstream))
            for peer in (client, server):
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._add("connections", 1)
            statements = _StatementCounter(self._protocol)

            def sent(data: memoryview, statements: _StatementCounter = statements) -> None:
                before = statements.count
                statements.feed(bytes(data))
                self._add("sent", len(data))
                self._add("statements", statements.count - before)

            def received(data: memoryview) -> None:
                self._add("received", len(data))

            for sender, receiver, count in ((client, server, sent), (server, client, received)):
                threading.Thread(target=_forward, args=(sender, receiver, count, self._delay / 2), daemon=True).start()

    def _add(self, name: str, number: int) -> None:
        with self._lock:
            self._counts[name] += number

    def take(self) -> dict[str, int]:
        with self._lock:
            taken = dict(self._counts)
            self._counts = dict.fromkeys(taken, 0)
        return taken


def _forward(sender: socket.socket, receiver: socket.socket, count: Callable[[Any], None], delay: float) -> None:
    """Pass on what the sender sends, ``delay`` seconds after it came, until either side closes the connection."""
    buffer = memoryview(bytearray(BUFFER_BYTES))
    delayed = _HeldBack(receiver, delay) if delay else None
    with suppress(OSError):
        while size := sender.recv_into(buffer):
            count(buffer[:size])
            if delayed:
                delayed.put(bytes(buffer[:size]))
            else:
                receiver.sendall(buffer[:size])
    if delayed:
        delayed.finish()
    for peer in (receiver, sender):
        with suppress(OSError):
            peer.shutdown(socket.SHUT_WR if peer is receiver else socket.SHUT_RD)


class _HeldBack:
    """Sends bytes in their order, each ``delay`` seconds after it was put: delays every exchange, but does not limit the rate."""

    def __init__(self, receiver: socket.socket, delay: float) -> None:
        self._receiver = receiver
        self._delay = delay
        self._queue: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def put(self, data: bytes) -> None:
        self._queue.put((time.monotonic() + self._delay, data))

    def finish(self) -> None:
        """Wait until everything is sent."""
        self._queue.put((0.0, b""))
        self._thread.join()

    def _send(self) -> None:
        with suppress(OSError):
            while (item := self._queue.get())[1]:
                time.sleep(max(0.0, item[0] - time.monotonic()))
                self._receiver.sendall(item[1])


def main(protocol: str, upstream: str, delay: str) -> None:
    """Serve until standard input is closed."""
    proxy = _Proxy(protocol, int(upstream), float(delay))
    threading.Thread(target=proxy.serve, daemon=True).start()
    print(proxy.port, flush=True)
    for _ in sys.stdin:
        print(json.dumps(proxy.take()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
