"""Build the plan of an audit from its settings and both databases: draft, watermark, slice, bounds, partitions.

A run begins its snapshots between ``draft_plan`` and ``finish_plan``, so that the bounds are those of the rows that it reads.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from auditor.config import Audit, Budget
from auditor.connections.reader import Reader
from auditor.errors import PlanError
from auditor.history.handover import EarlierRuns
from auditor.model import Chunk, Method, Plan, Side, Slice, parse_time
from auditor.planning import conventions, introspect, planner, prescan, requested_slice, shards, times, watermark
from auditor.planning.columns import Endpoint
from auditor.planning.cost import budget_notes, expect_costs
from auditor.planning.partitioning import Bounds
from auditor.planning.writes import choose_by_writes

Finish = Callable[[Mapping[Side, Endpoint], Plan], Plan]
"""Returns the draft of a plan with partitions and chunks, of both tables."""


def build_plan(
    name: str,
    audit: Audit,
    reader: Reader,
    earlier: EarlierRuns | None = None,
    finish: Finish | None = None,
    together: introspect.DescribedTogether | None = None,
) -> Plan:
    """Return the plan of an audit as the databases are now, without a snapshot. Raises PlanError and NoSuchObject.

    ``earlier`` is what earlier runs left; without it the plan leaves open whether a run begins with a pre-scan. ``finish`` stands for
    `finish_plan` where a run reads no whole tables. The tables are described ``together`` with those of other audits, if there are any.
    """
    tables = introspect.describe_tables(reader, audit, together)
    draft = draft_plan(name, audit, reader, tables, None, None)
    plan = finish(tables, draft) if finish else finish_plan(draft, audit, reader, tables)
    if earlier is not None and finish is None:
        wanted = prescan.decide(plan, audit, earlier.unequal_shares, tables=tables)
        plan = replace(plan, prescan=prescan.cut_by_key(reader, plan, wanted, tables))
        plan = choose_by_writes(reader, plan, audit, tables, earlier)
    connections: dict[str, list[Side]] = {}
    for side, connection in reader.sides.items():
        connections.setdefault(connection.name, []).append(side)
    plan = replace(plan, expected=expect_costs(plan, connections, earlier.costs if earlier else ()))
    return replace(plan, notes=(*plan.notes, *budget_notes(plan, _budgets(name, audit, reader))))


def _budgets(name: str, audit: Audit, reader: Reader) -> dict[str, tuple[Budget, Sequence[str]]]:
    settings = {connection.name: connection.settings for connection in reader.sides.values()}
    each = {f"the connection {name}": (its.limits.budget, [name]) for name, its in settings.items()}
    return {f"the audit {name}": (audit.budget, list(settings)), **each}


def draft_plan(
    name: str, audit: Audit, reader: Reader, tables: Mapping[Side, Endpoint], method: Method | None, slice: Slice | None, now: str = ""
) -> Plan:
    """Return the plan without partitions: columns, conditions, watermark, slice. ``method`` replaces the audit's own.

    ``now`` is the moment to which an earlier plan of the run bound the filter's ``now``; if it is empty, the source's clock is read.
    Raises PlanError and NoSuchObject.
    """

    def clock() -> dt.datetime:
        return parse_time(now) if now else watermark.read_source_clock(reader)

    plan = shards.draft(name, audit, tables, method, clock)
    if any(column.zones for column in plan.columns):
        said = reader.ask_each(lambda side, session: times.check_known(plan, side, session))
        plan = replace(plan, notes=(*plan.notes, *(note for notes in said.values() for note in notes)))
    if audit.settle:
        plan = watermark.settle(plan, audit, reader, tables)
    return requested_slice.restrict(plan, slice, audit, tables) if slice else plan


def finish_plan(
    draft: Plan, audit: Audit, reader: Reader, tables: Mapping[Side, Endpoint], known: Mapping[Side, Bounds] = MappingProxyType({})
) -> Plan:
    """Return the draft with partitions and chunks, from the bounds that both sides report now. Raises PlanError.

    Sides whose bounds are ``known`` are not asked for them.
    """
    counted = reader.ask_each(lambda side, session: conventions.count_hidden(draft, side, session))
    hidden = [entry for side, here in counted.items() if here.follows for entry in conventions.hidden_entries(side, here.follows)]
    ties = [tie for side, here in counted.items() if here.follows and (tie := conventions.describe_ties(side, here.follows))]
    draft = replace(draft, sides={**draft.sides, **counted}, not_compared=(*draft.not_compared, *hidden), notes=(*draft.notes, *ties))
    bounds = reader.ask_each(
        lambda side, session: known[side] if side in known else introspect.read_bounds(draft, side, session, audit.partition.rows)
    )
    states = reader.ask_each(lambda side, session: "" if draft.sides[side].query else session.state_read(draft.sides[side].table))
    read = tuple(f"{side}: {state}" for side, state in states.items() if state and draft.snapshot == "whole")
    plan = planner.finish(draft, audit, tables, bounds)
    return replace(plan, notes=(*plan.notes, *read))


def restrict_to_partitions(whole: Plan, ranges: tuple[tuple[int, int], ...]) -> Plan:
    """Return the plan of these partitions alone, each range from its first (inclusive) to its end (exclusive).

    A table without rows is read whole. Rows without a key are read each time: they are of no range. Raises PlanError if partitions are not
    key ranges.
    """
    if whole.partitioning.strategy == "range" and whole.least is None:
        return whole
    if whole.columns[0].masked:
        raise PlanError(f"audit {whole.audit}: rolling stores which ranges of keys were read, and its key is masked; leave rolling out")
    if whole.partitioning.strategy != "range" or whole.least is None:
        raise PlanError(f"audit {whole.audit}: rolling needs range partitions of an integer key; leave rolling out or set strategy: range")
    size = whole.partitioning.size
    # The last returns at once where the key cannot be NULL.
    chunks = (*(Chunk(first=first * size, end=end * size) for first, end in ranges), Chunk(null_key=True))
    return replace(whole, sides={side: replace(here, chunks=chunks) for side, here in whole.sides.items()}, partition_ranges=ranges)


def share_of_partitions(plan: Plan) -> float:
    """Return the share of the table's partitions that a plan reads, 0 to 1."""
    if not plan.partition_ranges or plan.least is None or plan.greatest is None:
        return 1.0
    size = plan.partitioning.size
    partitions = plan.greatest // size - plan.least // size + 1
    return min(1.0, sum(end - first for first, end in plan.partition_ranges) / partitions)
