"""Share the servers of a parallel test run: its first process starts them, and its workers ask that process for them.

The first process listens on a socket in the run's directory. A worker sends (verb, worker, engine, detail); the answer is a
Server, or the Unavailable that says why there is none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from tests.servers.process import Server, Unavailable, do_nothing

Answer = Callable[[str, str, str, Any], Server | None]


@dataclass(frozen=True)
class Address:
    """Where the first process listens, its key in hexadecimal digits, and the name of the worker that asks."""

    path: str
    key: str
    worker: str = ""

    def ask(self, verb: str, engine: str, detail: Any = None) -> Server | None:
        """Send one request and return its answer; raise Unavailable where that is the answer."""
        with Client(self.path, "AF_UNIX", authkey=bytes.fromhex(self.key)) as connection:
            connection.send((verb, self.worker, engine, detail))
            found: Server | Unavailable | None = connection.recv()
        if isinstance(found, Unavailable):
            raise found
        return found


# Where the first process is killed, the servers' own watchmen stop them; then this one removes the directory.
_WATCHMAN = 'read -r _ && exit; sleep 10; rm -rf -- "$1"'


class Desk:
    """Answer the workers' requests, each in a thread of its own, until it is closed."""

    def __init__(self, directory: Path, answer: Answer) -> None:
        self._answer = answer
        key = secrets.token_bytes(16)
        self._listener = Listener(str(directory / "desk"), "AF_UNIX", backlog=16, authkey=key)
        self.address = Address(str(directory / "desk"), key.hex())
        self._watchman = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHMAN, "watchman", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, name="desk", daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return  # closed
            except EOFError:
                continue  # a worker was killed while it connected
            threading.Thread(target=self._serve, args=(connection,), name="desk", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with connection, contextlib.suppress(EOFError, OSError):  # the worker may be gone
            verb, worker, engine, detail = connection.recv()
            try:
                found: Server | Unavailable | None = self._answer(verb, worker, engine, detail)
            except Unavailable as reason:
                found = reason
            except Exception as error:
                found = Unavailable(f"{type(error).__name__}: {error}")
            connection.send(replace(found, stopper=do_nothing) if isinstance(found, Server) else found)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
        if self._watchman.stdin and not self._watchman.stdin.closed:
            self._watchman.communicate(b"never mind\n")


@contextlib.contextmanager
def turns(directory: Path, servers: Iterable[str], alone: bool) -> Iterator[None]:
    """Hold the servers for the block, together with other workers or, if ``alone``, without them.

    Who wants a server alone holds its gate while it waits, so that the others cannot overtake it for ever.
    """
    with contextlib.ExitStack() as held:
        for name in sorted(servers):  # one order for all, so that no two wait for each other
            gate, use = (held.enter_context(_opened(directory / f"{name}.{what}")) for what in ("gate", "use"))
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(use, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield number
    finally:
        os.close(number)  # gives the lock back
