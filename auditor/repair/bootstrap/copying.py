"""Copy ranges of the source in parallel, all in one snapshot: over the connection, or by way of files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from auditor.connections.connection import Connection
from auditor.errors import AuditorError, BootstrapFailed, EngineError
from auditor.model import Chunk
from auditor.repair.bootstrap import files
from auditor.repair.bootstrap.job import BootstrapJob
from auditor.repair.bootstrap.plan import BootstrapPlan
from auditor.store import bootstraps
from dialects import Session


@dataclass(slots=True)
class Copied:
    """What was read of a range."""

    rows: int = 0
    bytes: int = 0
    sha256: str = ""
    file: str = ""
    snapshot: str = ""
    """The snapshot that it was read in; two ranges of one are of one moment."""

    def stored(self) -> dict[str, Any]:
        """Return it as the journal has it."""
        return {name: getattr(self, name) for name in ("rows", "bytes", "sha256", "file", "snapshot")}


@dataclass(slots=True)
class Copying:
    """A copy that is made, by the connections of one source that share a snapshot."""

    job: BootstrapJob
    plan: BootstrapPlan
    bootstrap: str
    main: Connection
    siblings: Sequence[Connection]
    attempt: str
    """What tells this attempt's snapshots from those of others."""
    report: Callable[[int], None]
    """Receives how many rows were copied."""
    pending: SimpleQueue[int] = field(default_factory=SimpleQueue)
    rows: int = 0

    @property
    def snapshot(self) -> str:
        """The snapshot that is read in now: a reconnect of the main connection begins another."""
        return f"{self.attempt}/{self.main.snapshots_lost + self.main.snapshots_given_up}"

    def run(self, numbers: Sequence[int], loaded_before: bool) -> None:
        """Copy the ranges of these numbers; ``loaded_before`` says that some of their rows may be there. Raises errors of the tree."""
        for number in numbers:
            self.pending.put(number)
        with ThreadPoolExecutor(1 + len(self.siblings), thread_name_prefix="copies") as pool:
            tasks = [pool.submit(self._work, connection, loaded_before) for connection in (self.main, *self.siblings)]
            done, _ = wait(tasks, return_when=FIRST_EXCEPTION)
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
            self.job.check_stopped()
            self.job.step("range")
            copied = copy(number)
            self.job.step("loaded")
            bootstraps.save_range(self.job.store, self.bootstrap, number, copied.stored())
            self.rows += copied.rows
            self.report(self.rows)

    def _to_table(self, connection: Connection, session: Session, number: int, loaded_before: bool) -> Copied:
        """Load a range over the connection, in one transaction of the target."""
        chunk, statements = self.plan.ranges[number], self.plan.statements

        def work(source: Session) -> Copied | BootstrapFailed:
            copied = Copied(snapshot=self.snapshot)
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
            copied = Copied(snapshot=self.snapshot, file=files.name(number))
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
        return Lines(self.job, source, self.plan.read(chunk, source.dialect), copied)


class Lines:
    """The lines of a range in batches, counted as they pass. ``failure`` is what the source failed with."""

    def __init__(self, job: BootstrapJob, source: Session, sql: str, copied: Copied) -> None:
        self.failure: BaseException | None = None
        self._job, self._source, self._sql, self._copied = job, source, sql, copied

    def __iter__(self) -> Iterator[Sequence[str]]:
        """Yield batches of lines. Raises BootstrapFailed for a line that could not be built, and errors of the source."""
        digest = hashlib.sha256()
        try:
            for statement in self._source.dialect.LINE_SETTINGS:
                self._source.execute(statement)
            for columns in self._source.stream(self._sql):
                self._job.check_stopped()
                lines: Sequence[str] = list(columns[0])
                if None in lines:
                    limit = self._source.dialect.LONGEST_TEXT_SETTING or "the limit of its texts"
                    raise BootstrapFailed(f"a row's line is longer than the source can build; raise {limit} there")
                data = "\n".join(lines).encode() + b"\n"
                digest.update(data)
                self._copied.bytes += len(data)
                self._copied.rows += len(lines)
                yield lines
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failure = error
            raise
        self._copied.sha256 = digest.hexdigest()


def _copied(result: Copied | BootstrapFailed) -> Copied:
    """Return what was copied. Raises what the target or the disk failed with, which is no reason to read the source again."""
    if isinstance(result, BootstrapFailed):
        raise result
    return result


def target_failure(error: AuditorError, plan: BootstrapPlan) -> BootstrapFailed:
    """Return the error of a target that did not take rows; of masked columns it shows nothing."""
    what = type(error).__name__ if plan.hides_values else str(error)
    return BootstrapFailed(f"the target did not take the copy: {what}; {plan.table.sql} is as it was")
