"""Copy ranges of the source and load them: by connections in one snapshot, by files, or by executors.

Where the engine names its snapshots, all executors read in the one that this process holds open. Elsewhere each range is read in a
snapshot of its own, and what the copy is compared with is begun when the last was read.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue

import dialects
from auditor.background import wait_for_first_failure
from auditor.bootstrap import range_files, tasks
from auditor.bootstrap.job import BootstrapJob, Executors
from auditor.bootstrap.plan import BootstrapPlan
from auditor.bootstrap.range_files import Copied, Lines
from auditor.connections.connection import Connection
from auditor.errors import AuditorError, BootstrapFailed, EngineError
from auditor.model import Chunk
from auditor.points import reach
from auditor.repair.target_writer import target_writer, writer_class
from auditor.store import bootstraps
from dialects import Session
from dialects.writing import StoredFile

log = logging.getLogger(__name__)


def load_from_here(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str) -> None:
    """Load all files of a copy, in one transaction of the target. Raises BootstrapFailed."""
    range_files.write_manifest(job.files_of(bootstrap), bootstraps.list_ranges(job.store, bootstrap))
    paths = [str(path) for path in range_files.check(job.files_of(bootstrap)) if path.stat().st_size]
    native = {column.expression["target"]: column.native["target"] for column in plan.columns}

    def load(session: Session) -> None:
        if paths or writer_class(session.dialect).LOADS_REPLACE:
            session.loading.load_files(plan.statements.stage, native, paths, stored_folder(session, bootstrap))

    load_at_once(job, plan, load)


def load_at_once(job: BootstrapJob, plan: BootstrapPlan, load: Callable[[Session], None]) -> None:
    """Replace all rows of the copy by what ``load`` loads, in one transaction of the target. Raises BootstrapFailed."""
    with job.open_writer() as session:
        reach("bootstrap.load")
        try:
            target_writer(session).load(plan.statements.clear(plan.statements.stage, Chunk()), load)
        except AuditorError as error:
            with suppress(AuditorError):  # there may be no transaction
                session.execute("ROLLBACK")
            raise target_failure(error, plan) from error


def stored_folder(session: Session, bootstrap: str) -> str:
    """Return a new folder for files that an engine reads elsewhere, below that of its connection; delete what killed attempts left."""
    _remove_stored(session, bootstrap)
    return f"{_folder_of(bootstrap)}/{uuid.uuid4().hex}"


def remove_files(job: BootstrapJob, bootstrap: str) -> None:
    """Remove the files of a copy: those here, and what killed attempts left where its engine reads them."""
    range_files.remove(job.files_of(bootstrap))
    if writer_class(dialects.by_scheme(dialects.parse_url(job.target.url).scheme)).STORES_FILES:
        with job.open_writer() as session:
            _remove_stored(session, bootstrap)


def _remove_stored(session: Session, bootstrap: str) -> None:
    folder = _folder_of(bootstrap)
    try:
        if count := target_writer(session).remove_stored(folder):
            log.info("%d files below %s, which a killed attempt left, were deleted", count, folder, extra={"action": "files_deleted"})
    except AuditorError as error:
        log.warning("files below %s remain: %s", folder, error, extra={"action": "files_remain"})


def _folder_of(bootstrap: str) -> str:
    return f"bootstrap-{bootstrap}"


def target_failure(error: AuditorError, plan: BootstrapPlan) -> BootstrapFailed:
    """Return the error of a target that did not take rows; of masked columns it shows nothing."""
    what = type(error).__name__ if plan.hides_values else str(error)
    return BootstrapFailed(f"the target did not take the copy: {what}; {plan.table.sql} is as it was")


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
                session.loading.load_lines(statements.stage, statements.columns, lines)
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
            copied = Copied(snapshot=self.snapshot_of(connection), file=range_files.name(number))
            lines = self._lines(source, self.plan.ranges[number], copied)
            try:
                range_files.write(self.job.files_of(self.bootstrap) / copied.file, lines)
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


def copy_by_executors(copying: Copying, numbers: Sequence[int], *, loaded_before: bool) -> None:
    """Copy the ranges of these numbers, and those that were read before and not loaded; leave a snapshot of the source open.

    ``loaded_before`` says that rows of them may be in the copy. Raises errors of the tree.
    """
    job, plan, bootstrap = copying.job, copying.plan, copying.bootstrap
    assert job.executors
    _read_by_executors(copying, job.executors, numbers)
    ranges = bootstraps.list_ranges(job.store, bootstrap)
    range_files.write_manifest(job.files_of(bootstrap), ranges)
    copying.target.wait_until_calm()
    if not plan.target.writing.READS_FILES:
        _load_side_by_side(copying, job.executors, loaded_before=loaded_before)
    elif writer_class(plan.target).STORES_FILES:
        _store_and_load(copying, job.executors)
    else:
        load_from_here(job, plan, bootstrap)


def _read_by_executors(copying: Copying, executors: Executors, numbers: Sequence[int]) -> None:
    """Let executors read ranges into files."""
    job, plan, main = copying.job, copying.plan, copying.main
    shared = ""
    if plan.is_one_moment:
        main.begin_snapshot()
        shared = main.run(lambda session: session.export_snapshot())
    folder = job.files_of(copying.bootstrap)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    todo = []
    for number in numbers:
        sql, path = plan.read(plan.ranges[number], main.session.dialect), str(folder / range_files.name(number))
        todo.append(tasks.ReadTask(executors.config_file, job.audit.sources[0].connection, number, sql, path, shared))
    reach("bootstrap.range")
    with closing(executors.run(tasks.read_range, todo, main.settings.limits.statements)) as results:
        for number, result in results:
            if isinstance(result, AuditorError):
                raise result
            result.snapshot = copying.snapshot if shared else f"{copying.attempt}/own"
            copying.note(number, result)
            reach("bootstrap.read")
    main.begin_snapshot()


def _load_side_by_side(copying: Copying, executors: Executors, *, loaded_before: bool) -> None:
    """Let executors load files, each in a transaction of its own."""
    job, plan = copying.job, copying.plan
    statements, folder = plan.statements, job.files_of(copying.bootstrap)
    ranges = {number: file for number, file in bootstraps.list_ranges(job.store, copying.bootstrap).items() if not file.get("loaded")}
    load = partial(tasks.LoadTask, executors.config_file, job.audit.target.connection)
    todo = []
    for number, file in sorted(ranges.items()):
        clear = statements.clear(statements.stage, plan.ranges[number]) if loaded_before else ""
        todo.append(load(number, str(folder / file["file"]), file["sha256"], statements.stage, tuple(statements.columns), clear))
    reach("bootstrap.load")
    with closing(executors.run(tasks.load_range, todo, job.target.limits.statements)) as results:
        for number, error in results:
            if isinstance(error, BootstrapFailed):
                raise error
            if error is not None:
                raise target_failure(error, plan) from error
            reach("bootstrap.loaded")
            bootstraps.save_range(job.store, copying.bootstrap, number, {**ranges[number], "loaded": True})


def _store_and_load(copying: Copying, executors: Executors) -> None:
    """Let executors store files where the target's engine reads them, and load them all at once."""
    job, plan = copying.job, copying.plan
    path, ranges = job.files_of(copying.bootstrap), bootstraps.list_ranges(job.store, copying.bootstrap)
    store = partial(tasks.StoreTask, executors.config_file, job.audit.target.connection)

    def load(session: Session) -> None:
        folder = stored_folder(session, copying.bootstrap)
        stored_ranges = [(number, file) for number, file in sorted(ranges.items()) if file["bytes"]]
        todo = [store(number, str(path / file["file"]), file["sha256"], folder) for number, file in stored_ranges]
        stored: list[StoredFile] = []
        try:
            with closing(executors.run(tasks.store_range, todo, None)) as results:
                for _, result in results:
                    if isinstance(result, AuditorError):
                        raise result
                    stored.append(result)
            if stored:
                session.loading.copy_stored(plan.statements.stage, list(plan.statements.columns), folder, stored)
        finally:
            with suppress(AuditorError):  # the first failure matters more, and what remains is deleted by the next attempt
                session.loading.remove_stored(folder)

    load_at_once(job, plan, load)
