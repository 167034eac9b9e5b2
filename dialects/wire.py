"""The TCP connection beneath a session, and the watchdog that cuts it when a wait outlasts its limit, or an answer outgrows its own.

A driver that reads from a server which says nothing waits for ever, deaf to signals where it is written in C. Shutting the socket
down from another thread ends that wait in every driver, with or without TLS: the driver then sees a connection that was closed.
The same ends an answer that a driver would hold in memory however long it is. One thread watches all waits of the process.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ssl import CERT_REQUIRED, SSLSocket
from typing import Any

from dialects.durations import durations

IDLE_BEFORE_PROBES = 60
"""Seconds of silence after which the kernel asks whether the other end still exists."""

PROBE_INTERVAL = 20
PROBES = 3
VANISHED = IDLE_BEFORE_PROBES + PROBE_INTERVAL * PROBES
"""Seconds after which a host that acknowledges nothing counts as lost."""

KEEPALIVE = {
    "TCP_KEEPIDLE": IDLE_BEFORE_PROBES,
    "TCP_KEEPINTVL": PROBE_INTERVAL,
    "TCP_KEEPCNT": PROBES,
    "TCP_USER_TIMEOUT": VANISHED * 1000,
}
"""Options of a TCP socket by their name in the module socket, which does not have those that the platform does not have.
https://man7.org/linux/man-pages/man7/tcp.7.html"""

LARGEST_ANSWER = 1 << 30
"""Bytes that one wait may receive: of a result that is read in batches, one batch. The largest value of PostgreSQL is as long."""

_TCP_INFO_BYTES_RECEIVED = 128
"""Offset of tcpi_bytes_received in Linux's struct tcp_info (include/uapi/linux/tcp.h)."""


@dataclass(slots=True, eq=False)
class _Wait:
    """A current wait on a server, and when (monotonic seconds) it has to end."""

    wire: Wire
    deadline: float
    received: int
    """Bytes that the connection had received before."""

    def is_flooded(self) -> bool:
        """Return whether more was received than an answer may have, and note that at the connection."""
        self.wire.is_flooded |= (self.wire.bytes_received() or 0) - self.received > LARGEST_ANSWER
        return self.wire.is_flooded


class Wire:
    """A session's TCP connection, through a file descriptor of its own, so that it can be cut whatever the driver does meanwhile."""

    def __init__(self, file_descriptor: int) -> None:
        self._socket = socket.socket(fileno=os.dup(file_descriptor))
        self.is_cut = False
        """Whether a wait outlasted its limit, or received more than an answer may have."""
        self.is_flooded = False
        """Whether it was the latter."""
        self.is_hastened = False
        """Whether somebody no longer wants the answer that is waited for."""
        for name, value in {"SO_KEEPALIVE": 1, **KEEPALIVE}.items():
            level = socket.SOL_SOCKET if name == "SO_KEEPALIVE" else socket.IPPROTO_TCP
            with suppress(OSError):  # not a TCP socket
                if hasattr(socket, name):
                    self._socket.setsockopt(level, getattr(socket, name), value)

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Cut the connection if the block lasts longer, or receives more than LARGEST_ANSWER bytes, which its end sees at the latest."""
        wait = _Wait(self, time.monotonic() + seconds, self.bytes_received() or 0)
        _watchdog.add(wait)
        try:
            yield
        finally:
            _watchdog.remove(wait)
            if wait.is_flooded():
                self.cut()

    def hasten(self, seconds: float) -> bool:
        """Let the current waits last no longer than this from now on; False if there are none."""
        return _watchdog.hasten(self, time.monotonic() + seconds)

    def is_silent(self, seconds: float) -> bool:
        """Return whether nothing is waited for, or no longer within these seconds."""
        return _watchdog.is_silent(self, seconds)

    def cut(self) -> None:
        """End every wait on this connection, and the connection."""
        self.is_cut = True
        with suppress(OSError):  # the other end has closed it already
            self._socket.shutdown(socket.SHUT_RDWR)

    def bytes_received(self) -> int | None:
        """Return the bytes received, as counted by the kernel; None if it does not count them (not Linux, not TCP), or once closed."""
        with suppress(OSError, AttributeError, struct.error):
            info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            return int(struct.unpack_from("=Q", info, _TCP_INFO_BYTES_RECEIVED)[0])
        return None

    def close(self) -> None:
        """Give the file descriptor back; the connection ends once the driver has closed its own."""
        self._socket.close()


class _Watchdog:
    """Cuts the connections whose waits are over time, in a thread that starts with the first wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waits: set[_Wait] = set()
        self._next_look = math.inf
        self._thread: threading.Thread | None = None

    def add(self, wait: _Wait) -> None:
        with self._changed:
            self._waits.add(wait)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="waits on servers", daemon=True)
                self._thread.start()
            self._look_at(wait.deadline)

    def remove(self, wait: _Wait) -> None:
        with self._changed:
            self._waits.discard(wait)
            if wait.wire.is_hastened:
                self._changed.notify_all()  # somebody may wait for the end

    def is_silent(self, wire: Wire, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: all(wait.wire is not wire for wait in self._waits), seconds)

    def hasten(self, wire: Wire, deadline: float) -> bool:
        with self._changed:
            own = [wait for wait in self._waits if wait.wire is wire]
            for wait in own:
                wait.deadline = min(wait.deadline, deadline)
                wire.is_hastened = True
            self._look_at(deadline)
            return bool(own)

    def _look_at(self, deadline: float) -> None:
        if deadline < self._next_look:
            self._changed.notify_all()

    def _watch(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for wait in [wait for wait in self._waits if wait.deadline <= now or wait.is_flooded()]:
                    wait.wire.cut()  # under the lock: a wait that has ended by now must not cost its connection
                    self._waits.discard(wait)
                self._next_look = (
                    min((*(wait.deadline for wait in self._waits), now + durations().receipt_poll)) if self._waits else math.inf
                )
                self._changed.wait(None if self._next_look == math.inf else self._next_look - now)


_watchdog = _Watchdog()


def describe_encryption(sock: Any) -> str:
    """Return how a socket of Python is encrypted, and what was verified of its server, as reports say it: ``by TLS 1.3, verified``."""
    if not isinstance(sock, SSLSocket):
        return "by a local socket" if sock.family == socket.AF_UNIX else "in clear"
    is_trusted = sock.context.verify_mode == CERT_REQUIRED
    how = "verified" if is_trusted and sock.context.check_hostname else "host not verified" if is_trusted else "not verified"
    return f"by {str(sock.version()).replace('v', ' ')}, {how}"
