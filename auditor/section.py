"""Looking at a section of a table alone: the condition that its rows fulfil on both sides, by their key or by their time.

The bounds are exact, whatever the partitions are: these are laid within them. A row whose time lies within on one side only is
missing, or extra, there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from auditor import plan as plans
from auditor.columns import Endpoint
from auditor.config import Audit, checked_ranges, moment
from auditor.errors import ConfigError, PlanError
from auditor.model import SECTIONS, SIDES, Plan, Section, Side, SidePlan
from auditor.render import integer_key
from auditor.settle import TIMES
from dialects import Dialect, Kind

SIGNED, UNSIGNED, ANY = (-(2**63), 2**63 - 1), (0, 2**64 - 1), (-math.inf, math.inf)
"""The least and greatest keys that a type can hold."""


def asked(audit: Audit, overrides: Mapping[str, Any]) -> Section | None:
    """The section that a run is asked to look at; None where it is the whole table.

    Raises ConfigError where it is not written as it should be, or where the audit says already that there can be none.
    """
    written = {name: overrides[name] for name in SECTIONS if overrides.get(name) is not None}
    if not written:
        return None
    found = checked_ranges(written)
    keys, times = found.keys, found.times
    if keys and len(audit.key) > 1:
        raise ConfigError("keys: a range of keys needs a key of one integer column, and this audit's has several columns")
    if times and not _column(audit):
        raise ConfigError(
            "times: the audit names no column of times; write partition: {strategy: time, column: ...} or settle: {column: ...}"
            " in the audit, or ask for a range of keys"
        )
    return Section(
        first=keys.from_ if keys else None,
        last=keys.to if keys else None,
        since=_canonical(times.from_) if times else None,
        before=_canonical(times.to) if times else None,
    )


def _column(audit: Audit) -> str:
    """The column of an audit's times: what it is partitioned by, else what tells which rows are settled."""
    return audit.partition.column or (audit.settle.column if audit.settle else "")


def _canonical(text: str | None) -> str | None:
    return None if text is None else moment(text).replace(tzinfo=None).isoformat(" ", "microseconds")


def confined(plan: Plan, section: Section, audit: Audit, ends: Mapping[Side, Endpoint]) -> Plan:
    """The plan of these rows alone. Raises PlanError where the key is not one integer, or the column holds no times."""
    conditions: dict[Side, list[str]] = {side: [] for side in SIDES}
    if section.has_keys:
        if not integer_key(plan):
            names = ", ".join(f"{column.name} ({column.kind})" for column in plan.key_columns)
            raise PlanError(f"keys: a range of keys needs a key of one integer column, and that of audit {plan.audit} is {names}")
        key = plan.columns[0]
        for side in SIDES:
            conditions[side] += _of_keys(section, key.expression[side], key.native[side])
    if section.has_times:
        name, expressions = _times(plan, audit, ends)
        section = dataclasses.replace(section, column=name)
        for side in SIDES:
            conditions[side] += _of_times(section, expressions[side], ends[side].dialect)
    sides = {side: _with(plan.sides[side], conditions[side]) for side in SIDES}
    return dataclasses.replace(plan, sides=sides, section=section)


def _with(here: SidePlan, conditions: list[str]) -> SidePlan:
    return dataclasses.replace(here, where=" AND ".join(one for one in (here.where, *conditions) if one))


def _of_keys(section: Section, key: str, native: Kind) -> list[str]:
    """Comparisons of a key with literals that its type can hold, so that an index serves them."""
    least, greatest = ANY if native.name != "integer" else UNSIGNED if native.unsigned else SIGNED
    first = -math.inf if section.first is None else section.first
    last = math.inf if section.last is None else section.last
    if first > greatest or last < least:
        return ["1 = 0"]
    found = [f"{key} >= {first}"] if first > least else []
    found += [f"{key} <= {last}"] if last < greatest else []
    return found or [f"{key} IS NOT NULL"]


def _times(plan: Plan, audit: Audit, ends: Mapping[Side, Endpoint]) -> tuple[str, dict[Side, str]]:
    """The column of times by its name, and both sides' SQL for it. Raises PlanError where it holds none."""
    name = _column(audit)
    compared = next((column for column in plan.columns if column.name.lower() == name.lower()), None)
    if compared:
        kinds: dict[Side, Kind | None] = {side: compared.native[side] for side in SIDES}
        expressions = dict(compared.expression)
    else:
        columns = plans.columns_named(audit, ends, name, "times")
        kinds = {side: columns[side].kind for side in SIDES}
        expressions = {side: ends[side].dialect.quote(columns[side].name) for side in SIDES}
    for side, kind in kinds.items():
        if kind is None or kind.name not in TIMES:
            raise PlanError(f"times: the column {name!r} of the {side} ({ends[side].label}) holds no dates or timestamps")
    return name, expressions


def _of_times(section: Section, column: str, dialect: Dialect) -> list[str]:
    found = [f"{column} >= {dialect.moment(section.since)}"] if section.since is not None else []
    return found + ([f"{column} < {dialect.moment(section.before)}"] if section.before is not None else [])
