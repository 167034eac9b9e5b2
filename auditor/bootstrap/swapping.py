"""Bring a copy into its target's table: all of it or nothing, with short waits for locks."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from auditor.bootstrap.copying import target_failure
from auditor.bootstrap.job import BootstrapJob
from auditor.bootstrap.plan import BootstrapPlan, is_there
from auditor.durations import durations
from auditor.errors import AuditorError, BootstrapFailed, LockTimeout, SerializationConflict, StatementRefused
from auditor.points import reach
from auditor.repair.target_writer import CommitWriter, target_writer
from auditor.sql.render import where
from auditor.sql.row_changes import MarkStatements
from dialects import Session
from sql_templates import fill

EXCHANGE = 1
"""The number of the mark that an exchange leaves."""


def swap(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str) -> None:
    """Exchange the rows, or the tables. Raises LockTimeout if others held the table all the while, and errors of the tree: then nothing
    was exchanged, unless the connection was lost."""
    with job.open_writer(durations().swap_lock) as session:
        _exchange_of(job, plan, session, bootstrap).swap()


def was_swapped(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str) -> bool:
    """Return whether a process that ended had brought its copy into the table; if not, nothing of it will do so later."""
    with job.open_writer(durations().swap_lock) as session:
        return _exchange_of(job, plan, session, bootstrap).was_swapped()


def clean_up(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str) -> None:
    """Drop what an exchange has no more use for: the copy, and its mark. The replaced rows stay."""
    with job.open_writer(durations().swap_lock) as session:
        _exchange_of(job, plan, session, bootstrap).clean_up()


def _exchange_of(job: BootstrapJob, plan: BootstrapPlan, session: Session, bootstrap: str) -> _Exchange:
    """Return what brings this copy into its table, by the plan."""
    exchange: type[_Exchange] = _RowExchange
    if plan.swap == "by commit":
        exchange = _CommitExchange
    elif plan.swap == "by rename":
        exchange = _RenameAtOnce if plan.renames_at_once else _CarryingRename
    return exchange(job, plan, session, MarkStatements(plan.target, plan.table.names[-2], bootstrap, plan.statements.target))


@dataclass(slots=True)
class _Exchange(ABC):
    """One way in which a copy comes into its table, in one session."""

    job: BootstrapJob
    plan: BootstrapPlan
    session: Session
    marks: MarkStatements

    @abstractmethod
    def swap(self) -> None:
        """Bring the copy in, or nothing of it."""

    @abstractmethod
    def was_swapped(self) -> bool:
        """Return whether an earlier process did it; if not, it never will."""

    @abstractmethod
    def clean_up(self) -> None:
        """Drop what remains but the replaced rows."""


class _CommitExchange(_Exchange):
    """One commit replaces the rows, and carries the bootstrap's number."""

    def swap(self) -> None:
        """Replace the rows on the newest version. Raises BootstrapFailed if another process gave this one up."""
        self.job.check_stopped()
        reach("bootstrap.swap")
        plan = self.plan
        rows = f"SELECT {', '.join(plan.statements.columns)} FROM {plan.statements.stage}"
        condition = "" if plan.is_whole else where(plan.plan, "target", plan.chosen)
        if not CommitWriter(self.session).replace_rows(self.marks, self._parts(), rows, condition):
            raise BootstrapFailed(f"another process gave this bootstrap up; {plan.table.sql} is as it was: run it again to continue")
        reach("bootstrap.swapped")

    def was_swapped(self) -> bool:
        """Read the marks of the newest version, and fence earlier commits."""
        return CommitWriter(self.session).were_replaced(self.marks, self._parts())

    def clean_up(self) -> None:
        """Delete the copy."""
        target_writer(self.session).drop_table(self.plan.statements.stage)

    def _parts(self) -> tuple[str, ...]:
        return tuple(part for part in self.plan.table.names if part)


class _RenameAtOnce(_Exchange):
    """One statement exchanges both tables' names, outside of transactions (MySQL)."""

    def swap(self) -> None:
        """Rename both tables."""
        _keep_numbering(self.session, self.plan)
        _retry(self.job, self._rename)

    def _rename(self) -> None:
        reach("bootstrap.swap")
        self.session.execute(self.plan.statements.rename())
        reach("bootstrap.swapped")

    def was_swapped(self) -> bool:
        """Look for the old table under its new name, after the statements that wait for it were ended."""
        end_waiting(self.session, self.plan)
        return is_there(self.session, self.plan.table, self.plan.old)

    def clean_up(self) -> None:
        """Do nothing: the copy is the table now."""


