"""The marks that batches leave in their target: by them the next start knows which of them were committed."""

from __future__ import annotations

from contextlib import suppress

from auditor.connections.writer import create_table
from auditor.errors import AccessDenied, AuditorError, ConnectionLost, EngineError, LockTimeout, PatchRefused, StatementRefused
from auditor.sql.changes import MarkStatements
from dialects import Session
from dialects.base import writing_of
from dialects.committing import Committing


def prepare_marks(session: Session, marks: MarkStatements) -> None:
    """Make the table of marks unless it is there. Raises PatchRefused, with the statement to run, if the user may not make it."""
    if isinstance(session, Committing):
        return  # a commit carries its mark
    try:
        session.query(marks.count(0))
    except EngineError as error:
        if isinstance(error, ConnectionLost):
            raise
    else:
        return
    try:
        create_table(session, marks.create())
    except (AccessDenied, StatementRefused) as error:
        raise PatchRefused(
            f"the user of write: url may not make the table in which patches are marked ({error}); have an administrator run:\n"
            f"{marks.create()};\nand grant the user SELECT, INSERT and DELETE on it"
        ) from error


def remove_marks(session: Session, marks: MarkStatements) -> None:
    """Delete a patch's marks; those that commits carry stay. Raises EngineError."""
    if not isinstance(session, Committing):
        session.execute(marks.delete())


def was_committed(session: Session, marks: MarkStatements, batch: int) -> bool:
    """Return whether a batch was committed, and keep it from being committed later if it was not.

    It inserts the batch's own mark: that waits for a transaction that is still in flight, and fences one that never got so far. Raises
    LockTimeout while such a transaction holds the mark, and other errors of the tree.
    """
    if isinstance(session, Committing):
        return session.fence(marks.target, marks.name, batch)
    dialect = session.dialect
    writing = writing_of(dialect)
    for statement in writing.BEGIN_WRITES:
        session.execute(statement)
    try:
        if writing.LOCK_TABLE:
            session.execute(writing.LOCK_TABLE.format(table=marks.table))
        if not dialect.TABLE_FORM.enforces_keys and _is_marked(session, marks, batch):
            session.execute("ROLLBACK")
            return True
        session.execute(marks.insert(batch))
        session.execute("COMMIT")
    except EngineError as error:
        with suppress(AuditorError):
            session.execute("ROLLBACK")
        if isinstance(error, ConnectionLost | LockTimeout) or not _is_marked(session, marks, batch):
            raise
        return True
    return False


def _is_marked(session: Session, marks: MarkStatements, batch: int) -> bool:
    return int(session.query_row(marks.count(batch))[0]) > 0
