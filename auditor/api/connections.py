"""What clients may hold open: a deadline for the head of a request, and limits of connections, in all and of one address.

Uvicorn limits how long a connection may be idle after a response, and how many requests run; a connection whose first request never
comes it keeps for ever. Where a limit is reached, the connection that has waited longest for a head is closed in favour of the new one,
so that those who send nothing take no place from those who do.
https://www.uvicorn.org/settings/#timeouts
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import Collection
from ipaddress import ip_address, ip_network
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from auditor.api.middleware import PEER
from auditor.durations import durations

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 500
"""Connections at once, if the limit of open files of the process allows twice as many."""

BACKLOG = 128
"""Connections that the system accepts before the service does. The loop logs each that it cannot open, so many at once."""


class Limits:
    """The connections of a service, and what they may be. ``proxies`` are trusted, and share no limit of one address."""

    def __init__(self, per_client: int, proxies: Collection[str] = (), total: int | None = None) -> None:
        self.per_client = per_client
        self.total = total or min(MAX_CONNECTIONS, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
        self._proxies = [ip_network(proxy) for proxy in proxies]
        self._open: dict[str, dict[GuardedProtocol, None]] = {}
        self._waiting: dict[GuardedProtocol, None] = {}
        self._count = 0
        self._logged = float("-inf")
        self._unlogged = 0

    def protocol(self) -> type[GuardedProtocol]:
        """Return the class of protocols that uvicorn makes one of for each connection."""
        return type("GuardedProtocol", (GuardedProtocol,), {"limits": self})

    def add(self, connection: GuardedProtocol) -> bool:
        """Count a new connection; False where it has to be closed, as a limit is reached and none waits for its head."""
        own = self._open.setdefault(connection.address, {})
        is_over = len(own) >= self.per_client and not self._is_proxy(connection.address)
        if is_over or self._count >= self.total:
            waiting = next((other for other in (own if is_over else self._waiting) if other in self._waiting), None)
            self._log("a limit of connections was reached", connection.address)
            if waiting is None:
                if not own:
                    del self._open[connection.address]
                return False
            waiting.drop()
        self._open.setdefault(connection.address, {})[connection] = None
        self._waiting[connection] = None
        self._count += 1
        return True

    def set_waiting(self, connection: GuardedProtocol, is_waiting: bool) -> None:
        """Note whether a connection waits for the head of a request."""
        if is_waiting:
            self._waiting.setdefault(connection)
        else:
            self._waiting.pop(connection, None)

    def remove(self, connection: GuardedProtocol) -> None:
        """Forget a connection that has ended."""
        self._waiting.pop(connection, None)
        own = self._open.get(connection.address, {})
        if connection in own:
            del own[connection]
            self._count -= 1
        if not own:
            self._open.pop(connection.address, None)

    def late(self, connection: GuardedProtocol) -> None:
        """Close a connection whose head did not arrive in time."""
        self._log("the head of a request did not arrive in time", connection.address)
        connection.drop()

    def _is_proxy(self, address: str) -> bool:
        try:
            client = ip_address(address)
        except ValueError:
            return False
        return any(client in network for network in self._proxies)

    def _log(self, what: str, address: str) -> None:
        if time.monotonic() - self._logged < durations().connection_errors:
            self._unlogged += 1
            return
        since = f"; {self._unlogged:,} others since the last such line" if self._unlogged else ""
        log.warning("%s: closed one of %s%s", what, address or "an unknown address", since, extra={"action": "connection_closed"})
        self._logged, self._unlogged = time.monotonic(), 0


class GuardedProtocol(H11Protocol):
    """A connection within the limits of a service."""

    limits: ClassVar[Limits]
    address = ""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Count the connection, and start the deadline of its first head."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.app_state = {**self.app_state, PEER: self.address}
        if self.limits.add(self):
            self._set_waiting(True)
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read on, and end the deadline once a head is complete."""
        super().data_received(data)
        self._set_waiting(self.cycle is None or self.cycle.response_complete)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop()
        self.limits.remove(self)
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once."""
        self._stop()
        self.limits.remove(self)
        self.transport.abort()

    def _set_waiting(self, is_waiting: bool) -> None:
        if self.transport.is_closing():
            return
        self.limits.set_waiting(self, is_waiting)
        if not is_waiting:
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(durations().request_head, self.limits.late, self)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class OncePerMinute(logging.Filter):
    """Let one line of asyncio about a lack of files or memory pass in a minute; the loop writes one for each waiting connection."""

    def __init__(self) -> None:
        super().__init__()
        self._passed = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is logged."""
        if "out of system resource" not in record.getMessage():
            return True
        if time.monotonic() - self._passed < durations().connection_errors:
            return False
        self._passed = time.monotonic()
        return True
