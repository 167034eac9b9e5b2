"""One connection of a run: a careful guest on its database, and opened again when it is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import dialects
from auditor.config import Connection
from auditor.errors import AuditorError, ConnectionLost, EngineError, StatementCancelled, StatementTimeout, Unreachable
from auditor.guest import Gate, gate
from auditor.model import Progress, Side
from dialects import Session

log = logging.getLogger(__name__)
T = TypeVar("T")

Watcher = Callable[[Progress], None]

WAITS = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before each further attempt at what failed for a reason that may pass; then it has failed."""


def unwatched(_: Progress) -> None:
    """The watcher of a run that nobody watches."""


class Link:
    """A connection of one side: its session, opened again when lost, and the gate that it passes before each statement.

    ``mendable`` is False of one whose snapshot no new session could join. ``attempts`` counts failures since the last success;
    ``running`` says that the gate let a statement pass that has not ended.
    """

    def __init__(self, side: Side, name: str, connection: Connection, audit: str, watch: Watcher, stopped: threading.Event) -> None:
        self.side: Side = side
        self.name = name
        self.connection = connection
        self.readers = connection.connections
        self.mendable = True
        self.running = False
        self.attempts = 0
        self.retries = 0
        self.snapshots_lost = 0
        self.audit = audit
        self._watch = watch
        self._stopped = stopped
        self._gate: Gate = gate(name, connection)
        self._session: Session | None = None
        self._inside = False
        self._server = ""
        self._before = (0, 0)
        """Statements and bytes of the sessions that were lost."""

    @property
    def server(self) -> str:
        """What the server says of itself; nothing before it was reached."""
        return self._server

    @property
    def session(self) -> Session:
        """The session of now. Raises Unreachable where the connection was lost and could not be opened again."""
        if self._session is None:
            raise Unreachable
        return self._session

    @property
    def statements(self) -> int:
        """Statements of all its sessions."""
        return self._before[0] + (self._session.statements if self._session else 0)

    def received(self) -> int:
        """Bytes received over all its sessions."""
        return self._before[1] + (self._session.received() if self._session else 0)

    def open(self) -> Session:
        """Connect. Raises errors of the tree, naming the side."""
        limits = self.connection.limits
        with named(self.side, self.name):
            self._session = dialects.connect(self.connection.url, limits.statement_timeout, limits.lock_timeout)
        self._server = self._session.server
        return self._session

    def close(self) -> None:
        """Close the session; harmless if there is none."""
        if self._session:
            self._session.close()

    def cancel(self) -> None:
        """End the statement that runs now."""
        if session := self._session:  # another thread may be opening it again
            session.cancel()

    def begin(self) -> None:
        """Open a snapshot, unless there is one; a session that is opened again opens one too."""
        if not self._inside:
            self.patiently(lambda session: session.begin())
            self._inside = True

    def end(self) -> None:
        """Close the snapshot, if there is one. What was read in it stands, whether or not the server hears of its end."""
        if not self._inside:
            return
        self._inside = False
        try:
            self.session.end()
        except AuditorError:
            self._drop()  # the next to need a session opens another

    @contextmanager
    def passed(self) -> Iterator[None]:
        """What a statement passes: it waits there while the database is busy."""
        with self._gate.statement(self._told, self._stopped):
            before, self.running = self.running, True  # one within another does not end it
            try:
                yield
            finally:
                self.running = before

    def once(self, work: Callable[[Session], T], fresh: bool = False) -> T:
        """A piece of work, when the gate lets it pass; ``fresh`` gives it a snapshot of its own, unless there is one already."""
        with self.passed():
            if not fresh or self._inside:
                return work(self.session)
            self.session.begin()
            try:
                return work(self.session)
            finally:
                with suppress(AuditorError):  # the work's own error matters more; a lost connection has no snapshot left
                    self.session.end()

    def patiently(self, work: Callable[[Session], T], fresh: bool = False) -> T:
        """A piece of work as ``once`` does it, tried again where it failed for a reason that may pass.

        Raises errors of the tree, naming the side.
        """
        with named(self.side, self.name):
            while True:
                try:
                    done = self.once(work, fresh)
                except StatementTimeout:
                    raise  # it would take as long again
                except AuditorError as error:
                    if not self.worth_another(error) or not self.mendable:
                        raise
                    self.mend(error)
                else:
                    self.attempts = 0
                    return done

    def worth_another(self, error: AuditorError) -> bool:
        """Whether a failure may pass: not when we ended the statement ourselves, nor after as many attempts as there are waits."""
        return error.retryable and isinstance(error, EngineError) and not self._stopped.is_set() and self.attempts < len(WAITS)

    def mend(self, error: AuditorError) -> None:
        """Wait, and connect again if the connection was lost. Raises the last error when it cannot be."""
        lost = isinstance(error, ConnectionLost | Unreachable)
        while True:
            delay = WAITS[self.attempts]
            self.attempts += 1
            self.retries += 1
            self._told(f"waits {delay:g} s to try again: {error}")
            log.info("trying again", extra={"action": "retry", "audit": self.audit, "side": self.side, "attempt": self.attempts})
            if self._stopped.wait(delay):
                raise StatementCancelled
            try:
                if lost:
                    self._reopen()
                else:
                    self.renew()
            except AuditorError as again:
                if not self.worth_another(again):
                    raise
                error, lost = again, True
                continue
            self._told("")
            return

    def _drop(self) -> None:
        if self._session:
            self._before = (self.statements, self.received())
            old, self._session = self._session, None
            old.close()

    def _reopen(self) -> None:
        self._drop()
        self.open()
        if self._inside:
            self.snapshots_lost += 1
            self.session.begin()

    def renew(self) -> None:
        """Another snapshot for the one there is: after a failed statement some engines' transaction is of no use any more."""
        if not self._inside:
            return
        self.end()
        self.snapshots_lost += 1
        self.begin()

    def beside(self, count: int, table: str, shared: bool) -> list[Link]:
        """Further connections of this side: inside this one's snapshot where that is ``shared``, each for itself otherwise."""
        found: list[Link] = []
        if not shared:
            try:
                for _ in range(count):
                    found.append(self._another())
                    found[-1].open()
            except AuditorError:
                for link in found:
                    link.close()
                raise
            return found
        for session in self.session.siblings(count, table):
            link = self._another()
            link._session, link._inside, link.mendable = session, True, False
            found.append(link)
        return found

    def _another(self) -> Link:
        return Link(self.side, self.name, self.connection, self.audit, self._watch, self._stopped)

    def _told(self, sentence: str) -> None:
        self._watch(Progress(self.audit, self.side, sentence or "goes on"))


@contextmanager
def named(side: Side, connection: str) -> Iterator[None]:
    """Errors of the tree leave this block with the side and connection in front."""
    try:
        yield
    except AuditorError as error:
        if not str(error).startswith(f"{side}"):
            raise type(error)(f"{side} ({connection}): {error}") from error
        raise
