"""A database connection of a run: passes the throttle before each statement, retries what may succeed later, reconnects when lost.

How long it waits before each retry, and before a lost connection is opened again: `connection_retry_waits` in `auditor/durations.py`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import TypeVar

from auditor import telemetry
from auditor.config import ConnectionSettings
from auditor.connections import prefetch
from auditor.connections.throttle import Throttle, get_throttle
from auditor.durations import durations
from auditor.errors import (
    AuditorError,
    ConfigError,
    ConnectionLost,
    EngineError,
    LockTimeout,
    ServerSilent,
    SessionSwitched,
    StatementCancelled,
    StatementTimeout,
    Unreachable,
)
from auditor.model import Side
from dialects import Session

log = logging.getLogger(__name__)
T = TypeVar("T")

ReportStatus = Callable[[Side, str], None]
"""Receives what a side's connection waits for, and ``continuing`` once it no longer waits."""

CheckRecovered = Callable[[Side, Session], None]
"""Raises an error if what a side has read so far and what it reads in this later session or snapshot do not belong together."""


def accept_recovered(_: Side, __: Session) -> None:
    """Continue in any session."""


CONTINUING = "continuing"
"""The status after a wait."""


class Connection:
    """A connection of one side: a session that is reopened when it is lost, behind the throttle of its database.

    The retry loop is our own, not a library's: reconnecting counts as an attempt, a cancelled run ends the wait at once, and between
    two attempts a chunk may go to another connection.
    """

    def __init__(
        self, side: Side, name: str, settings: ConnectionSettings, report: ReportStatus, stopped: threading.Event, patient: bool = True
    ) -> None:
        """``stopped`` ends waits and retries; a connection that is not ``patient`` neither waits for the throttle nor retries."""
        self.check_recovered: CheckRecovered = accept_recovered
        self.spending: Callable[[], AbstractContextManager[None]] = nullcontext
        """What each statement is run in: it raises BudgetSpent where nothing is left for it."""
        self.side: Side = side
        self.name = name
        self.settings = settings
        self.kept: prefetch.KeptSessions | None = prefetch.kept_for(settings.url)
        """Where sessions are taken from and left, if they are kept."""
        self.can_reopen = True
        """False of a connection inside another's snapshot, which no new session could join."""
        self.running = False
        """Whether a statement was admitted by the throttle and has not ended."""
        self.waiting_since: float | None = None
        """When (monotonic seconds) the statement that the throttle holds back began to wait."""
        self.attempts = 0
        """Failures since the last success."""
        self.retries = 0
        self.snapshots_lost = 0
        self.snapshots_given_up = 0
        """How many snapshots were closed because nothing was read in them during a pause."""
        self.snapshots_not_held = 0
        """How many snapshots were lost at their end, when everything in them was read: their session could not be asked what it was."""
        self.may_lock = True
        """Whether this run has not yet locked the table to share a snapshot; it does so once."""
        self._report = report
        self._stopped = stopped
        self._patient = patient
        self._throttle: Throttle = get_throttle(name, settings)
        self._session: Session | None = None
        self._in_snapshot = False
        self._is_given_up = False
        """Whether the snapshot was closed, so that the next statement opens another."""
        self._switched: SessionSwitched | None = None
        """Why nothing that was read counts: it was found out when an idle snapshot was given up."""
        self._use = threading.RLock()
        """Held while the session is in use."""
        self._calm = threading.Lock()  # held by the one thread that waits until the database is calm
        self._last_use = time.monotonic()
        self.process_ids: set[int] = set()
        """The sessions' processes on the server, where they are known."""
        self.server = ""
        """Name and version of the server, and how it was reached; empty before the first connection."""
        self.server_notes: list[str] = []
        """What a person should know of the server, a sentence each; empty before the first connection."""
        self._lost_sessions = (0, 0)
        """Statements and bytes of sessions that were lost or left; less those of others in a session that was kept."""

    @property
    def session(self) -> Session:
        """The open session. Raises Unreachable if the connection was lost and could not be reopened."""
        if self._session is None:
            raise Unreachable
        return self._session

    @property
    def statements(self) -> int:
        """How many statements have ended, over all sessions."""
        return self._lost_sessions[0] + (self._session.statements if self._session else 0)

    def received(self) -> int:
        """Return the bytes received over all sessions."""
        return self._lost_sessions[1] + (self._session.bytes_received() if self._session else 0)

    def open(self) -> None:
        """Connect, unless the run is stopped first. Raises errors of the tree, with the side in front."""
        limits = self.settings.limits
        with prefix_errors(self.side, self.name):
            connect = partial(prefetch.connect, self.settings.url, limits.statement_timeout, limits.lock_timeout)
            kept = self.kept.take(self.settings) if self.kept else None
            session = kept or _open_unless_stopped(connect, self._stopped, prefetch.opens_file(self.settings.url))
            self._session = session
            if kept:  # what others did in it is none of this run's
                self._lost_sessions = (self._lost_sessions[0] - kept.statements, self._lost_sessions[1] - kept.bytes_received())
            if limits.parallel_workers is not None and not kept:
                try:
                    session.allow_workers(limits.parallel_workers)
                except LookupError as error:
                    session.close()
                    raise ConfigError(f"{error}; remove limits: parallel_workers from the connection {self.name}") from error
        self.server = f"{session.server}, reached {session.reached}" if session.reached else session.server
        self.server_notes = session.notes
        if session.process_id:
            self.process_ids.add(session.process_id)

    def open_first(self) -> None:
        """Connect behind the throttle, retrying transient errors as ``run`` does. Raises errors of the tree, with the side in front."""
        with prefix_errors(self.side, self.name):
            try:
                with self.throttled():
                    self.open()
            except AuditorError as error:
                if not self.may_retry(error):
                    raise
                self.recover(error)
                self.attempts = 0

    def close(self) -> None:
        """Close the session; harmless if there is none."""
        if self._session:
            self._session.close()
        self._throttle.leave_file()

    def leave_session(self) -> None:
        """Keep the session for the next connection to the same database, if any are kept; no statement in it may run or have failed."""
        with self._use:
            if self.kept and self._session and not self._in_snapshot:
                self._lost_sessions = (self.statements, self.received())
                self.kept.put(self.settings, self._session)
                self._session = None

    def cancel(self) -> None:
        """Cancel the running statement."""
        if session := self._session:  # another thread may be reopening it
            session.cancel()

    def begin_snapshot(self) -> None:
        """Open a snapshot, unless one is open; a session that is reopened opens one too."""
        if not self._in_snapshot:
            self.run(lambda session: session.begin())
            self._in_snapshot = True

    def begin_snapshot_by(self, begin: Callable[[Session], T]) -> T:
        """Open a snapshot as ``begin`` does, once, and return what it returns; none may be open. If it fails, none is."""

        def work(session: Session) -> T:
            try:
                return begin(session)
            except BaseException:
                with suppress(AuditorError):  # the first error matters more; a lost connection has no snapshot left
                    session.end()
                raise

        with prefix_errors(self.side, self.name):
            result, self._in_snapshot = self.run_once(work), True
        return result

    @contextmanager
    def released(self) -> Iterator[None]:
        """Close the session for the block, so that another process may write the file that it has open."""
        with self._use:
            self._drop()
        try:
            yield
        finally:
            self.open_first()

    def end_snapshot(self) -> None:
        """Close the snapshot, if one is open. What was read in it stays valid, even if the server cannot be reached.

        Raises SessionSwitched if it may be of several sessions.
        """
        with self._use, prefix_errors(self.side, self.name):
            if not self._end_if_open():
                self.snapshots_not_held += 1
            self._refuse_switched()

    def renew_snapshot(self) -> None:
        """Replace the open snapshot: after a failed statement some engines refuse to continue in the transaction."""
        if self._in_snapshot:
            with self._use:
                self._end_if_open()
            self.snapshots_lost += 1
            self.begin_snapshot()

    def give_up_idle_snapshot(self, seconds: float) -> None:
        """Close the snapshot if nothing was read in it for this long.

        The next statement opens another, but those that shared the snapshot of another connection open one for each chunk.
        """
        if not self._use.acquire(blocking=False):
            return  # a statement reads in it
        try:
            if not self._in_snapshot or self._is_given_up or time.monotonic() - self._last_use < seconds:
                return
            self.snapshots_given_up += 1
            with suppress(SessionSwitched):  # the next use raises it
                self._end_or_drop()
            if self.can_reopen:
                self._is_given_up = True
            else:
                self._in_snapshot, self.can_reopen = False, True
        finally:
            self._use.release()

    @contextmanager
    def throttled(self) -> Iterator[None]:
        """Hold one of the database's slots for the block; waits while the database is busy."""
        with ExitStack() as slots:
            if self._patient:
                self._enter_slot(slots)
            before, self.running = self.running, True  # a nested statement does not end the outer one
            try:
                yield
            finally:
                self.running = before

    def wait_until_calm(self) -> None:
        """Return once the throttle would admit a statement, and hold no slot then: for writes, which have sessions of their own.

        Raises DatabaseBusy and StatementCancelled as a statement does, with the side in front.
        """
        with prefix_errors(self.side, self.name), self._calm, ExitStack() as slots:
            self._enter_slot(slots)

    def _enter_slot(self, slots: ExitStack) -> None:
        self.waiting_since = time.monotonic()
        try:
            slots.enter_context(self._throttle.statement(self._report_wait, self._stopped))
        finally:
            self.waiting_since = None

    def run_once(self, work: Callable[[Session], T], *, fresh: bool = False) -> T:
        """Run ``work`` on the session, behind the throttle; ``fresh`` wraps it in a snapshot of its own unless one is open."""
        with self.throttled(), self._use, self.spending():
            try:
                self._refuse_switched()
                if self._is_given_up:
                    self.session.begin()
                    self._is_given_up = False
                if not fresh or self._in_snapshot:
                    return work(self.session)
                self.session.begin()
                try:
                    result = work(self.session)
                except BaseException:
                    with suppress(AuditorError):  # the work's own error matters more; a lost connection has no snapshot left
                        self.session.end()
                    raise
                self.session.end()  # what is not held to its end is read again
                return result
            finally:
                self._last_use = time.monotonic()

    def run(self, work: Callable[[Session], T], *, fresh: bool = False) -> T:
        """Run ``work`` as ``run_once`` does, retrying transient errors. Raises errors of the tree, with the side in front."""
        with prefix_errors(self.side, self.name):
            while True:
                try:
                    result = self.run_once(work, fresh=fresh)
                except AuditorError as error:
                    if not self.may_retry(error) or not self.can_reopen:
                        raise
                    self.recover(error)
                else:
                    self.attempts = 0
                    return result

    def may_retry(self, error: AuditorError) -> bool:
        """Whether an error may be retried: not if the run is being cancelled, nor if this connection is not patient."""
        return self._patient and not self._stopped.is_set() and is_worth_retrying(error, self.attempts)

    def recover(self, error: AuditorError) -> None:
        """Wait, then reconnect if the connection was lost. Raises the last error when that fails, StatementCancelled when cancelled."""
        lost = isinstance(error, ConnectionLost | Unreachable)
        while True:
            delay = durations().connection_retry_waits[self.attempts]
            self.attempts += 1
            self.retries += 1
            self._report_wait(f"waits {delay:g} s to retry: {error}")
            log.info("retrying", extra={"action": "retry", "side": self.side, "attempt": self.attempts})
            if self._stopped.wait(delay):
                raise StatementCancelled
            try:
                if lost:
                    self._reopen()
                else:
                    self.renew_snapshot()
                self.check_recovered(self.side, self.session)
            except AuditorError as next_error:
                if not self.may_retry(next_error):
                    raise
                error, lost = next_error, True
                continue
            self._report_wait("")
            return

    def open_siblings(self, count: int) -> list[Connection]:
        """Return ``count`` further open connections of this side. Raises errors of the tree."""
        siblings = [Connection(self.side, self.name, self.settings, self._report, self._stopped, self._patient) for _ in range(count)]
        for sibling in siblings:
            sibling.check_recovered, sibling.spending = self.check_recovered, self.spending
        with ThreadPoolExecutor(count, thread_name_prefix=f"{self.side} logs in") as pool:
            tasks = [pool.submit(sibling.open) for sibling in siblings]
        errors = [error for task in tasks if (error := task.exception())]
        if errors:
            for sibling in siblings:
                sibling.close()
            raise errors[0]
        return siblings

    def share_snapshot(self, siblings: Sequence[Connection], table: str) -> bool:
        """Let further connections join this one's snapshot of ``table``; False where the engine or user cannot share one.

        Raises LockTimeout if that takes a lock that was not available, or was tried before in this run, and other errors of the tree.
        """
        needs_lock = self.session.dialect.SHARES_SNAPSHOT_BY_LOCK
        if needs_lock and not self.may_lock:
            raise LockTimeout("a run locks a table only once to share a snapshot")
        helpers = self.open_siblings(1) if needs_lock else []
        self.may_lock = not needs_lock
        try:
            with self._use:
                shared = self.session.share_snapshot(
                    [sibling.session for sibling in siblings], table, helpers[0].session if helpers else None
                )
        finally:
            for helper in helpers:
                helper.close()
        for sibling in siblings if shared else ():
            sibling._in_snapshot, sibling.can_reopen = True, False
        return shared

    def _end_if_open(self) -> bool:
        """Close the snapshot, if one is open; False if the connection was lost meanwhile. Raises SessionSwitched."""
        is_open, self._in_snapshot, self._is_given_up = self._in_snapshot and not self._is_given_up, False, False
        return not is_open or self._end_or_drop()

    def _end_or_drop(self) -> bool:
        try:
            self.session.end()
        except SessionSwitched as error:
            self._switched = error
            self._drop()
            raise
        except AuditorError:
            self._drop()  # the next statement opens another session
            return False
        return True

    def _refuse_switched(self) -> None:
        if self._switched:
            raise self._switched

    def _drop(self) -> None:
        if self._session:
            self._lost_sessions = (self.statements, self.received())
            dropped, self._session = self._session, None
            dropped.close()

    def _reopen(self) -> None:
        with self._use:
            self._drop()
            self.open()
            if self._in_snapshot:
                self.snapshots_lost += not self._is_given_up
                self._is_given_up = False
                self.session.begin()

    def _report_wait(self, reason: str) -> None:
        self._report(self.side, reason or CONTINUING)


