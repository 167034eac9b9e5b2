"""Bring a copy into its target's table: all of it or nothing, with short waits for locks."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from auditor.errors import AuditorError, BootstrapFailed, LockTimeout, SerializationConflict, StatementRefused
from auditor.points import reach
from auditor.repair.bootstrap import committed, renaming
from auditor.repair.bootstrap.job import BootstrapJob
from auditor.repair.bootstrap.loading import target_failure
from auditor.repair.bootstrap.plan import BootstrapPlan, is_there
from auditor.repair.marks import prepare_marks, was_committed
from auditor.sql.changes import MarkStatements
from auditor.waits import waits
from dialects import Session
from dialects.base import writing_of
from dialects.committing import Committing
from sql_templates import fill

EXCHANGE = 1
"""The number of the mark that an exchange leaves."""


def swap(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str) -> None:
    """Exchange the rows, or the tables. Raises LockTimeout if others held the table all the while, and errors of the tree: then nothing
    was exchanged, unless the connection was lost."""
    with job.open_writer(waits().swap_lock) as session:
        if plan.renames_at_once:
            _keep_numbering(session, plan)
            _retry(job, lambda: _rename(job, session, plan))
            return
        marks = _marks(plan, bootstrap)
        if isinstance(session, Committing):
            job.check_stopped()
            reach("bootstrap.swap")
            committed.replace_rows(session, plan, marks)
            reach("bootstrap.swapped")
            return
        prepare_marks(session, marks)
        if plan.swap == "by rename":
            renaming.prepare_copy(session, plan)
        else:
            _make_old(session, plan)
        try:
            _retry(job, lambda: _exchange(job, session, plan, marks))
        except StatementRefused as error:  # by a key that the copy does not have
            raise target_failure(error, plan) from error


def was_swapped(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str) -> bool:
    """Return whether a process that ended had brought its copy into the table; if not, nothing of it will do so later."""
    with job.open_writer(waits().swap_lock) as session:
        if plan.renames_at_once:
            _end_waiting(session, plan)
            return is_there(session, plan.table, plan.old)
        marks = _marks(plan, bootstrap)
        if isinstance(session, Committing):
            return committed.was_replaced(session, plan, marks)
        prepare_marks(session, marks)
        answers: list[bool] = []
        _retry(job, lambda: answers.append(was_committed(session, marks, EXCHANGE)))
        if not answers[0]:
            session.execute(marks.delete())
        return answers[0]


def clean_up(job: BootstrapJob, plan: BootstrapPlan, bootstrap: str) -> None:
    """Drop what an exchange has no more use for: the copy, and its mark. The replaced rows stay."""
    with job.open_writer(waits().swap_lock) as session:
        if isinstance(session, Committing):
            session.drop_table(plan.statements.stage)
            return
        if plan.swap == "in place":
            _retry(job, lambda: session.execute(plan.statements.drop(plan.statements.stage)))
        if not plan.renames_at_once:
            with suppress(AuditorError):  # a mark that remains does no harm
                session.execute(_marks(plan, bootstrap).delete())


def _rename(job: BootstrapJob, session: Session, plan: BootstrapPlan) -> None:
    reach("bootstrap.swap")
    session.execute(plan.statements.rename())
    reach("bootstrap.swapped")


def _exchange(job: BootstrapJob, session: Session, plan: BootstrapPlan, marks: MarkStatements) -> None:
    """Exchange rows, or names, with a mark in one transaction."""
    writing = writing_of(plan.target)
    try:
        for statement in writing.BEGIN_EXCHANGE or writing.BEGIN_WRITES:
            session.execute(statement)
        if plan.swap == "by rename":
            reach("bootstrap.swap")
            renaming.exchange_names(session, plan, marks, EXCHANGE)
        else:
            _exchange_rows(job, session, plan, marks)
        reach("bootstrap.commit")
    except BaseException:
        with suppress(AuditorError):  # the connection may be lost, and with it the transaction
            session.execute("ROLLBACK")
        raise
    session.execute("COMMIT")
    reach("bootstrap.swapped")


def _exchange_rows(job: BootstrapJob, session: Session, plan: BootstrapPlan, marks: MarkStatements) -> None:
    statements = plan.statements
    if writing_of(plan.target).LOCK_WRITERS:
        session.execute(statements.lock_writers(plan.chosen, has_primary_key=bool(plan.table.primary_key)))
    reach("bootstrap.swap")
    session.execute(marks.insert(EXCHANGE))
    session.execute(statements.copy(statements.target, statements.old, plan.chosen))
    session.execute(statements.clear(statements.target, plan.chosen))
    reach("bootstrap.cleared")
    session.execute(statements.copy(statements.stage, statements.target, plan.chosen))


def _make_old(session: Session, plan: BootstrapPlan) -> None:
    """Make the table for the replaced rows, unless an attempt before made it."""
    if not is_there(session, plan.table, plan.old):
        session.execute(plan.statements.create(plan.statements.old))


def _retry(job: BootstrapJob, work: Callable[[], object]) -> None:
    """Do some work that waits for a lock, again after each of ``swap_pauses``. Raises StatementCancelled once the bootstrap was stopped."""
    for pause in (*waits().swap_pauses, None):
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
    literals = {"schema": session.dialect.literal(plan.table.names[-2]), "table": session.dialect.literal(plan.table.names[-1])}
    rows = session.query(fill(session.dialect.template("auto_increment"), literals))
    if rows and rows[0][0] is not None:
        session.execute(f"ALTER TABLE {plan.statements.stage} AUTO_INCREMENT = {int(rows[0][0])}")


def _end_waiting(session: Session, plan: BootstrapPlan) -> None:
    """End the statements of a process that ended, which may still wait for the table."""
    sql = fill(session.dialect.template("waiting_renames"), {"table": session.dialect.literal(f"RENAME%{plan.stage}%")})
    for _ in waits().swap_pauses:
        waiting = session.query(sql)
        if not waiting:
            return
        for (process,) in waiting:
            with suppress(AuditorError):  # it may have ended meanwhile
                session.execute(f"KILL {int(process)}")
        time.sleep(waits().swap_pauses[0])
    raise BootstrapFailed(f"a statement of an earlier process still waits for {plan.table.sql}; end it, then run this again")


def _marks(plan: BootstrapPlan, bootstrap: str) -> MarkStatements:
    return MarkStatements(plan.target, plan.table.names[-2], bootstrap)
