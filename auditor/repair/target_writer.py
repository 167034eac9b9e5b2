"""How the tables of a target are written: by statements in transactions, or by commits of one table each.

A batch of a patch and the exchange of a bootstrap leave a mark with what they write, in the same transaction or commit: by it the next
start knows which of them were committed. What a kind of target cannot do is a fact of its class, which is asked before anything is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from auditor.connections.writer import create_table
from auditor.errors import AccessDenied, AuditorError, ConnectionLost, EngineError, LockTimeout, PatchRefused, StatementRefused
from auditor.sql.row_changes import MarkStatements
from dialects import Dialect, Session
from dialects.committing import Committing
from sql_templates import fill


class TargetWriter(ABC):
    """What writes the tables of a target in one session."""

    COMMITS: ClassVar[bool] = False
    """Whether each change of a table is a commit of it alone: replaced rows are in the version before, and nothing hangs on a table."""

    REPLACES_FILTERED: ClassVar[bool] = True
    """Whether a copy can replace those rows of a table that a filter of any form chooses, not only ranges of keys."""

    LOADS_REPLACE: ClassVar[bool] = False
    """Whether a load puts its rows in the place of all that are there, on its own."""

    STORES_FILES: ClassVar[bool] = False
    """Whether the engine loads files from a storage of its own, where they are put before."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @abstractmethod
    def prepare_marks(self, marks: MarkStatements) -> None:
        """Make the table of marks unless it is there. Raises PatchRefused, with the statement to run, if the user may not make it."""

    @abstractmethod
    def remove_marks(self, marks: MarkStatements) -> None:
        """Delete the marks of a patch or bootstrap. Raises EngineError."""

    @abstractmethod
    def was_committed(self, marks: MarkStatements, batch: int) -> bool:
        """Return whether a batch was committed, and keep it from being committed later if it was not.

        Raises LockTimeout while a transaction in flight holds the mark, and other errors of the tree.
        """

    @abstractmethod
    def begin_batch(self, table: str, rows: Iterable[str]) -> None:
        """Prepare, in a transaction that has begun, to change the rows of a table that fulfil one of these conditions."""

    @abstractmethod
    def mark_batch(self, marks: MarkStatements, batch: int) -> None:
        """Leave the mark of a batch in its transaction, where the commit does not carry it."""

    @abstractmethod
    def commit_batch(self, key: Sequence[str], marks: Mapping[str, int]) -> None:
        """Commit the changed rows, identified by the columns of ``key``, with these marks."""

    @abstractmethod
    def make_like(self, table: str, like: str, create: Callable[[], str]) -> None:
        """Make an empty table with the columns of another; ``create`` returns the statement where the engine has one."""

    @abstractmethod
    def drop_table(self, table: str) -> None:
        """Drop a table (its name as SQL text) if it is there. Raises EngineError."""

    @abstractmethod
    def load(self, clear: str, load: Callable[[Session], None]) -> None:
        """Replace all rows of a table, which ``clear`` deletes, by what ``load`` loads; if that fails, the caller rolls back."""

    def remove_stored(self, folder: str) -> int:
        """Delete the files below a folder of the engine's own storage, and return how many there were. Raises EngineError."""
        return 0


class TransactionWriter(TargetWriter):
    """Writes by statements in transactions, which may be of several tables: the marks have a table of their own."""

    def prepare_marks(self, marks: MarkStatements) -> None:
        """Make the table of marks."""
        try:
            self.session.query(marks.count(0))
        except EngineError as error:
            if isinstance(error, ConnectionLost):
                raise
        else:
            return
        try:
            create_table(self.session, marks.create())
        except (AccessDenied, StatementRefused) as error:
            raise PatchRefused(
                f"the user of write: url may not make the table in which patches are marked ({error}); have an administrator run:\n"
                f"{marks.create()};\nand grant the user SELECT, INSERT and DELETE on it"
            ) from error

    def remove_marks(self, marks: MarkStatements) -> None:
        """Delete the marks from their table."""
        self.session.execute(marks.delete())

    def was_committed(self, marks: MarkStatements, batch: int) -> bool:
        """Insert the batch's own mark: that waits for a transaction that is still in flight, and fences one that never got so far."""
        session, dialect = self.session, self.session.dialect
        for statement in dialect.writing.BEGIN_WRITES:
            session.execute(statement)
        try:
            if dialect.writing.LOCK_TABLE:
                session.execute(dialect.writing.LOCK_TABLE.format(table=marks.table))
            if not dialect.TABLE_FORM.enforces_keys and self._is_marked(marks, batch):
                session.execute("ROLLBACK")
                return True
            session.execute(marks.insert(batch))
            session.execute("COMMIT")
        except EngineError as error:
            with suppress(AuditorError):
                session.execute("ROLLBACK")
            if isinstance(error, ConnectionLost | LockTimeout) or not self._is_marked(marks, batch):
                raise
            return True
        return False

    def _is_marked(self, marks: MarkStatements, batch: int) -> bool:
        return int(self.session.query_row(marks.count(batch))[0]) > 0

    def begin_batch(self, table: str, rows: Iterable[str]) -> None:
        """Do nothing: statements change rows where they are."""

    def mark_batch(self, marks: MarkStatements, batch: int) -> None:
        """Insert the mark."""
        self.session.execute(marks.insert(batch))

    def commit_batch(self, key: Sequence[str], marks: Mapping[str, int]) -> None:
        """Commit the transaction, which has the mark."""
        self.session.execute("COMMIT")

    def make_like(self, table: str, like: str, create: Callable[[], str]) -> None:
        """Run the statement."""
        self.session.execute(create())

    def drop_table(self, table: str) -> None:
        """Run the engine's statement."""
        self.session.execute(fill(self.session.dialect.template("bootstrap_drop"), {"table": table}))

    def load(self, clear: str, load: Callable[[Session], None]) -> None:
        """Delete and load in one transaction."""
        self.session.execute("BEGIN")
        self.session.execute(clear)
        load(self.session)
        self.session.execute("COMMIT")


