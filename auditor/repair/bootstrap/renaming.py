"""Let a copy take the name of its table, with all that is bound to the table and not to its name (PostgreSQL)."""

from __future__ import annotations

import sql_templates
from auditor.errors import StatementRefused
from auditor.repair.bootstrap.loading import target_failure
from auditor.repair.bootstrap.plan import BootstrapPlan
from auditor.sql.row_changes import MarkStatements
from dialects import Dialect, Session


def prepare_copy(session: Session, plan: BootstrapPlan) -> None:
    """Give a copy the foreign keys and the statistics of its table. Raises BootstrapFailed for rows whose parents are missing."""
    try:
        for (statement,) in session.query(_fill(plan, session.dialect, "bootstrap_keys")):
            session.execute(str(statement))
    except StatementRefused as error:
        raise target_failure(error, plan) from error
    session.execute(f"ANALYZE {plan.statements.stage}")


def exchange_names(session: Session, plan: BootstrapPlan, marks: MarkStatements, mark: int) -> None:
    """Do, inside a transaction, all that makes a copy take the name of its table. Raises errors of the tree."""
    session.execute(f"LOCK TABLE {plan.statements.target} IN ACCESS EXCLUSIVE MODE")
    session.execute(marks.insert(mark))
    old, suffix = (session.dialect.literal(text) for text in (plan.old, plan.old[-len("_old_20261123_011237") :]))
    for (statement,) in session.query(_fill(plan, session.dialect, "bootstrap_carry", old=old, suffix=suffix)):
        session.execute(str(statement))


def _fill(plan: BootstrapPlan, dialect: Dialect, template: str, **more: str) -> str:
    names = {"schema": plan.table.names[-2], "table": plan.table.names[-1], "stage": plan.stage}
    return sql_templates.fill(dialect.template(template), {name: dialect.literal(text) for name, text in names.items()} | more)