class _MarkedExchange(_Exchange):
    """A transaction exchanges what it does, and leaves a mark."""

    def swap(self) -> None:
        """Prepare both tables, and exchange them in a transaction."""
        target_writer(self.session).prepare_marks(self.marks)
        self._prepare()
        try:
            _retry(self.job, self._run)
        except StatementRefused as error:  # by a key that the copy does not have
            raise target_failure(error, self.plan) from error

    @abstractmethod
    def _prepare(self) -> None:
        """Do what needs no lock on the table."""

    @abstractmethod
    def _exchange(self) -> None:
        """Exchange and mark, inside a transaction that has begun."""

    def _run(self) -> None:
        dialect = self.plan.target
        try:
            for statement in dialect.writing.BEGIN_EXCHANGE or dialect.writing.BEGIN_WRITES:
                self.session.execute(statement)
            self._exchange()
            reach("bootstrap.commit")
        except BaseException:
            with suppress(AuditorError):  # the connection may be lost, and with it the transaction
                self.session.execute("ROLLBACK")
            raise
        self.session.execute("COMMIT")
        reach("bootstrap.swapped")

    def was_swapped(self) -> bool:
        """Look for the mark, and fence a transaction that has not left it yet."""
        target, answers = target_writer(self.session), list[bool]()
        target.prepare_marks(self.marks)
        _retry(self.job, lambda: answers.append(target.was_committed(self.marks, EXCHANGE)))
        if not answers[0]:
            target.remove_marks(self.marks)
        return answers[0]

    def clean_up(self) -> None:
        """Delete the mark."""
        with suppress(AuditorError):  # a mark that remains does no harm
            target_writer(self.session).remove_marks(self.marks)


class _RowExchange(_MarkedExchange):
    """The copy's rows replace those of the table, which go to a third one: whatever hangs on the table stays."""

    def _prepare(self) -> None:
        if not is_there(self.session, self.plan.table, self.plan.old):  # an attempt before may have made it
            self.session.execute(self.plan.statements.create(self.plan.statements.old))

    def _exchange(self) -> None:
        session, plan, statements = self.session, self.plan, self.plan.statements
        if plan.target.writing.LOCK_WRITERS:
            session.execute(statements.lock_writers(plan.chosen, has_primary_key=bool(plan.table.primary_key)))
        reach("bootstrap.swap")
        session.execute(self.marks.insert(EXCHANGE))
        session.execute(statements.copy(statements.target, statements.old, plan.chosen))
        session.execute(statements.clear(statements.target, plan.chosen))
        reach("bootstrap.cleared")
        session.execute(statements.copy(statements.stage, statements.target, plan.chosen))

    def clean_up(self) -> None:
        """Drop the copy, and delete the mark."""
        _retry(self.job, lambda: self.session.execute(self.plan.statements.drop(self.plan.statements.stage)))
        super().clean_up()


class _CarryingRename(_MarkedExchange):
    """The copy takes the table's name, with all that is bound to the table and not to its name (PostgreSQL)."""

    def _prepare(self) -> None:
        """Give the copy the foreign keys and the statistics of its table. Raises BootstrapFailed for rows whose parents are missing."""
        try:
            for (statement,) in self.session.query(self._fill("bootstrap_keys")):
                self.session.execute(str(statement))
        except StatementRefused as error:
            raise target_failure(error, self.plan) from error
        self.session.execute(f"ANALYZE {self.plan.statements.stage}")

    def _exchange(self) -> None:
        reach("bootstrap.swap")
        self.session.execute(f"LOCK TABLE {self.plan.statements.target} IN ACCESS EXCLUSIVE MODE")
        self.session.execute(self.marks.insert(EXCHANGE))
        old, suffix = (self.session.dialect.names.literal(text) for text in (self.plan.old, self.plan.old[-len("_old_20261123_011237") :]))
        for (statement,) in self.session.query(self._fill("bootstrap_carry", old=old, suffix=suffix)):
            self.session.execute(str(statement))

    def _fill(self, template: str, **more: str) -> str:
        names = {"schema": self.plan.table.names[-2], "table": self.plan.table.names[-1], "stage": self.plan.stage}
        dialect = self.session.dialect
        return fill(dialect.template(template), {name: dialect.names.literal(text) for name, text in names.items()} | more)


def _retry(job: BootstrapJob, work: Callable[[], object]) -> None:
    """Do some work that waits for a lock, again after each of ``swap_pauses``. Raises StatementCancelled once the bootstrap was stopped."""
    for pause in (*durations().swap_pauses, None):
        job.check_stopped()
        try:
            work()
        except (LockTimeout, SerializationConflict) as error:
            if pause is None:
                raise BootstrapFailed(
                    f"the table was in use whenever its rows were to be exchanged ({error}); it is as it was: run it again to continue"
                ) from error
            job.stopped.wait(pause)
        else:
            return


def _keep_numbering(session: Session, plan: BootstrapPlan) -> None:
    """Let the copy continue numbering rows where the table is."""
    literals = {"schema": session.dialect.names.literal(plan.table.names[-2]), "table": session.dialect.names.literal(plan.table.names[-1])}
    rows = session.query(fill(session.dialect.template("auto_increment"), literals))
    if rows and rows[0][0] is not None:
        session.execute(f"ALTER TABLE {plan.statements.stage} AUTO_INCREMENT = {int(rows[0][0])}")


def end_waiting(session: Session, plan: BootstrapPlan) -> None:
    """End the statements of a process that ended, which may still wait for the table."""
    sql = fill(session.dialect.template("statements_like"), {"table": session.dialect.names.literal(f"RENAME%{plan.stage}%")})
    for _ in durations().swap_pauses:
        waiting = session.query(sql)
        if not waiting:
            return
        for (process,) in waiting:
            with suppress(AuditorError):  # it may have ended meanwhile
                session.execute(f"KILL {int(process)}")
        time.sleep(durations().swap_pauses[0])
    raise BootstrapFailed(f"a statement of an earlier process still waits for {plan.table.sql}; end it, then run this again")
