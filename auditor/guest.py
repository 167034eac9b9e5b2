"""A careful guest on a database: how many statements run there at once, when nothing is begun, and what is not scanned."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import dialects
from auditor import sharing
from auditor.config import Connection, TableRef
from auditor.errors import AuditorError, GuestWaited, PlanError, ScanRefused, StatementCancelled
from auditor.model import Plan, Side
from dialects import Session

PERIOD = 1.0
"""Seconds for which one reading of a server's load serves everybody."""

GLANCE = 0.1
"""Seconds between two looks of one who waits at whether it was stopped."""

PATIENCE = 10.0
"""Seconds that the server may take to say how busy it is."""

FORSAKEN = 30.0
"""Seconds after which a reading that has not ended is given up, and another begun through another session."""

AHEAD = 60.0
"""Seconds that a heartbeat may lie in the future: clocks differ."""

LATER = "start a new run when it is less busy, or go on with this one by auditor resume where it is told as resumable"
"""What to do once a wait was given up: a run that had no plan yet, or is not kept, cannot be resumed."""

Waiting = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the server said, or failed to say: ``reason`` to wait (empty: none), or an ``error`` that waiting does not mend."""

    at: float
    reason: str = ""
    error: Exception | None = None


class Gate:
    """What every statement on a database passes: one of ``limits.statements`` slots, first come, first served, and no ``pause_when``.

    A thread that is inside passes again at once, so that a statement may be asked for within another. A thread should be inside
    one gate at a time: two that wait for each other's would wait for ever.

    The load is asked through a session of the gate's own, which takes no slot. It is counted without that session and without
    the statements that are inside, so that the auditor never waits for itself; one that is inside and between two statements
    makes the count too low by one.
    """

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self._changed = threading.Condition()
        self._inside: set[int] = set()
        self._line: list[object] = []
        self._reading: _Reading | None = None
        self._asking = 0.0
        """When the reading that is under way began; 0 while none is."""
        self._generation = 0
        """Counts readings; one that comes in after it was given up is known by it."""
        self._session: Session | None = None
        self.adapt(connection)

    def adapt(self, connection: Connection) -> None:
        """Keep to these limits from now on. Raises PlanError for a measure that the engine cannot say."""
        _check_measures(self.name, connection)
        with self._changed:
            self._connection = connection
            self._changed.notify_all()

    @contextmanager
    def statement(self, waiting: Waiting, stopped: threading.Event) -> Iterator[None]:
        """Be inside for the block, after a wait if need be, whose reason ``waiting`` is told at each change and '' at its end.

        Raises GuestWaited once the load was too high for ``give_up``, StatementCancelled once ``stopped`` is set, and what keeps
        the load from being asked where waiting does not mend it.
        """
        thread = threading.get_ident()
        with self._changed:
            nested = thread in self._inside
        if nested:
            yield
            return
        ticket = object()
        try:
            self._enter(ticket, thread, waiting, stopped)
            with sharing.slot(self._connection.database, lambda: self._connection.limits.statements, waiting, stopped):
                yield
        finally:
            with self._changed:
                if ticket in self._line:
                    self._line.remove(ticket)
                self._inside.discard(thread)
                self._changed.notify_all()

    def used(self) -> bool:
        """Whether anybody is inside, or waits."""
        with self._changed:
            return bool(self._inside or self._line)

    def close(self) -> None:
        """Close the gate's own session; the next to wait opens another."""
        with self._changed:
            session, self._session = self._session, None
            self._generation += 1  # a reading that is under way closes its session itself
            self._asking = 0.0
            self._reading = None
        if session:
            session.close()

    def _enter(self, ticket: object, thread: int, waiting: Waiting, stopped: threading.Event) -> None:
        said, why, since = "", "the server does not say how busy it is", None
        with self._changed:
            self._line.append(ticket)
        while True:
            with self._changed:
                if stopped.is_set():
                    raise StatementCancelled
                busy, sentence = self._reason(ticket)
                if not busy and not sentence:
                    self._line.remove(ticket)
                    self._inside.add(thread)
                    break
                since = (since or time.monotonic()) if busy else None
                why = (sentence or why) if busy else why
                pause = self._connection.limits.pause_when
                if since and pause and time.monotonic() - since >= pause.give_up:
                    raise GuestWaited(f"{self.name}: {why}, for {pause.give_up:g} s; {LATER}")
                told = f"waits: {sentence}" if busy and sentence else sentence
                if not told or told == said:
                    self._changed.wait(GLANCE)
                    continue
            said = told
            waiting(told)  # outside the lock: it may take its time
        if said:
            waiting("")

    def _reason(self, ticket: object) -> tuple[bool, str]:
        """Why the holder of a ticket has to wait: whether for the load, and the sentence, if it is known yet; (False, '') to go on."""
        limits = self._connection.limits
        free = math.inf if limits.statements is None else limits.statements - len(self._inside)
        first = self._line.index(ticket) < free
        if limits.pause_when:
            now, last = time.monotonic(), self._reading
            if first and (last is None or now - last.at >= PERIOD):
                self._ask(now)
                return True, ""
            if first and last and last.error:
                raise last.error
            if last and last.reason and (first or now - last.at < 3 * PERIOD):
                return True, last.reason
        if first:
            return False, ""
        many = "the one statement" if limits.statements == 1 else f"one of {limits.statements} statements"
        return False, f"waits for {many} at once"

    def _ask(self, now: float) -> None:
        """Begin a reading, unless one is under way: in a thread of its own, so that nobody hangs with a server that does not answer."""
        if self._asking and now - self._asking < FORSAKEN:
            return
        self._generation += 1
        self._asking = now
        session, self._session = self._session, None
        threading.Thread(
            target=self._read, args=(self._generation, session, len(self._inside)), name=f"load of {self.name}", daemon=True
        ).start()

    def _read(self, generation: int, session: Session | None, own: int) -> None:
        reason, failure, final = "", None, False
        try:
            session = session or dialects.connect(self._connection.url, PATIENCE, PATIENCE)
            reason = _too_much(session, self.name, self._connection, own)
        except Exception as error:  # whatever it is, it is raised where somebody waits, and not in this thread
            failure, final = error, not (isinstance(error, AuditorError) and error.retryable)
            reason = f"the server cannot be asked how busy it is: {error}"
        unusable, session = (session, None) if failure else (None, session)
        with self._changed:
            if generation == self._generation:
                self._reading = _Reading(time.monotonic(), reason, failure if final else None)
                self._asking = 0.0
                self._session, session = session, None
                self._changed.notify_all()
        for one in (unusable, session):  # the second where the gate was closed, or has given this reading up
            if one:
                one.close()