class StoredFilesWriter(TransactionWriter):
    """Writes in transactions, and loads files that were stored where the engine reads them (Redshift)."""

    STORES_FILES = True

    def remove_stored(self, folder: str) -> int:
        """Delete the files; 0 where the connection names no storage."""
        return 0 if self.session.loading.why_no_files() else self.session.loading.remove_stored(folder)


class CommitWriter(TargetWriter):
    """Writes tables whose changes are commits, each with the mark of what made it (Delta Lake, Parquet)."""

    COMMITS = LOADS_REPLACE = True
    REPLACES_FILTERED = False

    def __init__(self, session: Session) -> None:
        assert isinstance(session, Committing)
        super().__init__(session)
        self._committing: Committing = session

    def prepare_marks(self, marks: MarkStatements) -> None:
        """Do nothing: a commit carries its mark."""

    def remove_marks(self, marks: MarkStatements) -> None:
        """Do nothing: what a commit carries stays."""

    def was_committed(self, marks: MarkStatements, batch: int) -> bool:
        """Make a commit without rows, after which none that was begun before can be made."""
        return self._committing.fence(marks.target, marks.name, batch)

    def begin_batch(self, table: str, rows: Iterable[str]) -> None:
        """Let the statements of the transaction change these rows alone."""
        self._committing.take_out(table, " OR ".join(rows))

    def mark_batch(self, marks: MarkStatements, batch: int) -> None:
        """Do nothing: the commit carries the mark."""

    def commit_batch(self, key: Sequence[str], marks: Mapping[str, int]) -> None:
        """Commit the rows as the statements left them."""
        self._committing.put_back(key, marks)

    def make_like(self, table: str, like: str, create: Callable[[], str]) -> None:
        """Make a table of its own."""
        self._committing.make_like(table, like)

    def drop_table(self, table: str) -> None:
        """Delete the table with its versions."""
        self._committing.drop_table(table)

    def load(self, clear: str, load: Callable[[Session], None]) -> None:
        """Load in place of all rows that are there."""
        load(self.session)

    def replace_rows(self, marks: MarkStatements, parts: tuple[str, ...], rows: str, condition: str) -> bool:
        """Put the rows of a SELECT in place of those that fulfil a condition, or of all, by one commit on the newest version.

        ``parts`` is the table's name. Return False, with nothing written, if another process gave the exchange up.
        """
        void = f"{marks.name}/void"
        (given_up,) = self._committing.read_marks(parts, [void])
        return self._committing.replace_rows(marks.target, rows, condition, {marks.name: given_up + 1}, {void: given_up})

    def were_replaced(self, marks: MarkStatements, parts: tuple[str, ...]) -> bool:
        """Return whether a process that ended had replaced the rows; if not, no commit that it had begun can be made any more."""
        done, given_up = self._committing.read_marks(parts, [marks.name, f"{marks.name}/void"])
        return bool(done) or self.was_committed(marks, given_up + 1)


def writer_class(dialect: Dialect) -> type[TargetWriter]:
    """Return what writes the tables of an engine."""
    if dialect.writing.WRITES_COMMITS:
        return CommitWriter
    return StoredFilesWriter if dialect.writing.LOADS == "by files" else TransactionWriter


def target_writer(session: Session) -> TargetWriter:
    """Return what writes the tables that a session reaches."""
    return writer_class(session.dialect)(session)
