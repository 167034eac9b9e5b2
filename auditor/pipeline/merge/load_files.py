"""Write parts as files that the target's engine reads itself: by tasks, so that no row passes the driver."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dialects
from auditor.connections.writer import writing_dialect
from auditor.errors import AuditorError
from auditor.pipeline.merge.load_tasks import LoadTask, read_changes, settings_of, stage_columns
from dialects import Session
from dialects.writing import StoredFile

log = logging.getLogger(__name__)


def folder_of(pipeline: str, schema: str) -> str:
    """Return the folder of the files of a pipeline's target, below that of the connection; no other target has it."""
    return f"pipeline-{hashlib.sha256(f'{pipeline}/{schema}'.encode()).hexdigest()[:16]}"


@contextmanager
def stored_files(
    session: Session, run_tasks: Callable[[Callable[[Any], Any], Sequence[Any]], Sequence[Any]], tasks: Sequence[LoadTask], folder: str
) -> Iterator[list[StoredFile | AuditorError]]:
    """Yield the files of parts, one for each, or why it could not be written, and delete all of the folder after the block."""
    try:
        yield list(run_tasks(store_task, [(task, folder, f"{number:06}.txt") for number, task in enumerate(tasks)]))
    finally:
        remove_files(session, folder)


def store_task(task: tuple[LoadTask, str, str]) -> StoredFile | AuditorError:
    """Write the changes of a part to a file of this name in a folder; return the file, or the error, which survives the way back."""
    load, folder, name = task
    try:
        connection = settings_of(load.config_file).connections[load.connection]
        dialect = writing_dialect(load.connection, connection)
        assert connection.write
        url = dialects.parse_url(connection.write.url)
        files = dialect.writing.files
        assert files
        return files.store_lines(url, folder, name, stage_columns(load), read_changes(load, dialect))
    except AuditorError as error:
        return error


def remove_files(session: Session, folder: str) -> None:
    """Delete files that were copied, or that a process left behind which was killed; if that fails, a later one deletes them."""
    try:
        if count := session.loading.remove_stored(folder):
            log.debug("%d files below %s were deleted", count, folder, extra={"action": "files_deleted"})
    except AuditorError as error:
        log.warning("files below %s remain: %s", folder, error, extra={"action": "files_remain"})
