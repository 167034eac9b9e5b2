"""Throttle statements on an audited database: concurrency slots, and pauses while the server is busy.

Those that wait are admitted in order of arrival, and told what they wait for. A `Limiter` counts the statements of one connection;
`hold_slot` counts those on a database, over all its connections and, where processes share a store, over all processes.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import dialects
from auditor.config import ConnectionSettings, TableRef
from auditor.durations import durations
from auditor.errors import AuditorError, DatabaseBusy, PlanError, StatementCancelled, StoreError
from dialects import Session

if TYPE_CHECKING:
    from auditor.store import Store

HOW_TO_CONTINUE = "start a new run when it is less busy, or resume this one with auditor resume if it is reported as resumable"
"""What to do after a wait timed out: a run that stored no chunk yet cannot be resumed."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """The result of one load probe: a ``reason`` to wait (empty: none), or an ``error`` that waiting does not solve."""

    at: float
    reason: str = ""
    error: Exception | None = None


class Throttle:
    """Admits statements to a database: at most ``limits.statements`` at a time, in order of arrival, and none while it is too busy.

    A thread that was admitted may run nested statements at once. A thread must not hold slots of two throttles: two threads that wait
    for each other's would wait for ever.

    The load is probed through a session of the throttle's own, which takes no slot. The probe does not count itself or the admitted
    statements, so that the auditor never waits for itself; a thread that was admitted and is between two statements makes the count
    too low by one.
    """

    def __init__(self, name: str, connection: ConnectionSettings) -> None:
        self.name = name
        self._limiter = Limiter()
        self._changed = self._limiter.changed
        self._last_probe: _Probe | None = None
        self._probing_since = 0.0
        """When the running probe began (monotonic seconds); 0 while none runs."""
        self._generation = 0
        """Numbers probes, so that the result of an abandoned one is recognised."""
        self._session: Session | None = None
        self.adapt(connection)

    def adapt(self, connection: ConnectionSettings) -> None:
        """Apply these limits from now on. Raises PlanError for a measure that the engine does not have."""
        _check_measures(self.name, connection)
        with self._changed:
            self._connection = connection
            self._changed.notify_all()

    @contextmanager
    def statement(self, on_wait: OnWait, stopped: threading.Event) -> Iterator[None]:
        """Hold a slot for the block. Calls ``on_wait(reason)`` when the reason to wait changes, and ``on_wait('')`` once admitted.

        Raises DatabaseBusy once the load was too high for ``give_up`` seconds, StatementCancelled once ``stopped`` is set, and any
        error of a load probe that waiting does not solve.
        """
        thread, waiter = threading.get_ident(), Waiter(on_wait, stopped)
        with self._changed:
            nested = thread in self._limiter.admitted
        if nested:
            yield
            return
        with self._limiter.admit(thread, self._limit, waiter, self._watch_load()):
            with hold_slot(lambda: self._connection.database, self._limit, waiter):
                yield

    def _limit(self) -> int | None:
        return self._connection.limits.statements

    def is_in_use(self) -> bool:
        """Whether any thread is admitted or waits."""
        return self._limiter.is_in_use()

    def close(self) -> None:
        """Close the probe's session; the next probe opens another."""
        with self._changed:
            session, self._session = self._session, None
            self._generation += 1  # a running probe closes its session itself
            self._probing_since = 0.0
            self._last_probe = None
        if session:
            session.close()

    def leave_file(self) -> None:
        """Close the probe's session if it holds a file open, unless a thread is admitted or waits: DuckDB opens a file in one mode only."""
        with suppress(AuditorError):  # nothing was opened by a URL that cannot be read; who connects says what is wrong with it
            if dialects.by_scheme(dialects.parse_url(self._connection.url).scheme).OPENS_FILES and not self.is_in_use():
                self.close()

    def _watch_load(self) -> Callable[[bool], str | None]:
        """Return what says why the load lets a statement wait, given whether it would be admitted next; None if it need not wait.

        That raises DatabaseBusy once the load was too high for ``give_up`` seconds without a break.
        """
        why, busy_since = "the server does not report its load", 0.0

        def reason_to_wait(is_next: bool) -> str | None:
            nonlocal why, busy_since
            sentence, pause = self._load_above_limit(is_next), self._connection.limits.pause_when
            if sentence is None:
                busy_since = 0.0
                return None
            why, busy_since = sentence or why, busy_since or time.monotonic()
            if pause and time.monotonic() - busy_since >= pause.give_up:
                raise DatabaseBusy(f"{self.name}: {why}, for {pause.give_up:g} s; {HOW_TO_CONTINUE}")
            return sentence and f"waits: {sentence}"

        return reason_to_wait

    def _load_above_limit(self, is_next: bool) -> str | None:
        """Return the reason for which the load lets a statement wait, '' if it is being probed; None if the load allows it."""
        if self._connection.limits.pause_when:
            now, last = time.monotonic(), self._last_probe
            if is_next and (last is None or now - last.at >= durations().load_probe):
                self._start_probe(now)
                return ""
            if is_next and last and last.error:
                raise last.error
            if last and last.reason and (is_next or now - last.at < 3 * durations().load_probe):
                return last.reason
        return None

    def _start_probe(self, now: float) -> None:
        """Start a probe, unless one runs, in a thread of its own: nothing hangs with a server that does not answer."""
        if self._probing_since and now - self._probing_since < durations().load_probe_stale:
            return
        self._generation += 1
        self._probing_since = now
        session, self._session = self._session, None
        threading.Thread(
            target=self._probe, args=(self._generation, session, len(self._limiter.admitted)), name=f"load of {self.name}", daemon=True
        ).start()

    def _probe(self, generation: int, session: Session | None, own: int) -> None:
        reason, failure, final = "", None, False
        try:
            session = session or dialects.connect(self._connection.url, durations().load_probe_limit, durations().load_probe_limit)
            reason = reason_of_load(session, self.name, self._connection, own)
        except Exception as error:  # raised in the threads that wait, not in this one
            failure, final = error, not (isinstance(error, AuditorError) and error.retryable)
            reason = f"the load of the server cannot be probed: {error}"
        unusable, session = (session, None) if failure else (None, session)
        with self._changed:
            if generation == self._generation:
                self._last_probe = _Probe(time.monotonic(), reason, failure if final else None)
                self._probing_since = 0.0
                self._session, session = session, None
                self._changed.notify_all()
        for probe_session in (unusable, session):  # the second if the throttle was closed or abandoned this probe
            if probe_session:
                probe_session.close()