def _too_much(session: Session, name: str, connection: Connection, own: int) -> str:
    """The first measure that is above its limit, in a sentence; empty where none is."""
    pause = connection.limits.pause_when
    if not pause:
        return ""
    heart = pause.heartbeat
    load = session.dialect.load(session, [measure for measure in pause.asked if not (heart and measure == "lag")], own)
    if heart:
        place = TableRef(connection=name, table=heart.table).place
        load["lag"] = session.dialect.heartbeat_age(session, place, heart.column)
        if load["lag"] < -AHEAD:
            raise PlanError(
                f"{name}: the heartbeat {heart.table}.{heart.column} lies {-load['lag']:,.0f} s in the future; it has to be written in UTC"
            )
    return next((_sentence(m, load[m], limit, bool(heart)) for m, limit in pause.asked.items() if load[m] > limit), "")


def _sentence(measure: str, value: float, limit: float, heart: bool) -> str:
    if measure == "threads_running":
        return f"Threads_running is {value:,.0f}, and more than {limit:,.0f}"
    if measure == "active_sessions":
        return f"{value:,.0f} sessions run a statement, which is more than {limit:,.0f}"
    if measure == "queued":
        return f"{value:,.0f} statements wait in the queues, which is more than {limit:,.0f}"
    if math.isinf(value):
        return "the heartbeat's table is empty" if heart else "the replica does not replicate"
    return f"the {'heartbeat' if heart else 'replica'} is {value:,.0f} s behind, which is more than {limit:,g} s"


def _check_measures(name: str, connection: Connection) -> None:
    pause = connection.limits.pause_when
    if not pause:
        return
    dialect = dialects.by_scheme(dialects.parse(connection.url).scheme)
    unknown = [measure for measure in pause.asked if measure not in dialect.LOADS and not (measure == "lag" and pause.heartbeat)]
    if unknown:
        able = [*dialect.LOADS, *(() if "lag" in dialect.LOADS else ("lag with a heartbeat",))]
        told = f"{' and '.join(unknown)}, which {dialect.name} cannot say; it can say {', '.join(able)}"
        raise PlanError(f"{name}: the connection's pause_when asks for {told}")


_gates: dict[tuple[str, str], Gate] = {}
_gates_lock = threading.Lock()


def gate(name: str, connection: Connection) -> Gate:
    """The gate of a connection, one for all audits of this process. Raises PlanError for a measure that the engine cannot say."""
    with _gates_lock:
        found = _gates.get((name, connection.url))
        if found:
            found.adapt(connection)
        else:
            found = _gates[name, connection.url] = Gate(name, connection)
        return found


def close_all() -> None:
    """Close the gates' own sessions, and forget the gates that nobody uses."""
    with _gates_lock:
        for key, one in list(_gates.items()):
            one.close()
            if not one.used():
                del _gates[key]


SMALL = 4
"""A key range that is at most one of so many should be read through an index; of a larger one, reading all can be cheaper."""


def check_scan(plan: Plan, side: Side, session: Session, connection: Connection, statement: str = "") -> str | None:
    """A note on how a side's key ranges are read; None where it is not read in key ranges, or its engine has no indexes.

    ``statement`` summarises one key range, of the plan's ``chunk_keys`` at most; what the server plans for it counts more than
    which indexes there are. Raises ScanRefused where each range would read the whole of a table of more than ``scan_rows`` rows.
    """
    here, key = plan.sides[side], plan.columns[0]
    if plan.partitioning.strategy != "range" and not here.chunk_keys and len(here.chunks) == 1:
        return None
    leading = session.dialect.leading_indexes(session, here.table)
    if leading is None:
        return None
    indexed = key.expression[side] in {session.dialect.quote(column) for column in leading}
    small = bool(here.chunk_keys) and here.chunk_keys * SMALL <= plan.span
    expected = session.dialect.expected_reading(session, statement) if statement and small else None
    rows = here.estimate or 0
    if not (expected.full if expected else not indexed):
        reads = f"; one of them reads about {expected.rows:,} of {rows:,} rows" if expected else ""
        return f"{side}: an index serves the key ranges of {here.table} by {key.name}{reads}"
    missing = f"no index of {here.table} begins with its key {key.name}"
    why = missing if not indexed else f"the server would not use the index of {here.table} that begins with its key {key.name}"
    limit = connection.limits.scan_rows
    if rows <= limit or connection.limits.force:
        return f"{side}: {why}, so each key range reads the whole table, about {rows:,} rows"
    mend = "analyse the table" if indexed else "add one"
    raise ScanRefused(
        f"{why}, so each key range would read the whole table, about {rows:,} rows, and scan_rows is {limit:,}; {mend},"
        f" or write force: true under the limits of connection {here.connection}"
    )