def _open_unless_stopped(connect: Callable[[], Session], stopped: threading.Event, is_file: bool) -> Session:
    """Return the session that ``connect`` opens. Raises its error, and StatementCancelled once ``stopped`` is set.

    A server that says nothing, or a name server, holds up a thread that nobody waits for any more; a session that it still opens is
    closed. A file is opened in this thread: it is there at once, and a process that ends while a thread is in DuckDB's C++ is aborted.
    """
    opened: Future[Session] = Future()

    def work() -> None:
        try:
            session = connect()
        except BaseException as error:
            if opened.set_running_or_notify_cancel():
                opened.set_exception(error)
            return
        if opened.set_running_or_notify_cancel():
            opened.set_result(session)
        else:
            session.close()

    if stopped.is_set():
        raise StatementCancelled
    if is_file:
        return connect()
    threading.Thread(target=telemetry.with_current_context(work), name="connect", daemon=True).start()
    while not wait([opened], durations().connecting_poll).done:
        if stopped.is_set() and opened.cancel():
            raise StatementCancelled
    return opened.result()


@contextmanager
def prefix_errors(side: Side, connection: str) -> Iterator[None]:
    """Put the side, and its connection's name where that is another word, in front of errors of the tree that leave the block."""
    try:
        yield
    except AuditorError as error:
        if not str(error).startswith(f"{side}"):
            raise type(error)(f"{side if connection == side else f'{side} ({connection})'}: {error}") from error
        raise


def is_worth_retrying(error: AuditorError, attempts: int) -> bool:
    """Whether an error of an engine may succeed when retried after ``attempts`` failures.

    A statement that timed out would take as long again: it is cut smaller where it can be, and never repeated. One that was never
    answered took longer still, but perhaps only its connection was lost: it is repeated once.
    """
    if isinstance(error, ServerSilent) and attempts:
        return False
    return (
        isinstance(error, EngineError)
        and error.retryable
        and not isinstance(error, StatementTimeout)
        and attempts < len(durations().connection_retry_waits)
    )