def reason_of_load(session: Session, name: str, connection: ConnectionSettings, own: int) -> str:
    """Return a sentence about the first measure above its limit; empty if there is none."""
    pause = connection.limits.pause_when
    if not pause:
        return ""
    heartbeat = pause.heartbeat
    load = session.dialect.server.server_load(session, [measure for measure in pause.limits if not (heartbeat and measure == "lag")], own)
    if heartbeat:
        place = TableRef(connection=name, table=heartbeat.table).place
        load["lag"] = session.dialect.server.heartbeat_age(session, place, heartbeat.column, heartbeat.rows)
        if load["lag"] < -heartbeat.ahead:
            raise PlanError(
                f"{name}: the heartbeat {heartbeat.table}.{heartbeat.column} lies {-load['lag']:,.0f} s in the future;"
                " it has to be written in UTC"
            )
    return next((_sentence(m, load[m], limit, bool(heartbeat)) for m, limit in pause.limits.items() if load[m] > limit), "")


def _sentence(measure: str, value: float, limit: float, is_heartbeat: bool) -> str:
    if measure == "threads_running":
        return f"Threads_running is {value:,.0f}, which is more than {limit:,.0f}"
    if measure == "active_sessions":
        return f"{value:,.0f} sessions run a statement, which is more than {limit:,.0f}"
    if measure == "queued":
        return f"{value:,.0f} statements wait in the queues, which is more than {limit:,.0f}"
    if math.isinf(value):
        return "the heartbeat's table is empty" if is_heartbeat else "the replica does not replicate"
    return f"the {'heartbeat' if is_heartbeat else 'replica'} is {value:,.0f} s behind, which is more than {limit:,g} s"


def _check_measures(name: str, connection: ConnectionSettings) -> None:
    pause = connection.limits.pause_when
    if not pause:
        return
    dialect = dialects.by_scheme(dialects.parse_url(connection.url).scheme)
    unknown = [
        measure for measure in pause.limits if measure not in dialect.server.LOAD_MEASURES and not (measure == "lag" and pause.heartbeat)
    ]
    if unknown:
        able = [*dialect.server.LOAD_MEASURES, *(() if "lag" in dialect.server.LOAD_MEASURES else ("lag with a heartbeat",))]
        what = f"{' and '.join(unknown)}, which {dialect.name} cannot report; it reports {', '.join(able)}"
        raise PlanError(f"{name}: the connection's pause_when asks for {what}")


_throttles: dict[tuple[str, str], Throttle] = {}
_throttles_lock = threading.Lock()


def get_throttle(name: str, connection: ConnectionSettings) -> Throttle:
    """Return the throttle of a connection, shared by all audits of this process.

    Raises PlanError for a measure that the engine does not have.
    """
    with _throttles_lock:
        throttle = _throttles.get((name, connection.url))
        if throttle:
            throttle.adapt(connection)
        else:
            throttle = _throttles[name, connection.url] = Throttle(name, connection)
        return throttle


def close_all() -> None:
    """Close the throttles' own sessions and forget the throttles that are not in use."""
    with _throttles_lock:
        for key, throttle in list(_throttles.items()):
            throttle.close()
            if not throttle.is_in_use():
                del _throttles[key]


