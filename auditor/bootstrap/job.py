"""What a bootstrap works with: its audit and connections, who asked for it, and how it is followed and stopped."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import dialects
from auditor.background import Service
from auditor.config import Audit, ConnectionSettings, WriteSettings
from auditor.connections.reader import OnProgress, Reader
from auditor.connections.throttle import HOW_TO_CONTINUE
from auditor.connections.writer import open_files_for_writing, open_patch_session, patching_dialect
from auditor.durations import durations
from auditor.errors import BootstrapRefused, DatabaseBusy, StatementCancelled
from auditor.model import Chunk, Side
from auditor.store import Store
from dialects import Session

Task = TypeVar("Task")
Result = TypeVar("Result")


class RunTasks(Protocol):
    """Runs a function on tasks in other processes, and yields its results as they come, in any order; closing it ends what still runs.

    Raises AuditorError if a task was lost, and StatementCancelled once the bootstrap was stopped.
    """

    def __call__(self, function: Callable[[Task], Result], tasks: Sequence[Task], at_once: int | None) -> Generator[Result]:
        """Run ``function``, of a module that these processes can import, on each task, ``at_once`` of them at most."""


@dataclass(frozen=True, slots=True)
class Executors:
    """Processes that can make a copy, on this host or on others."""

    where: str
    """What they are, for a person."""
    config_file: str
    """The configuration that they read."""
    above: float
    """Rows above which they make the copy."""
    run: RunTasks


@dataclass(frozen=True, slots=True)
class BootstrapJob:
    """A bootstrap that was asked for. ``audit`` has the source that is read, which may be a replica of the audit's own."""

    store: Store
    name: str
    audit: Audit
    connections: Mapping[str, ConnectionSettings]
    spans: Sequence[Chunk]
    """The ranges of keys that are copied, ascending; one without bounds for all rows."""
    who: str
    folder: Path
    """Where each bootstrap has a folder of its own, for the files of a copy that its target reads itself."""
    stopped: threading.Event
    on_progress: OnProgress
    executors: Executors | None = None
    """What may make the copy in place of this process."""

    @property
    def target(self) -> ConnectionSettings:
        """The settings of the connection that is written to."""
        return self.connections[self.audit.target.connection]

    @property
    def rename_above(self) -> int:
        """Rows above which a copy takes its table's name, where the engine lets it carry what is bound to the table."""
        return (self.target.write or WriteSettings(url="")).rename_above

    @property
    def spread_above(self) -> float:
        """Rows above which executors make the copy."""
        return self.executors.above if self.executors else math.inf

    def files_of(self, bootstrap: str) -> Path:
        """Return the folder of a bootstrap's files."""
        return self.folder / f"auditor-bootstrap-{bootstrap}"

    @contextmanager
    def open_reader(self) -> Iterator[Reader]:
        """Yield a reader of both sides, the target by its writer, until the block ends; ``stopped`` ends its statements."""
        name, source = self.audit.target.connection, self.audit.one_source("a bootstrap").connection
        dialect = dialects.by_scheme(dialects.parse_url(self.target.url).scheme)
        if not dialect.is_written:
            raise BootstrapRefused(
                f"tables of {dialect.name} cannot be copied again by this command; copy {self.audit.target.table} by the engine's own means"
            )
        patching_dialect(name, self.target)
        assert self.target.write
        connections = dict(open_files_for_writing(self.connections, name))
        written = f"{name} (write)"
        limits = self.target.limits.model_copy(update={"force": True})  # the copy's own table is read whole
        url = connections[name].url if connections[name].url != self.target.url else self.target.write.url
        connections[written] = self.target.model_copy(update={"url": url, "limits": limits})
        names: dict[Side, str] = {"source": source, "target": written}
        try:
            with Reader(self.name, names, connections, self.on_progress).open() as reader, self._stopping(reader):
                yield reader
        except DatabaseBusy as error:
            raise DatabaseBusy(f"{str(error).removesuffix(HOW_TO_CONTINUE)}run it again to continue when it is less busy") from error

    @contextmanager
    def open_writer(self, lock_timeout: float | None = None) -> Iterator[Session]:
        """Yield a session that writes into the target; ``lock_timeout`` (seconds) replaces the connection's."""
        settings = self.target
        if lock_timeout is not None:
            settings = settings.model_copy(update={"limits": settings.limits.model_copy(update={"lock_timeout": lock_timeout})})
        session = open_patch_session(self.audit.target.connection, settings)
        try:
            yield session
        finally:
            session.close()

    def check_stopped(self) -> None:
        """Raise StatementCancelled once the bootstrap was stopped."""
        if self.stopped.is_set():
            raise StatementCancelled

    @contextmanager
    def _stopping(self, reader: Reader) -> Iterator[None]:
        def watch() -> None:
            if self.stopped.is_set():
                reader.stop()

        with Service("bootstrap stops", watch, durations().bootstrap_stop_poll, waits_first=True):
            yield
