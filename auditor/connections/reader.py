"""Both sides' connections of one run: every statement of the run goes through them, within the budgets of what it may cost."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from auditor.background import NEVER, Service, wait_for_first_failure
from auditor.config import Budget, ConnectionSettings
from auditor.connections.budgets import Budgets
from auditor.connections.connection import CONTINUING, Connection
from auditor.durations import durations
from auditor.errors import AuditorError, StatementCancelled
from auditor.model import SIDES, Progress, Side, SideCost, side_of
from dialects import ServerTimes, Session

log = logging.getLogger(__name__)
T = TypeVar("T")

MOST_THREADS = 256
"""More threads than ever read at once: of each side, or shard, of a source, and of what these ask again."""

OnProgress = Callable[[Progress], None]
"""Receives how far a side is; called from several threads."""


def ignore_progress(_: Progress) -> None:
    """Ignore the progress of a run."""


class Reader:
    """The connections to a run's source and target: opened together, asked in parallel, cancelled together.

    Statements pass the throttle of their database and are retried after transient errors, each side on its own. Any thread may call
    ``stop`` and ``cancel``.
    """

    def __init__(
        self,
        audit: str,
        names: Mapping[Side, str],
        settings: Mapping[str, ConnectionSettings],
        on_progress: OnProgress = ignore_progress,
        *,
        patient: bool = True,
        budget: Budget | None = None,
    ) -> None:
        """``names`` are the connections of the tables that are read, keys of ``settings``, by side: each shard of a source is one.

        A reader that is not ``patient`` neither waits nor retries. ``budget`` is what may be spent on all sides together.
        """
        self.audit = audit
        self.stopped = threading.Event()
        """Set once no further statement may begin."""
        self.stop_requested = False
        """Whether a person or a signal asked for the run to end."""
        self.unshared: set[Side] = set()
        """Sides whose extra connections could not join the snapshot."""
        self.wait_between: Callable[[], object] | None = None
        """Called between a fresh look at the source and one at the target; None if both are looked at at the same time."""
        self.ends_fixed: float | None = None
        """When it was fixed (monotonic seconds) where the topics end that are sides; None if none is."""
        self.alone: dict[Side, str] = {}
        """Why one connection of a side read everything, although the side has several."""
        self.scan_bytes: dict[Side, int] = dict.fromkeys(names, 0)
        """Bytes of summaries received."""
        self.scan_seconds: dict[Side, float] = dict.fromkeys(names, 0.0)
        self.sides: dict[Side, Connection] = {
            side: Connection(side, names[side], settings[names[side]], self._report_status, self.stopped, patient) for side in names
        }
        self.budgets = Budgets(audit, budget or Budget(), names, settings, self.cost)
        for side, connection in self.sides.items():
            connection.spending = partial(self.budgets.statement, side)
        self._threads: ThreadPoolExecutor | None = None
        """Threads that read both sides while the connections are open; to start new ones for each statement would cost more than it."""
        self._siblings: list[Connection] = []
        """Further connections that are open now."""
        self._began = time.monotonic()
        self._server_times: dict[Side, ServerTimes] = {}
        """What the servers recorded of the run's statements, where they were asked."""
        self._closed_siblings: dict[Side, SideCost] = {side: SideCost() for side in names}
        """What further connections cost that are closed."""
        self._read_rows: dict[Side, tuple[int, int]] = {}
        """Of each shard the rows that its scan has read, and about how many it reads."""
        self._on_progress = on_progress
        self._pauses = PauseWatch(self._connections, self.stopped)

    @contextmanager
    def open(self) -> Iterator[Reader]:
        """Connect to both sides for the block; when the block fails, running statements are cancelled."""

        def connect(side: Side) -> None:
            self.report(side, "connecting")
            self.sides[side].open_first()

        with ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="side") as threads:
            self._threads = threads
            try:
                self.on_sides(connect)
                yield self
                for connection in self.sides.values():
                    connection.leave_session()
            except (AuditorError, KeyboardInterrupt):
                self.cancel()
                raise
            finally:
                for connection in self.sides.values():
                    connection.close()
                self._threads = None

    def session(self, side: Side) -> Session:
        """Return a side's open session. Raises Unreachable if it was lost for good."""
        return self.sides[side].session

    @property
    def shards(self) -> tuple[Side, ...]:
        """What stands for each shard of the source; empty for a source of one table."""
        return tuple(side for side in self.sides if side not in SIDES)

    def on_sides(self, work: Callable[[Side], T]) -> dict[Side, T]:
        """Return ``work(side)`` of every table that is read, run in parallel; when one fails, the statements of all are cancelled."""
        return on_both_sides(work, self.cancel, tuple(self.sides), self._threads)

    def ask_each(self, work: Callable[[Side, Session], T], *, fresh: bool = False) -> dict[Side, T]:
        """Return ``work(side, session)`` of every table that is read, in parallel, each retried on its own after transient errors.

        ``fresh`` gives it a snapshot of its own, unless one is open, so that it sees the tables as they are now. Raises errors of the
        tree, with the side in front.
        """
        if fresh and self.wait_between:
            source = self.ask_side("source", work, fresh=True)
            self.wait_between()
            return {"source": source, "target": self.ask_side("target", work, fresh=True)}
        return self.on_sides(lambda side: self.ask_side(side, work, fresh=fresh))

    def ask(self, work: Callable[[Side, Session], list[T]], *, fresh: bool = False) -> dict[Side, list[T]]:
        """Return what ``ask_each`` does of both sides: what the shards of a source return is joined, in their order."""
        answers = self.ask_each(work, fresh=fresh)
        return {"source": self.join(answers), "target": answers["target"]}

    def join(self, answers: Mapping[Side, list[T]]) -> list[T]:
        """Return what was found of the source: that of its table, or of all its shards."""
        return [answer for shard in self.shards for answer in answers[shard]] if self.shards else answers["source"]

    def ask_source(self, work: Callable[[Side, Session], T]) -> list[T]:
        """Return ``work(side, session)`` of the source's table, or of each of its shards in their order."""
        return [self.ask_side(side, work) for side in self.shards or ("source",)]

    def ask_side(self, side: Side, work: Callable[[Side, Session], T], *, fresh: bool = False) -> T:
        """Return ``work(side, session)`` of one table that is read, retried after transient errors."""
        return self.sides[side].run(lambda session: work(side, session), fresh=fresh)

    def begin_snapshots(self) -> None:
        """Open both sides' snapshots, unless they are open."""
        self.on_sides(lambda side: self.sides[side].begin_snapshot())

    def end_snapshots(self) -> None:
        """Close both sides' snapshots, if they are open."""
        self.on_sides(lambda side: self.sides[side].end_snapshot())

    @property
    def saw_one_snapshot(self) -> bool:
        """Whether all that was read in snapshots so far was read in a single one on each side, so that nothing can have changed between."""
        if self.unshared:
            return False
        sides = self.sides.values()
        return all(not side.snapshots_lost + side.snapshots_given_up and bool(side.session.dialect.BEGIN_SNAPSHOT) for side in sides)

    @property
    def snapshots_broken(self) -> int:
        """How many snapshots ended before what was to be read in them was read."""
        return sum(side.snapshots_lost + side.snapshots_given_up for side in self.sides.values())

    def add_siblings(self, side: Side, count: int) -> list[Connection]:
        """Open further connections of a side; ``cancel`` reaches them too."""
        opened = self.sides[side].open_siblings(count)
        self._siblings += opened
        return opened

    def end_siblings(self, siblings: Sequence[Connection]) -> None:
        """Close the snapshots of further connections that have read what there was. Raises SessionSwitched as ``end_snapshots`` does."""
        for sibling in siblings:
            sibling.end_snapshot()

    def close_siblings(self, side: Side, siblings: list[Connection]) -> int:
        """Close further connections of a side and add what they cost to it; return the bytes that they received.

        ``end_siblings`` has held what they read.
        """
        main, total = self.sides[side], 0
        for sibling in siblings:
            received = sibling.received()
            total += received
            main.retries += sibling.retries
            main.process_ids |= sibling.process_ids
            main.snapshots_lost += sibling.snapshots_lost
            main.snapshots_given_up += sibling.snapshots_given_up
            main.snapshots_not_held += sibling.snapshots_not_held
            self._siblings.remove(sibling)
            cost = self._closed_siblings[side]
            self._closed_siblings[side] = replace(cost, statements=cost.statements + sibling.statements, bytes=cost.bytes + received)
            sibling.close()
        return total

    def stop(self) -> None:
        """End the run because somebody asked for it."""
        self.stop_requested = True
        self.cancel()

    def cancel(self) -> None:
        """Cancel the running statements of both sides and let no further one begin."""
        self.stopped.set()
        for connection in self._connections():
            with suppress(AuditorError):  # the error that ended the run matters more than a cancel that fails
                connection.cancel()

    def report(self, side: Side, doing: str, done: int = 0, total: int = 0) -> None:
        """Report what a side does, and of a scan how many of about how many rows are read."""
        if side in self.shards:
            side, (done, total) = "source", self._add_rows(side, done, total)
        statements, running = self.statements(side)
        self._on_progress(Progress(self.audit, side, doing, done, total, statements, running))

    def _add_rows(self, shard: Side, done: int, total: int) -> tuple[int, int]:
        """Note how many rows of a shard are read, and about how many there are, and return both for the whole source."""
        self._read_rows[shard] = done, total
        known = tuple(self._read_rows.values())
        return sum(done for done, _ in known), sum(total for _, total in known)

    def report_both(self, doing: str) -> None:
        """Report what both sides do."""
        for side in SIDES:
            self.report(side, doing)

    def statements(self, side: Side) -> tuple[int, int]:
        """Return how many statements of a side have ended, and how many are running."""
        here = [shard for shard in self.sides if side_of(shard) == side]
        connections = [*(self.sides[shard] for shard in here), *(sibling for sibling in tuple(self._siblings) if sibling.side in here)]
        ended = sum(self._closed_siblings[shard].statements for shard in here) + sum(connection.statements for connection in connections)
        return ended, sum(connection.running for connection in connections)

    def servers(self) -> dict[Side, str]:
        """Return name and version of each server that was reached; of shards on several, each once."""
        servers: dict[Side, list[str]] = {}
        for side, here in self.sides.items():
            if here.server:
                servers.setdefault(side_of(side), []).append(here.server)
        return {side: "; ".join(dict.fromkeys(names)) for side, names in servers.items()}

    def name(self, side: Side) -> str:
        """Return a side for a person; a shard with its connection."""
        return f"{side} ({self.sides[side].name})" if side in self.shards else side

    def read_server_times(self) -> None:
        """Ask the servers that record it how long the run's statements took there. A server that does not answer is logged."""
        for side, here in self.sides.items():
            try:
                seconds = time.monotonic() - self._began
                times = here.run_once(partial(_server_times, process_ids=here.process_ids, seconds=seconds))
            except AuditorError as error:
                log.info("the server's record of statements cannot be read: %s", error, extra={"action": "no_server_times", "side": side})
            else:
                self._server_times |= {side: times} if times else {}
        for name, sides in self.budgets.priced_by_units().items():
            try:
                self._read_charges(name, sides)
            except AuditorError as error:
                log.info("what statements are charged cannot be read: %s", error, extra={"action": "no_charges", "connection": name})

    def _read_charges(self, name: str, sides: Sequence[Side]) -> None:
        """Ask a server that is charged by units when the run's statements ran, and how many units it had."""
        here, seconds = self.sides[sides[0]], time.monotonic() - self._began
        process_ids = {process_id for side in sides for process_id in self.sides[side].process_ids}
        server, price = here.session.dialect.server, here.settings.price
        spans = here.run_once(lambda session: server.busy_spans(session, process_ids, seconds)) if process_ids else None
        if not spans or price is None:
            return
        try:
            capacity = here.run_once(lambda session: server.capacity(session, seconds))
        except AuditorError as error:
            capacity = None
            log.info("the units of the server cannot be read: %s", error, extra={"action": "no_capacity", "connection": name})
        self.budgets.record(name, spans, server.PRICED_BY[price.per], capacity)

    def costs(self) -> dict[Side, SideCost]:
        """Return what each side that was reached has cost so far: of shards the sums, and the seconds of the slowest."""
        costs: dict[Side, SideCost] = {}
        for side, here in self.sides.items():
            if here.server:
                known, cost = costs.get(side_of(side)), self.cost(side)
                costs[side_of(side)] = _add_costs(known, cost) if known else cost
        return costs

    def cost(self, side: Side) -> SideCost:
        """Return what one table that is read has cost so far."""
        closed, read_by = (
            self._closed_siblings[side],
            [self.sides[side], *(sibling for sibling in tuple(self._siblings) if sibling.side == side)],
        )
        return SideCost(
            statements=sum(connection.statements for connection in read_by) + closed.statements,
            bytes=sum(connection.received() for connection in read_by) + closed.bytes,
            scan_bytes=self.scan_bytes[side],
            seconds=self.scan_seconds[side],
            server=self._server_times.get(side),
        )

    def _connections(self) -> list[Connection]:
        return [*self.sides.values(), *self._siblings]

    def _report_status(self, side: Side, status: str) -> None:
        self.report(side, status)
        if status != CONTINUING:
            self._pauses.begin()