OnWait = Callable[[str], None]
"""Receives the reason to wait whenever it changes, and an empty text once the wait is over."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """Who may have to wait: what receives the reason, and what is set to end the wait."""

    on_wait: OnWait
    stopped: threading.Event

    def wait(self, reason_to_wait: Callable[[], str | None], changed: threading.Condition, poll: float) -> None:
        """Wait until there is no reason to; it is asked for, '' if it is not known yet, whenever ``changed``, and every ``poll`` seconds.

        Raises StatementCancelled once ``stopped`` is set, and errors of ``reason_to_wait``.
        """
        reported = ""
        while True:
            with changed:
                if self.stopped.is_set():
                    raise StatementCancelled
                reason = reason_to_wait()
                if reason is None:
                    break
                if not reason or reason == reported:
                    changed.wait(poll)
                    continue
            reported = reason
            self.on_wait(reason)  # outside the lock: it may take long
        if reported:
            self.on_wait("")


def admit_all(_: bool) -> None:
    """Let nobody wait for more than its turn."""


class Limiter:
    """Admits up to a limit, which may change meanwhile, in order of arrival."""

    def __init__(self, scope: str = "") -> None:
        """``scope`` says over what it counts, for those that wait."""
        self.changed = threading.Condition()
        """To be notified when a limit, or what else lets anybody wait, has changed. It guards what follows."""
        self.admitted: set[object] = set()
        self._queue: list[object] = []
        self._scope = scope

    @contextmanager
    def admit(
        self, who: object, limit: Callable[[], int | None], waiter: Waiter, reason_to_wait: Callable[[bool], str | None] = admit_all
    ) -> Iterator[None]:
        """Be admitted for the block; a limit of None is none.

        ``reason_to_wait`` returns why one waits, given whether it would be admitted next, for another reason than its turn: '' if that is
        not known yet, None if there is none. Raises its errors, and StatementCancelled once the waiter was stopped.
        """

        def reason() -> str | None:
            most = limit()
            is_next = most is None or len(self.admitted) + self._queue.index(who) < most
            other = reason_to_wait(is_next)
            if other is None and not is_next:
                return f"waits for {describe_slots(most)} at once{self._scope}"
            if other is None:
                self._queue.remove(who)
                self.admitted.add(who)
            return other

        with self.changed:
            self._queue.append(who)
        try:
            waiter.wait(reason, self.changed, durations().limiter_poll)
            yield
        finally:
            with self.changed:
                if who in self._queue:
                    self._queue.remove(who)
                self.admitted.discard(who)
                self.changed.notify_all()

    def is_in_use(self) -> bool:
        """Return whether anybody is admitted or waits."""
        with self.changed:
            return bool(self.admitted or self._queue)


def describe_slots(most: int | None) -> str:
    """Return what one waits for that is not admitted."""
    return "the one statement" if most == 1 else f"one of {most} statements"


log = logging.getLogger(__name__)


class _Shared:
    """The store that counts statements, and the slots that this process holds there, which a thread keeps renewing.

    What reads the store is loaded here, because that takes longer than most servers take to log in.
    """

    def __init__(self, store: Store) -> None:
        from auditor.store import leases
        from auditor.store.leases import Renewal

        self.take = partial(leases.take_slot, store)
        self.renew = partial(leases.renew_slot, store)
        self.release = partial(leases.release_slot, store)
        self.databases: dict[str, str] = {}
        """The database of each holder."""
        self.renewal = Renewal("slots", self._renew_all, durations().slot_lease / 4)
        self.renewal.start()

    def _renew_all(self) -> None:
        for holder, database in list(self.databases.items()):
            with suppress(StoreError):  # while the store fails, no other process gets the slot either
                self.renew(database, holder, durations().slot_lease)


_shared: _Shared | None = None


def share_through(store: Store | None) -> None:
    """Count statements over all processes that share this store from now on, or in this process alone (None)."""
    global _shared
    before, _shared = _shared, _Shared(store) if store else None
    if before:
        before.renewal.ask_to_stop()


@contextmanager
def hold_slot(database_of: Callable[[], str], most: Callable[[], int | None], waiter: Waiter) -> Iterator[None]:
    """Hold one of ``most()`` slots on the database ``database_of()`` for the block; None is no limit.

    Raises StatementCancelled once the waiter was stopped.
    """
    if most() is None:
        yield
        return
    shared, holder, database = _shared, uuid.uuid4().hex, database_of()
    if shared is None:
        with _limiters_lock:
            limiter = _limiters.setdefault(database, Limiter(" over all connections"))
        with limiter.admit(holder, most, waiter):
            yield
        return
    try:
        waiter.wait(partial(_reason_to_wait, shared, database, holder, most), threading.Condition(), durations().slot_poll)
        yield
    finally:
        shared.databases.pop(holder, None)
        with suppress(StoreError):  # then it lapses
            shared.release(database, holder)


_limiters: dict[str, Limiter] = {}
"""Count the statements of this process on each database where no store is shared."""

_limiters_lock = threading.Lock()


def _reason_to_wait(shared: _Shared, database: str, holder: str, most: Callable[[], int | None]) -> str | None:
    """Take a slot of the store if one is free; return why not, and None if one was taken or none is needed."""
    limit = most()
    if limit is None:
        return None
    try:
        if not shared.take(database, limit, holder, durations().slot_lease):
            return f"waits for {describe_slots(limit)} at once over all processes"
    except StoreError as error:
        if error.retryable:
            return f"waits for its slot, which the store cannot count: {error}"
        log.warning("statements are counted in this process alone: %s", error, extra={"action": "slots_failed"})
        return None
    shared.databases[holder] = database
    return None
