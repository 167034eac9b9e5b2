"""What an executor does of a copy: read a range of the source into a file, load a file, or store one where the target's engine reads it.

A task carries names of connections, never their URLs: each executor reads the configuration. An error is returned, not raised, so that it
survives the way back.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import dialects
from auditor import config
from auditor.bootstrap import range_files
from auditor.bootstrap.range_files import Copied, Lines
from auditor.config import Settings
from auditor.connections.connection import Connection
from auditor.connections.writer import open_patch_session
from auditor.errors import AuditorError, BootstrapFailed, EngineError
from auditor.model import Side
from dialects import Session
from dialects.writing import StoredFile


@dataclass(frozen=True, slots=True)
class ReadTask:
    """One range to read into a file."""

    config_file: str
    connection: str
    number: int
    sql: str
    path: str
    snapshot: str
    """The snapshot to join; '' to read in one of its own."""


@dataclass(frozen=True, slots=True)
class LoadTask:
    """One file to load into a table, in a transaction of its own."""

    config_file: str
    connection: str
    number: int
    path: str
    sha256: str
    table: str
    columns: Sequence[str]
    clear: str
    """The statement that deletes what an earlier attempt loaded of the range; '' where there was none."""


@dataclass(frozen=True, slots=True)
class StoreTask:
    """One file to store below a folder of the target's own storage."""

    config_file: str
    connection: str
    number: int
    path: str
    sha256: str
    folder: str


def read_range(task: ReadTask) -> tuple[int, Copied | AuditorError]:
    """Read a range into its file, which takes its place at once; return its number with what was read, or with the error."""
    settings = _settings_of(task.config_file).connections[task.connection]
    connection = Connection("source", task.connection, settings, _report_nothing, threading.Event())
    try:
        connection.open_first()
        with closing(connection):
            return task.number, connection.run(lambda session: _to_file(session, task))
    except AuditorError as error:
        return task.number, error


def load_range(task: LoadTask) -> tuple[int, AuditorError | None]:
    """Load a file, or nothing of it; return the number of its range with the error, if there was one."""
    try:
        with closing(open_patch_session(task.connection, _settings_of(task.config_file).connections[task.connection])) as session:
            try:
                session.execute("BEGIN")
                if task.clear:
                    session.execute(task.clear)
                session.loading.load_lines(task.table, task.columns, _checked_lines(task.path, task.sha256))
                session.execute("COMMIT")
            except EngineError:
                with suppress(AuditorError):  # the connection may be lost, and with it the transaction
                    session.execute("ROLLBACK")
                raise
    except AuditorError as error:
        return task.number, error
    return task.number, None


def store_range(task: StoreTask) -> tuple[int, StoredFile | AuditorError]:
    """Store a file; return the number of its range with where it is, or with the error."""
    try:
        for _ in _checked_lines(task.path, task.sha256):
            pass
        write = _settings_of(task.config_file).connections[task.connection].write
        assert write
        url = dialects.parse_url(write.url)
        files = dialects.by_scheme(url.scheme).writing.files
        assert files
        return task.number, files.store_file(url, task.folder, f"{task.number:06}.txt", task.path)
    except AuditorError as error:
        return task.number, error


def _to_file(session: Session, task: ReadTask) -> Copied:
    path = Path(task.path)
    part = path.with_suffix(f".{uuid.uuid4().hex}")  # another attempt at the task may still be at work
    copied = Copied(file=path.name)
    lines = Lines(session, task.sql, copied, _go_on)
    if task.snapshot:
        session.join_snapshot(task.snapshot)
    else:
        session.begin()
    try:
        range_files.write(part, lines)
    except BaseException:
        with suppress(AuditorError):  # the work's own error matters more
            session.end()
        raise
    session.end()
    part.replace(path)
    return copied


def _checked_lines(path: str, sha256: str) -> Iterator[bytes]:
    """Yield the lines of a file in blocks. Raises BootstrapFailed at its end if it is not what was written."""
    digest = hashlib.sha256()
    yield from range_files.read(Path(path), digest.update)
    if digest.hexdigest() != sha256:
        raise BootstrapFailed(f"{path} is not what was written there; drop the copy with --drop-old --apply, and copy again")


@cache
def _settings_of(config_file: str) -> Settings:
    """Return the settings of a file, which this process reads once."""
    return config.load(Path(config_file))


def _report_nothing(_: Side, __: str) -> None:
    """Report no waits: the driver shows which ranges are read."""


def _go_on() -> None:
    """Continue: a task is ended by Spark, with the process that it runs in."""
