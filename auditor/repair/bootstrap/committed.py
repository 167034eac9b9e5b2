"""Bring a copy into a table whose changes are commits: one commit replaces its rows, and carries the bootstrap's number."""

from __future__ import annotations

from auditor.errors import BootstrapFailed
from auditor.repair.bootstrap.plan import BootstrapPlan
from auditor.sql.render import where
from auditor.sql.row_changes import MarkStatements
from dialects.committing import Committing


def replace_rows(session: Committing, plan: BootstrapPlan, marks: MarkStatements) -> None:
    """Put a copy in place of the table's rows, on its newest version. Raises BootstrapFailed if another process gave this one up."""
    void = f"{marks.name}/void"
    (given_up,) = session.read_marks(_parts(plan), [void])
    rows = f"SELECT {', '.join(plan.statements.columns)} FROM {plan.statements.stage}"
    condition = "" if plan.is_whole else where(plan.plan, "target", plan.chosen)
    if not session.replace_rows(plan.statements.target, rows, condition, {marks.name: given_up + 1}, {void: given_up}):
        raise BootstrapFailed(f"another process gave this bootstrap up; {plan.table.sql} is as it was: run it again to continue")


def was_replaced(session: Committing, plan: BootstrapPlan, marks: MarkStatements) -> bool:
    """Return whether a process that ended had put its copy in place; if not, no commit that it had begun can be made any more."""
    done, given_up = session.read_marks(_parts(plan), [marks.name, f"{marks.name}/void"])
    return bool(done) or session.fence(plan.statements.target, marks.name, given_up + 1)


def _parts(plan: BootstrapPlan) -> tuple[str, ...]:
    return tuple(part for part in plan.table.names if part)
