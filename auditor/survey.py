"""Asking both databases what a plan has to know: the tables' columns, how many rows, the least and greatest key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import dialects
from auditor import evenness, plan, render, settle
from auditor import section as sections
from auditor.columns import Endpoint
from auditor.concurrent import both
from auditor.config import Audit, Connection
from auditor.errors import NoSuchObject, PlanError
from auditor.link import named
from auditor.model import SIDES, Chunk, Method, Partitioning, Plan, Section, Side, SidePlan
from auditor.plan import Bounds
from dialects import Place, Session

Pass = Callable[[Side], AbstractContextManager[None]]
"""What a side's statements pass: they wait there while the database is busy."""


def _freely(_: Side) -> AbstractContextManager[None]:
    return nullcontext()


@contextmanager
def opened(audit: Audit, connections: Mapping[str, Connection]) -> Iterator[dict[Side, Session]]:
    """Both sides' sessions, open for the block. Raises errors of the tree, naming the side."""
    sides: dict[Side, Session] = {}

    def connect(side: Side) -> None:
        reference = getattr(audit, side)
        connection = connections[reference.connection]
        with named(side, reference.connection):
            sides[side] = dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)

    try:
        both(connect)
        yield sides
    finally:
        for session in sides.values():
            session.close()


def described(
    audit: Audit, sides: Mapping[Side, Session], passed: Pass = _freely, cancel: Callable[[], None] | None = None
) -> dict[Side, Endpoint]:
    """Both tables as the databases have them; ``passed`` is what a side's statements pass, ``cancel`` ends one that runs.

    Raises PlanError and NoSuchObject.
    """

    def ask(side: Side) -> Endpoint:
        reference = getattr(audit, side)
        with named(side, reference.connection), passed(side):
            table = _chosen(sides[side].dialect.describe(sides[side], reference.place), reference.place, side)
        return Endpoint(reference.connection, f"{reference.connection}: {reference.table}", sides[side].dialect, table)

    return both(ask, cancel)


def planned(
    name: str,
    audit: Audit,
    sides: Mapping[Side, Session],
    *,
    ends: Mapping[Side, Endpoint] | None = None,
    method: Method | None = None,
    section: Section | None = None,
    begin: Callable[[Side], None] | None = None,
    passed: Pass = _freely,
    refuse: Callable[[Plan, Side], object] | None = None,
    cancel: Callable[[], None] | None = None,
) -> Plan:
    """The plan of an audit, as both databases are now.

    ``refuse`` may raise an error before a side is read at all, given a plan that reads it by key ranges.
    ``method`` stands in for the audit's, ``section`` is what is looked at alone. ``begin`` opens a side's snapshot, which is done
    where one is to hold for the whole side.
    Raises PlanError and NoSuchObject.
    """
    ends = ends or described(audit, sides, passed)
    draft = plan.draft(name, audit, ends, method)
    if audit.settle:
        draft = settle.settled(draft, audit.settle, plan.columns_named(audit, ends, audit.settle.column, "settle"), ends, sides)
    if section:
        draft = sections.confined(draft, section, audit, ends)

    def bounded(side: Side) -> Bounds:
        with named(side, ends[side].connection), passed(side):
            if refuse and render.integer_key(draft):
                refuse(replace(draft, partitioning=Partitioning(strategy="range", size=audit.partition.rows)), side)
            if begin and draft.snapshot == "whole":
                begin(side)
            return _bounds(draft, side, sides[side], audit.partition.rows)

    return plan.finish(draft, audit, ends, both(bounded, cancel))


def _chosen(found: list[dialects.Table], place: Place, side: Side) -> dialects.Table:
    """The one table that the name means: exactly as written, else the only one whatever its letters' case."""
    exact = [table for table in found if table.sql.replace("`", '"').split(".")[-1] == f'"{place.parts[-1]}"'] if place.parts else []
    if len(exact or found) > 1:
        raise PlanError(f"{side}: {place} can mean {', '.join(table.sql for table in exact or found)}; write its schema too")
    if not found:
        raise NoSuchObject(f"{side}: there is no table {place}, or this user may not see it")
    return (exact or found)[0]


def _bounds(draft: Plan, side: Side, session: Session, aim: int) -> Bounds:
    here = draft.sides[side]
    rows = here.estimate
    condition = here.where or "1 = 1"
    if rows is not None and draft.section and draft.section.first is not None and draft.section.last is not None:
        rows = min(rows, draft.section.last - draft.section.first + 1)
    if rows is None or rows < plan.CHUNK_ROWS:  # small, or never analysed: counting costs little and is right
        rows = int(session.query(render.count(session.dialect, here.table, condition))[0][0])
    if not render.integer_key(draft):
        return Bounds(rows)
    least, greatest = session.query(render.bounds(draft.columns[0], side, session.dialect, here.table, condition))[0]
    if least is None:
        return Bounds(rows)
    bounds = Bounds(rows, int(least), int(greatest))
    probes = evenness.probes(bounds, aim) if session.dialect.ROW_STORE else []  # an index finds so few rows at once
    if not probes:
        return bounds
    key = draft.columns[0].expression[side]
    leading = session.dialect.leading_indexes(session, here.table) or set()
    if key not in {session.dialect.quote(column) for column in leading}:
        return bounds  # each look would read the whole table
    counts = []
    for first, end in probes:
        where = f"{condition} AND {key} >= {first} AND {key} < {end}"
        counts.append(int(session.query(render.count(session.dialect, here.table, where))[0][0]))
    return replace(bounds, even=evenness.lie_evenly(counts, aim))


def only(whole: Plan, stretches: tuple[tuple[int, int], ...]) -> tuple[Plan, float]:
    """The plan of these partitions alone, each first (inclusive) to end (exclusive); and what share of all partitions they are.

    A table without rows is read whole. Raises PlanError where keys have no order.
    """
    if whole.partitioning.strategy == "range" and whole.least is None:
        return whole, 1.0
    if whole.partitioning.strategy != "range" or whole.least is None:
        raise PlanError(f"audit {whole.audit}: only a part of a table can be read where partitions are key ranges")
    size = whole.partitioning.size
    lowest = (whole.least or 0) // size

    def cut(side: Side) -> SidePlan:
        here = whole.sides[side]
        chunks = [Chunk(first=first * size, end=end * size) for first, end in stretches]
        if stretches and stretches[0][0] <= lowest:
            chunks.append(Chunk(null_key=True))  # nothing, at once, where the key cannot be NULL
        return replace(here, chunks=tuple(chunks))

    part = replace(whole, sides={side: cut(side) for side in SIDES}, stretches=stretches)
    return part, share(part)


def share(plan: Plan) -> float:
    """What share of all partitions a plan reads."""
    if not plan.stretches or plan.least is None or plan.greatest is None:
        return 1.0
    size = plan.partitioning.size
    every = plan.greatest // size - plan.least // size + 1
    return min(1.0, sum(end - first for first, end in plan.stretches) / every)
