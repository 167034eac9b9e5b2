"""The slice of its tables to which a run is limited on request: the condition that its rows fulfil on both sides, by key or by time.

The bounds are exact; partitions are laid within them. A row whose time lies within the slice on one side only is missing or extra.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from auditor.config import Audit, validate_slice
from auditor.errors import ConfigError, PlanError
from auditor.model import SLICES, Plan, Side, SidePlan, Slice, parse_time
from auditor.planning import planner
from auditor.planning.columns import Endpoint
from auditor.planning.watermark import TIMES
from dialects import Dialect, Kind

SIGNED, UNSIGNED, ANY = (-(2**63), 2**63 - 1), (0, 2**64 - 1), (-math.inf, math.inf)
"""The least and greatest keys that an integer type can hold: signed, unsigned, any other number."""


def parse(audit: Audit, overrides: Mapping[str, Any]) -> Slice | None:
    """Return the slice that a run's overrides (``keys``, ``times``) ask for; None for the whole table.

    Raises ConfigError if the ranges are malformed, or the audit's key or columns allow no such slice.
    """
    written = {name: overrides[name] for name in SLICES if overrides.get(name) is not None}
    if not written:
        return None
    ranges = validate_slice(written)
    keys, times = ranges.keys, ranges.times
    if keys and len(audit.key) > 1:
        raise ConfigError("a range of keys needs a key of one integer column, and this audit's key has several")
    if times and not _time_column(audit):
        raise ConfigError(
            "the audit names no column of times, by which a range of times is chosen; write partition: {strategy: time, column: ...} or"
            " settle: {column: ...} in the audit, or ask for a range of keys"
        )
    return Slice(
        first=keys.from_ if keys else None,
        last=keys.to if keys else None,
        since=_canonical(times.from_) if times else None,
        before=_canonical(times.to) if times else None,
    )


def _time_column(audit: Audit) -> str:
    """Return the column of an audit's times: the one it is partitioned by, else the one that settles rows; empty if there is none."""
    return audit.partition.column or (audit.settle.column if audit.settle else "")


def _canonical(text: str | None) -> str | None:
    return None if text is None else parse_time(text).replace(tzinfo=None).isoformat(" ", "microseconds")


def restrict(plan: Plan, slice: Slice, audit: Audit, tables: Mapping[Side, Endpoint]) -> Plan:
    """Return the plan of a slice's rows alone. Raises PlanError if the key is not one integer, or the time column holds no times."""
    conditions: dict[Side, list[str]] = {side: [] for side in plan.read_sides}
    if slice.has_keys:
        if any(column.masked for column in plan.key_columns):
            raise PlanError(f"keys: the key of audit {plan.audit} is masked, and a range of its keys would reveal values")
        if not plan.has_integer_key:
            names = ", ".join(f"{column.name} ({column.kind})" for column in plan.key_columns)
            raise PlanError(f"keys: a range of keys needs a key of one integer column, and that of audit {plan.audit} is {names}")
        key = plan.columns[0]
        for side in plan.read_sides:
            conditions[side] += _key_conditions(slice, key.expression[side], key.native[side])
    if slice.has_times:
        name, expressions = _time_expressions(plan, audit, tables)
        slice = dataclasses.replace(slice, column=name)
        for side in plan.read_sides:
            conditions[side] += _time_conditions(slice, expressions[side], tables[side].dialect)
    sides = {side: _with_conditions(plan.sides[side], conditions[side]) for side in plan.read_sides}
    return dataclasses.replace(plan, sides={**plan.sides, **sides}, slice=slice)


def _with_conditions(here: SidePlan, conditions: list[str]) -> SidePlan:
    return dataclasses.replace(here, where=" AND ".join(condition for condition in (here.where, *conditions) if condition))


def _key_conditions(slice: Slice, key: str, native: Kind) -> list[str]:
    """Return comparisons of a key with literals that its type can hold, so that an index serves them."""
    least, greatest = ANY if native.name != "integer" else UNSIGNED if native.unsigned else SIGNED
    first = -math.inf if slice.first is None else slice.first
    last = math.inf if slice.last is None else slice.last
    if first > greatest or last < least:
        return ["1 = 0"]
    conditions = [f"{key} >= {first}"] if first > least else []
    conditions += [f"{key} <= {last}"] if last < greatest else []
    return conditions or [f"{key} IS NOT NULL"]


def _time_expressions(plan: Plan, audit: Audit, tables: Mapping[Side, Endpoint]) -> tuple[str, dict[Side, str]]:
    """Return the time column's name and both sides' SQL of it. Raises PlanError if it holds no times."""
    name = _time_column(audit)
    compared = next((column for column in plan.columns if column.name.lower() == name.lower()), None)
    if compared:
        kinds: dict[Side, Kind | None] = {side: compared.native[side] for side in plan.read_sides}
        expressions = dict(compared.expression)
    else:
        columns = planner.find_columns(audit, tables, name, "times")
        kinds = {side: column.kind for side, column in columns.items()}
        expressions = {side: tables[side].dialect.names.quote(column.name) for side, column in columns.items()}
    if (compared and compared.masked) or any(name.lower() in end.masks for end in tables.values()):
        raise PlanError(f"times: the column {name!r} is masked, and a range of its times would reveal values")
    for side, kind in kinds.items():
        if kind is None or kind.name not in TIMES:
            raise PlanError(f"times: the column {name!r} of the {side} ({tables[side].label}) holds no dates or timestamps")
    return name, expressions


def _time_conditions(slice: Slice, column: str, dialect: Dialect) -> list[str]:
    conditions = [f"{column} >= {dialect.names.timestamp_literal(slice.since)}"] if slice.since is not None else []
    return conditions + ([f"{column} < {dialect.names.timestamp_literal(slice.before)}"] if slice.before is not None else [])
