"""Copy ranges of the source in parallel, all in one snapshot: over the connection, or by way of files."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from auditor.connections.connection import Connection
from auditor.connections.waiting import wait_for_first_failure
from auditor.errors import AuditorError, BootstrapFailed, EngineError
from auditor.model import Chunk
from auditor.points import reach
from auditor.repair.bootstrap import files
from auditor.repair.bootstrap.job import BootstrapJob
from auditor.repair.bootstrap.lines import Copied, Lines
from auditor.repair.bootstrap.loading import target_failure
from auditor.repair.bootstrap.plan import BootstrapPlan
from auditor.store import bootstraps
from dialects import Session


@dataclass(slots=True)
class Copying:
    """A copy that is made: what it is of, and how far it came."""

    job: BootstrapJob
    plan: BootstrapPlan
    bootstrap: str
    main: Connection
    target: Connection
    """The connection whose limits each load waits for."""
    attempt: str
    """What distinguishes this attempt's snapshots from those of others."""
    report: Callable[[int], None]
    """Receives how many rows were copied."""
    pending: SimpleQueue[int] = field(default_factory=SimpleQueue)
    rows: int = 0
    begun: str = ""
    """The snapshot that was open when ``run`` began."""

    @property
    def snapshot(self) -> str:
        """The snapshot that is read in now: a reconnect of the main connection, or a long pause, begins another."""
        return f"{self.attempt}/{self.main.snapshots_lost + self.main.snapshots_given_up}"

    def snapshot_of(self, connection: Connection) -> str:
        """Return the snapshot that a connection reads in; one that lost the snapshot that it shared reads each range in its own."""
        if connection is self.main:
            return self.snapshot
        return f"{self.attempt}/{uuid.uuid4().hex[:8]}" if connection.can_reopen else self.begun

    def run(self, numbers: Sequence[int], siblings: Sequence[Connection], *, loaded_before: bool) -> None:
        """Copy the ranges of these numbers here, by the main connection and ``siblings`` in its snapshot. Raises errors of the tree.

        ``loaded_before`` says that some of their rows may be there.
        """
        self.begun = self.snapshot
        for number in numbers:
            self.pending.put(number)
        with ThreadPoolExecutor(1 + len(siblings), thread_name_prefix="copies") as pool:
            tasks = [pool.submit(self._work, connection, loaded_before) for connection in (self.main, *siblings)]
            done, _ = wait_for_first_failure(tasks)
            if any(task.exception() for task in done):
                with suppress(Empty):
                    while True:
                        self.pending.get_nowait()
        errors = [error for task in tasks if (error := task.exception())]
        if errors:
            raise errors[0]

    def _work(self, connection: Connection, loaded_before: bool) -> None:
        if self.plan.road == "files":
            self._copy_ranges(connection, lambda number: self._to_file(connection, number))
            return
        with self.job.open_writer() as session:
            self._copy_ranges(connection, lambda number: self._to_table(connection, session, number, loaded_before))

    def _copy_ranges(self, connection: Connection, copy: Callable[[int], Copied]) -> None:
        while True:
            try:
                number = self.pending.get_nowait()
            except Empty:
                return
            if self.plan.road == "direct":
                self.target.wait_until_calm()
            self.job.check_stopped()
            reach("bootstrap.range")
            copied = copy(number)
            reach("bootstrap.loaded")
            self.note(number, copied)

    def note(self, number: int, copied: Copied) -> None:
        """Store that a range was copied, and report how far the copy came."""
        bootstraps.save_range(self.job.store, self.bootstrap, number, copied.stored())
        self.rows += copied.rows
        self.report(self.rows)

    def _to_table(self, connection: Connection, session: Session, number: int, loaded_before: bool) -> Copied:
        """Load a range over the connection, in one transaction of the target."""
        chunk, statements = self.plan.ranges[number], self.plan.statements

        def work(source: Session) -> Copied | BootstrapFailed:
            copied = Copied(snapshot=self.snapshot_of(connection))
            lines = self._lines(source, chunk, copied)
            try:
                session.execute("BEGIN")
                if loaded_before:
                    session.execute(statements.clear(statements.stage, chunk))
                session.load_lines(statements.stage, statements.columns, lines)
                session.execute("COMMIT")
            except EngineError as error:
                with suppress(AuditorError):
                    session.execute("ROLLBACK")
                if lines.failure is not None:  # the source's, which may be read again
                    raise
                return target_failure(error, self.plan)
            return copied

        return _copied(connection.run(work))

    def _to_file(self, connection: Connection, number: int) -> Copied:
        def work(source: Session) -> Copied | BootstrapFailed:
            copied = Copied(snapshot=self.snapshot_of(connection), file=files.name(number))
            lines = self._lines(source, self.plan.ranges[number], copied)
            try:
                files.write(self.job.files_of(self.bootstrap) / copied.file, lines)
            except BootstrapFailed as error:
                if lines.failure is not None:
                    raise
                return error
            return copied

        return _copied(connection.run(work))

    def _lines(self, source: Session, chunk: Chunk, copied: Copied) -> Lines:
        return Lines(source, self.plan.read(chunk, source.dialect), copied, self.job.check_stopped)


def _copied(result: Copied | BootstrapFailed) -> Copied:
    """Return what was copied. Raises what the target or the disk failed with, which is no reason to read the source again."""
    if isinstance(result, BootstrapFailed):
        raise result
    return result
