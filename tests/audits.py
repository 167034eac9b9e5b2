"""Plan an audit on live engines and read each side's summaries, for tests of the steps in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from auditor.compare.comparator import align, compare
from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import Reader
from auditor.model import SIDES, Comparison, Plan, Side, Slice
from auditor.planning import build, introspect
from auditor.sql import render
from auditor.summary import arrays
from auditor.summary.arrays import Summaries
from dialects import Session
from tests.live import LivePair


@contextmanager
def open_plan(pair: LivePair, audit: Audit, slice: Slice | None = None) -> Iterator[tuple[Plan, dict[Side, Session]]]:
    """Plan an audit whose connections are named source and target; yield the plan and both sessions inside their snapshots."""
    connections: dict[str, ConnectionSettings] = {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES}
    with Reader("test", {side: getattr(audit, side).connection for side in SIDES}, connections, patient=False).open() as reader:
        tables = introspect.describe_tables(reader, audit)
        draft = build.draft_plan("test", audit, reader, tables, None, slice)
        reader.begin_snapshots()
        yield build.finish_plan(draft, audit, reader, tables), {side: reader.session(side) for side in SIDES}


def summary_statement(plan: Plan, side: Side, session: Session) -> str:
    """Return the summary statement of a side that is read in one chunk."""
    (chunk,) = plan.sides[side].chunks
    return render.summary(plan, side, session.dialect, chunk)


def read_summaries(plan: Plan, side: Side, session: Session) -> Summaries:
    """Read a side's summaries."""
    return arrays.read(session.stream(summary_statement(plan, side, session)), render.result_columns(plan))


def compare_summaries(source: Summaries, target: Summaries) -> Comparison:
    """Compare two sides' summaries."""
    return compare(align(source, target))