def _add_costs(cost: SideCost, other: SideCost) -> SideCost:
    return SideCost(
        statements=cost.statements + other.statements,
        bytes=cost.bytes + other.bytes,
        scan_bytes=cost.scan_bytes + other.scan_bytes,
        seconds=max(cost.seconds, other.seconds),
        server=None,
    )


def _server_times(session: Session, process_ids: Collection[int], seconds: float) -> ServerTimes | None:
    return session.dialect.server.server_times(session, process_ids, seconds)


def on_both_sides(
    work: Callable[[Side], T],
    cancel: Callable[[], None] | None = None,
    sides: Sequence[Side] = SIDES,
    threads: ThreadPoolExecutor | None = None,
) -> dict[Side, T]:
    """Return ``work(side)`` of both sides, or of these, run in parallel, in these threads or in new ones.

    When one side fails, ``cancel`` is called until the other ends, and the error is raised. An error that only says that a statement
    was cancelled gives way to the other side's, which is the cause.
    """
    with nullcontext(threads) if threads else ThreadPoolExecutor(len(sides), thread_name_prefix="side") as pool:
        futures: dict[Side, Future[T]] = {}
        try:
            for side in sides:  # each thread gets a copy of the context, so that its log lines and spans belong to the same run
                futures[side] = pool.submit(contextvars.copy_context().run, work, side)
            done, running = wait_for_first_failure(futures.values())
            first = next((error for future in futures.values() if future in done and (error := future.exception())), None)
        except KeyboardInterrupt as interrupt:
            first, running = interrupt, set(futures.values())
            if cancel:
                cancel()  # it may have come before what has begun was noted
        if first:
            while running:  # a cancel that arrives before the statement has begun is lost, so it is repeated
                if cancel:
                    cancel()
                running = wait(running, timeout=durations().cancel_again).not_done
            errors = [error for future in futures.values() if (error := future.exception())]
            raise min([first, *errors], key=lambda error: isinstance(error, StatementCancelled))
        return {side: future.result() for side, future in futures.items()}


LOOKS = 20
"""Looks at the connections in ``snapshot_in_pause`` seconds."""


class PauseWatch:
    """Closes idle snapshots of a run, in a thread that lives while one of its statements is held back."""

    def __init__(self, connections: Callable[[], Iterable[Connection]], stopped: threading.Event) -> None:
        self._connections = connections
        self._stopped = stopped
        self._lock = threading.Lock()
        self._is_watching = False

    def begin(self) -> None:
        """Watch until no statement is held back."""
        with self._lock:
            if not self._is_watching:
                self._is_watching = True
                Service("pause", self._watch, durations().snapshot_in_pause / LOOKS, waits_first=True, stopping=self._stopped).start()

    def _watch(self) -> float | None:
        if self._longest_wait() >= durations().snapshot_in_pause:
            for connection in self._connections():
                connection.give_up_idle_snapshot(durations().snapshot_in_pause)
        return None if self._continues() else NEVER

    def _continues(self) -> bool:
        with self._lock:
            self._is_watching = any(connection.waiting_since is not None for connection in self._connections())
            return self._is_watching

    def _longest_wait(self) -> float:
        now = time.monotonic()
        return max((now - since for connection in self._connections() if (since := connection.waiting_since) is not None), default=0.0)
