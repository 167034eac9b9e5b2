"""Write parts as files that the target's engine reads itself: by tasks, so that no row passes the driver."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import dialects
from auditor.connections.writer import writing_dialect
from auditor.errors import AuditorError
from auditor.pipeline.merge.load_tasks import LoadTask, read_changes, settings_of
from dialects import Dialect, Session
from dialects.url import Url
from dialects.writing import StoredFile

log = logging.getLogger(__name__)

RunFileTasks: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Sequence[Any]]
"""Runs a function on tasks that write files, wherever, and returns its results in order."""


class FileTask(Protocol):
    """A file to write."""

    def store(self) -> Any:
        """Write it, and return what is to be known of it. Raises AuditorError."""


def store_files(run_tasks: RunFileTasks, tasks: Sequence[FileTask]) -> Sequence[Any]:
    """Write files by tasks; return what each of them returns, or the error of one that fails."""
    return run_tasks(store_file, tasks)


def store_file(task: FileTask) -> Any:
    """Write a file; return what its task returns, or the error, which survives the way back."""
    try:
        return task.store()
    except AuditorError as error:
        return error


@dataclass(frozen=True, slots=True)
class PartFile:
    """The changes of one part, to be written to a file of this name in a folder."""

    load: LoadTask
    folder: str
    name: str

    def store(self) -> StoredFile:
        """Write the file. Raises AuditorError."""
        dialect, url = target_of(self.load)
        assert dialect.writing.files
        return dialect.writing.files.store_lines(
            url, self.folder, self.name, self.load.table.stage_columns, read_changes(self.load, dialect)
        )


def target_of(load: LoadTask) -> tuple[Dialect, Url]:
    """Return the dialect of the target of a task, and the URL with which it is written to."""
    connection = settings_of(load.config_file).connections[load.connection]
    assert connection.write
    return writing_dialect(load.connection, connection), dialects.parse_url(connection.write.url)


def folder_of(pipeline: str, schema: str) -> str:
    """Return the folder of the files of a pipeline's target, below that of the connection; no other target has it."""
    return f"pipeline-{hashlib.sha256(f'{pipeline}/{schema}'.encode()).hexdigest()[:16]}"


@contextmanager
def files_removed(session: Session, folder: str) -> Iterator[None]:
    """Delete all of a folder after the block."""
    try:
        yield
    finally:
        remove_files(session, folder)


def remove_files(session: Session, folder: str) -> None:
    """Delete files that were copied, or that a process left behind which was killed; if that fails, a later one deletes them."""
    try:
        if count := session.loading.remove_stored(folder):
            log.debug("%d files below %s were deleted", count, folder, extra={"action": "files_deleted"})
    except AuditorError as error:
        log.warning("files below %s remain: %s", folder, error, extra={"action": "files_remain"})
