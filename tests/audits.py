"""Planning an audit on live engines and asking for one side's summaries, for tests that look between the two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from auditor import render, summary, survey
from auditor.compare.comparator import align, compare
from auditor.config import Audit, Connection
from auditor.model import SIDES, Comparison, Plan, Side
from auditor.summary import Summaries
from dialects import Session
from tests.engines import LivePair


@contextmanager
def planned(pair: LivePair, wanted: Audit) -> Iterator[tuple[Plan, dict[Side, Session]]]:
    """The audit's plan, and both sessions inside their snapshots; the audit's connections are called source and target."""
    connections: dict[str, Connection] = {side: Connection(url=getattr(pair, side).url) for side in SIDES}
    with survey.opened(wanted, connections) as sides:
        yield survey.planned("test", wanted, sides, begin=lambda side: sides[side].begin()), sides


def statement(plan: Plan, side: Side, session: Session) -> str:
    """The statement of a side that is read in one chunk."""
    (chunk,) = plan.sides[side].chunks
    return render.summary(plan, side, session.dialect, chunk)


def summarised(plan: Plan, side: Side, session: Session) -> Summaries:
    """What a side says of itself."""
    return summary.read(session.stream(statement(plan, side, session)), render.result_columns(plan))


def compared(source: Summaries, target: Summaries) -> Comparison:
    """What two sides' summaries say of each other."""
    return compare(align(source, target))
