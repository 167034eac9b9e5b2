"""The tables of a pipeline's targets by how they stand, the worst first, and groups of those that stand alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from auditor.api_models.pipeline import PipelineStatus, TableState, TableStatus
from auditor.quantities import format_duration, plural

FEW_TABLES = 20
"""Tables of a pipeline up to which each is listed; of more, groups are, and those tables that need attention."""

Standing = Literal["stopped", "lagging", "delayed", "waiting", "merged"]
"""How a target's table stands, the worst first: ``lagging`` is one that lies further behind than it may, and is not stopped."""

STANDINGS: tuple[Standing, ...] = get_args(Standing)

NEEDS_ATTENTION: tuple[Standing, ...] = STANDINGS[:3]

_RANK: Mapping[str, int] = {standing: rank for rank, standing in enumerate(STANDINGS)}


class TableRow(NamedTuple):
    """A table of a target, with its status."""

    target: str
    table: str
    state: Standing
    values: TableStatus


@dataclass(frozen=True, slots=True)
class TableGroup:
    """The tables of a target that stand alike."""

    target: str
    state: Standing
    tables: int
    incomplete: int
    """How many of them lack events that are staged."""
    lag_seconds: float
    """What they lag behind at most."""
    pending_events: int
    pending_bytes: int


def list_rows(status: PipelineStatus) -> list[TableRow]:
    """Return the tables of all targets, the worst first."""
    rows = [
        TableRow(target, table, _standing(values, of_target.max_lag), values)
        for target, of_target in status.targets.items()
        for table, values in of_target.tables.items()
    ]
    return sorted(rows, key=lambda row: (_RANK[row.state], -row.values.lag_seconds, row.table, row.target))


def in_order(rows: Iterable[TableRow], status: PipelineStatus) -> list[TableRow]:
    """Return rows in the order of the targets, and of the tables' names."""
    order = list(status.targets)
    return sorted(rows, key=lambda row: (order.index(row.target), row.table))


def _standing(table: TableStatus, limit: float) -> Standing:
    return "lagging" if table.state != "stopped" and table.lag_seconds > limit else table.state


def group_rows(rows: Iterable[TableRow]) -> list[TableGroup]:
    """Return the groups of tables, the worst first, and those of one state by their targets' names."""
    members: dict[tuple[int, str], list[TableRow]] = {}
    for row in rows:
        members.setdefault((_RANK[row.state], row.target), []).append(row)
    return [_group(target, STANDINGS[rank], listed) for (rank, target), listed in sorted(members.items(), key=lambda item: item[0])]


def _group(target: str, state: Standing, rows: Sequence[TableRow]) -> TableGroup:
    incomplete = [row.values for row in rows if row.values.pending_events]
    return TableGroup(
        target,
        state,
        len(rows),
        len(incomplete),
        max((values.lag_seconds for values in incomplete), default=0.0),
        sum(values.pending_events for values in incomplete),
        sum(values.pending_bytes for values in incomplete),
    )


def describe_group(group: TableGroup) -> str:
    """Return a group as a line: ``warehouse: 1,987 tables merged, at most 1.2 s behind, 3,100 events missing``."""
    line = f"{group.target}: {plural(group.tables, 'table')} {group.state}"
    if not group.incomplete:
        return f"{line}, nothing missing"
    most = "at most " if group.incomplete > 1 else ""
    return f"{line}, {most}{format_duration(group.lag_seconds)} behind, {plural(group.pending_events, 'event')} missing"


class SharedReason(NamedTuple):
    """Why tables of a target do not go on; ``table`` is the first of them."""

    target: str
    state: TableState
    reason: str
    table: str
    tables: int


def share_reasons(rows: Iterable[TableRow]) -> list[SharedReason]:
    """Return the reasons why tables do not go on, in the order of the rows, once for all tables of a target that share one."""
    found: dict[tuple[str, TableState, str], list[str]] = {}
    for row in rows:
        if row.values.reason:
            found.setdefault((row.target, row.values.state, row.values.reason), []).append(row.table)
    return [SharedReason(*key, tables[0], len(tables)) for key, tables in found.items()]
