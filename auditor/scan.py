"""Reading both sides of a run: chunks by as many connections as may be, in the snapshots that the plan asks for.

Whatever fails for a reason that may pass is tried again by its chunk; what was read is handed to the keeper at once, so that
a run that ends early can go on from there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from auditor import chunks, render, summary, telemetry
from auditor.chunks import Queue
from auditor.compare.comparator import Aligned, align
from auditor.concurrent import both
from auditor.errors import AuditorError, EngineError, StatementCancelled, StatementTimeout
from auditor.keeping import Keeper
from auditor.link import Link, Watcher, named
from auditor.model import SIDES, Chunk, Plan, Progress, Side, SideCost
from auditor.summary import Summaries
from dialects import Session

T = TypeVar("T")


@dataclass(slots=True)
class Reading:
    """The connections of one run and what became of them; one for the whole run, whatever it reads."""

    links: dict[Side, Link]
    keeper: Keeper
    watch: Watcher
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set when nothing further is to be begun."""
    asked: bool = False
    """Whether somebody asked for the run to end."""
    scan_bytes: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(SIDES, 0))
    seconds: dict[Side, float] = field(default_factory=lambda: dict.fromkeys(SIDES, 0.0))
    apart: set[Side] = field(default_factory=set)
    """Sides of which further connections could not share the snapshot, and read each chunk in one of its own."""
    extra: dict[Side, SideCost] = field(default_factory=lambda: {side: SideCost() for side in SIDES})
    """What further connections than the sides' own have cost."""
    _more: list[Link] = field(default_factory=list)

    def stop(self) -> None:
        """End the run: somebody asked for it."""
        self.asked = True
        self.cancel()

    def cancel(self) -> None:
        """End what runs on both sides, and begin nothing further."""
        self.stopped.set()
        self.interrupt()

    def interrupt(self) -> None:
        """End what runs on both sides now."""
        for link in (*self.links.values(), *self._more):
            with suppress(AuditorError):  # the error that made us end matters more than a cancel that fails
                link.cancel()

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Both connections, open for the block; what runs on them is ended when it ends by an error."""

        def connect(side: Side) -> None:
            self.watch(Progress(self.links[side].audit, side, "connecting"))
            with named(side, self.links[side].name), self.passed(side):
                self.links[side].open()

        try:
            both(connect)
            yield
        except (AuditorError, KeyboardInterrupt):
            self.cancel()
            raise
        finally:
            for link in self.links.values():
                link.close()

    def session(self, side: Side) -> Session:
        """A side's session of now."""
        return self.links[side].session

    def ask(self, work: Callable[[Side], T]) -> dict[Side, T]:
        """A piece of work on both sides at once, tried again where it failed for a reason that may pass."""
        return both(lambda side: self.links[side].patiently(lambda _: work(side)), self.cancel)

    def ask_now(self, work: Callable[[Side], T]) -> dict[Side, T]:
        """The same in a snapshot of its own, which sees the tables as they are now."""
        return both(lambda side: self.links[side].patiently(lambda _: work(side), fresh=True), self.cancel)

    def anew(self, work: Callable[[dict[Side, Session]], T]) -> T:
        """A piece of work that needs both sides' sessions at once: all of it again, where it failed for a reason that may pass."""
        while True:
            try:
                done = work({side: self.session(side) for side in SIDES})
            except AuditorError as error:
                again = error
                if isinstance(again, StatementTimeout) or not all(link.worth_another(again) for link in self.links.values()):
                    raise
                both(lambda side: self.links[side].mend(again), self.cancel)  # noqa: B023 - it has ended before the next error
            else:
                for link in self.links.values():
                    link.attempts = 0
                return done

    def begin(self) -> None:
        """Open both sides' snapshots, where they are not open."""
        both(lambda side: self.links[side].begin(), self.cancel)

    def end(self) -> None:
        """Close both sides' snapshots."""
        both(lambda side: self.links[side].end(), self.cancel)

    def passed(self, side: Side) -> AbstractContextManager[None]:
        """What a side's statements pass."""
        return self.links[side].passed()

    def summarised(self, plan: Plan, keep: bool = False) -> Aligned:
        """Both sides' summaries by a plan; with ``keep`` each chunk is kept, and what was kept before is not read again."""
        found = both(lambda side: self._side(plan, side, keep), self.cancel)
        return align(found["source"], found["target"])

    def statements(self, side: Side) -> tuple[int, int]:
        """How many statements of a side have ended, and how many are under way now."""
        links = [self.links[side], *(link for link in tuple(self._more) if link.side == side)]
        return self.extra[side].statements + sum(link.statements for link in links), sum(link.running for link in links)

    def cost(self, side: Side) -> SideCost:
        """What a side has cost so far."""
        link, more = self.links[side], self.extra[side]
        return SideCost(
            statements=link.statements + more.statements,
            bytes=link.received() + more.bytes,
            scan_bytes=self.scan_bytes[side],
            seconds=self.seconds[side],
        )

    def _side(self, plan: Plan, side: Side, keep: bool) -> Summaries:
        """One side's summaries."""
        link = self.links[side]
        began, before = time.monotonic(), link.received()
        earlier = self.keeper.read(side) if keep else []
        queue = chunks.queue(plan, side, link.readers, [chunk for chunk, _ in earlier])
        queue.rows = sum(int(part.rows.sum()) for _, part in earlier)
        parts = [part for _, part in earlier]
        with named(side, plan.sides[side].connection):
            readers = self._readers(plan, side, queue)
            try:
                with ThreadPoolExecutor(len(readers), thread_name_prefix=side) as pool:
                    tasks = [pool.submit(telemetry.carried(self._read), plan, side, reader, queue, keep) for reader in readers]
                if failed := [error for task in tasks if (error := task.exception())]:
                    raise min(failed, key=lambda error: isinstance(error, StatementCancelled))  # which is what one does to the others
                parts += [part for task in tasks for part in task.result()]
                parts += self._read(plan, side, link, queue, keep)  # what a reader gave back when the others had ended
            finally:
                more = self._done_with(side, readers[1:])
        self.watch(Progress(plan.audit, side, "done", queue.rows, queue.rows))
        self.scan_bytes[side] += link.received() - before + more
        self.seconds[side] += time.monotonic() - began
        names = render.result_columns(plan)
        return summary.together(parts, names) if parts else summary.read([], names)

    def _readers(self, plan: Plan, side: Side, queue: Queue) -> list[Link]:
        """The side's own connection and further ones, where there are several chunks to read side by side."""
        link = self.links[side]
        wanted = link.readers - 1 if queue.keys and queue.open else 0
        table = plan.sides[side].table
        more: list[Link] = []
        try:
            more += link.beside(wanted, table, shared=plan.snapshot == "whole") if wanted else []
            if wanted > len(more):
                more += link.beside(wanted - len(more), table, shared=False)
                if plan.snapshot == "whole":
                    self.apart.add(side)
        except EngineError as error:  # then this one reads alone, in a snapshot that is certainly open
            for one in more:
                one.close()
            more = []
            if link.worth_another(error):
                link.mend(error)
            else:
                link.renew()
        self._more += more
        return [link, *more]

    def _done_with(self, side: Side, readers: Sequence[Link]) -> int:
        received = 0
        for reader in readers:
            cost, link = self.extra[side], self.links[side]
            received += reader.received()
            link.retries += reader.retries
            link.snapshots_lost += reader.snapshots_lost
            self.extra[side] = SideCost(statements=cost.statements + reader.statements, bytes=cost.bytes + reader.received())
            reader.close()
            self._more.remove(reader)
        return received

    def _read(self, plan: Plan, side: Side, link: Link, queue: Queue, keep: bool) -> list[Summaries]:
        """What one reader takes from the queue until nothing is left, or, of one that cannot be opened again, until it is lost."""
        try:
            return self._taken(plan, side, link, queue, keep)
        except AuditorError:
            self.cancel()  # what the other readers do is of no use any more
            raise

    def _taken(self, plan: Plan, side: Side, link: Link, queue: Queue, keep: bool) -> list[Summaries]:
        found: list[Summaries] = []
        whole = max(queue.rows, plan.sides[side].estimate or 0)
        while (chunk := queue.take()) is not None:
            if self.stopped.is_set():
                raise StatementCancelled
            self.watch(Progress(plan.audit, side, "summarising", queue.rows, whole))
            began = time.monotonic()
            try:
                part = link.once(partial(_summary, plan, side, chunk), fresh=True)
            except StatementTimeout:
                if not queue.give_back(chunk, smaller=True):
                    raise
                if not link.mendable:
                    return found
                link.renew()
                continue
            except AuditorError as error:
                queue.give_back(chunk)
                if self.stopped.is_set() or not link.worth_another(error):
                    raise
                if not link.mendable:
                    link.retries += 1  # by another
                    return found
                link.mend(error)
                continue
            seconds = time.monotonic() - began
            queue.finished(chunk, int(part.rows.sum()), seconds)
            if keep:
                self.keeper.chunk(side, chunk, part, seconds, link.attempts)
            link.attempts = 0
            found.append(part)
        return found


def _summary(plan: Plan, side: Side, chunk: Chunk, session: Session) -> Summaries:
    return summary.read(session.stream(render.summary(plan, side, session.dialect, chunk)), render.result_columns(plan))
