"""Plan an audit whose source consists of several shards: each is planned against the target, and all of them must be read alike.

Every shard keeps its own table, filter, chunks and SQL of its columns. What its rows mean is one for all: the kinds in which columns are
compared, and how their texts are changed. Rows that are equal then have equal hashes, whichever shard holds them, and summaries add up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache

from auditor.config import Audit
from auditor.errors import PlanError
from auditor.model import SIDES, ColumnPlan, Method, NotCompared, Plan, Side, SidePlan
from auditor.planning import planner
from auditor.planning.columns import Endpoint, refuse
from auditor.planning.filters import Clock
from auditor.planning.schema_drift import describe_drift


def draft(name: str, audit: Audit, ends: Mapping[Side, Endpoint], method: Method | None = None, clock: Clock | None = None) -> Plan:
    """Return what ``planner.draft`` does; of a source of several shards one plan of them all.

    Raises PlanError, also where shards cannot be read alike.
    """
    pairs = planner.pairs(ends)
    if len(pairs) == 1:
        return planner.draft(name, audit, ends, method, clock)
    once = cache(clock) if clock else None
    drafts = {side: planner.draft(name, audit, pair, method, once) for side, pair in pairs.items()}
    _check_alike(name, drafts, ends)
    first = next(iter(drafts.values()))
    drafts = {side: _in_order_of(first, plan) for side, plan in drafts.items()}
    shards = {side: plan.sides["source"] for side, plan in drafts.items()}
    return dataclasses.replace(
        first,
        sides={"source": _joined(shards), **shards, "target": first.sides["target"]},
        columns=tuple(_column(drafts, index) for index in range(len(first.columns))),
        prefix=planner.choose_prefix(ends),
        snapshot="whole" if all(plan.snapshot == "whole" for plan in drafts.values()) else "per_chunk",
        not_compared=_not_compared(drafts, ends),
        notes=(*dict.fromkeys(note for plan in drafts.values() for note in plan.notes), *_drift(ends)),
    )


def _in_order_of(first: Plan, plan: Plan) -> Plan:
    """Return a shard's plan with the columns in the order of the first's, because a row's hash depends on it."""
    here = {column.name.lower(): column for column in plan.columns}
    return dataclasses.replace(plan, columns=tuple(here[column.name.lower()] for column in first.columns))


def _joined(shards: Mapping[Side, SidePlan]) -> SidePlan:
    """Return what a person reads of the source as a whole; no statement is made of it."""
    every = shards.values()
    return SidePlan(
        dialect=" + ".join(dict.fromkeys(side.dialect for side in every)),
        connection=" + ".join(dict.fromkeys(side.connection for side in every)),
        label=" + ".join(side.label for side in every),
        table=" + ".join(side.table for side in every),
        where="",
        chunks=(),
        estimate=sum(side.estimate or 0 for side in every),
    )


def _column(drafts: Mapping[Side, Plan], index: int) -> ColumnPlan:
    """Return a column with the SQL and the types of every shard; those of the first stand for the source where a person reads them."""
    each = {side: plan.columns[index] for side, plan in drafts.items()}
    first = next(iter(each.values()))
    return dataclasses.replace(
        first,
        native=first.native | {side: column.native["source"] for side, column in each.items()},
        expression=first.expression | {side: column.expression["source"] for side, column in each.items()},
        types={
            **first.types,
            "source": " + ".join(dict.fromkeys(column.types["source"] for column in each.values())),
            **{side: column.types["source"] for side, column in each.items()},
        },
        fine=first.fine | {side: column.fine["source"] for side, column in each.items() if "source" in column.fine},
        zones=first.zones | {side: column.zones["source"] for side, column in each.items() if "source" in column.zones},
        masked=any(column.masked for column in each.values()),
        never_null=tuple(side for side, column in each.items() if "source" in column.never_null)
        + tuple(side for side in SIDES if all(side in column.never_null for column in each.values())),
    )


def _meaning(column: ColumnPlan) -> list[tuple[str, object]]:
    """Return what decides the hash of a value, and how the target is read for it; each with the words for it."""
    return [
        ("is compared as", column.kind),
        ("is compared with the target's", column.expression["target"]),
        ("has as fine a kind in the target as", column.fine.get("target", column.kind)),
        ("is hashed by", f"a digest of {column.pieces} pieces" if column.digest else "its text"),
    ]


def _check_alike(name: str, drafts: Mapping[Side, Plan], ends: Mapping[Side, Endpoint]) -> None:
    """Raise ColumnRefused, with all problems, where shards would not give equal rows equal hashes, and PlanError for keys that differ."""
    (first, plan), *others = drafts.items()
    problems: list[str] = []
    columns = {column.name.lower(): column for column in plan.columns}
    for side, other in others:
        here = {column.name.lower(): column for column in other.columns}
        for low in [*columns, *(low for low in here if low not in columns)]:
            column, twin = columns.get(low), here.get(low)
            if column is None or twin is None:
                has, misses = (first, side) if column else (side, first)
                known = column or twin
                assert known
                problems.append(
                    f"column {known.name!r} is in {ends[has].label} and not in {ends[misses].label}; exclude it, or add it to that shard"
                )
                continue
            problems += [
                f"column {column.name!r} {what} {mine} in {ends[first].label} and {yours} in {ends[side].label}; write kind: for it under"
                " columns: override, or exclude it"
                for (what, mine), (_, yours) in zip(_meaning(column), _meaning(twin), strict=True)
                if mine != yours
            ]
        keys = [[column.name.lower() for column in each.key_columns] for each in (plan, other)]
        if not problems and keys[0] != keys[1]:
            raise PlanError(
                f"the key of {ends[first].label} is ({', '.join(keys[0])}) and that of {ends[side].label} is ({', '.join(keys[1])}); write"
                " key: [column, ...] in the audit"
            )
    if problems:
        refuse(name, problems)


def _not_compared(drafts: Mapping[Side, Plan], ends: Mapping[Side, Endpoint]) -> tuple[NotCompared, ...]:
    """Return what no shard shows, and of what only some of them do not show, in which."""
    entries: dict[NotCompared, list[str]] = {}
    for side, plan in drafts.items():
        for entry in plan.not_compared:
            entries.setdefault(entry, []).append(ends[side].label)
    return tuple(
        entry if len(where) == len(drafts) else dataclasses.replace(entry, what=f"{entry.what} (in {' and '.join(where)})")
        for entry, where in entries.items()
    )


def _drift(ends: Mapping[Side, Endpoint]) -> Sequence[str]:
    """Return in what the shards' tables differ, a sentence each."""
    shards = [end for side, end in ends.items() if side != "target"]
    sentences = [
        f"schema drift between shards: {sentence}"
        for other in shards[1:]
        for sentence in describe_drift(shards[0].label, shards[0].table, other.label, other.table)
    ]
    engines = dict.fromkeys(end.dialect.name for end in shards)
    return sentences + ([f"the shards are on different engines: {', '.join(engines)}"] if len(engines) > 1 else [])
