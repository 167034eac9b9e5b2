"""How rows are carried from a source to a target: each column in the canonical kind that both hold, without what the audit levels.

An audit may compare a column rounded, trimmed or within a tolerance. A patch writes what the source holds, as exactly as the target's
type allows; so it reads both sides in the kind that the two types share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from auditor import canonical
from auditor.config import Audit
from auditor.errors import ColumnRefused
from auditor.model import SIDES, ColumnPlan, Partitioning, Plan
from auditor.planning.times import with_rounding
from dialects import Dialect

DIGEST_BITS = 256
"""Bits of a row's digest by which a row is recognised: all of them, because a statement rests on it."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A plan by which whole rows are read exactly, whatever the audit's filter and its comparison."""

    plan: Plan
    """Its columns are those of the audit's plan, in the same order; its key is the same."""
    unwritable: Mapping[str, str]
    """Why columns, by the source's names, cannot be written."""
    masked: Collection[str]
    """The columns whose values are never printed."""

    @property
    def names(self) -> list[str]:
        """Return the columns by the source's names, in order."""
        return [column.name for column in self.plan.columns]


def plan_transfer(plan: Plan, audit: Audit, target: Dialect) -> Transfer:
    """Return how rows are carried between the two tables of an audit's plan. Raises ColumnRefused for a key that names no single row."""
    unwritable: dict[str, str] = {}
    columns = [_carried(column, target, audit, unwritable) for column in plan.columns]
    for column, carried in zip(plan.key_columns, columns, strict=False):
        why = unwritable.get(column.name) or _why_no_key(column, carried)
        if why:
            raise ColumnRefused(f"audit {plan.audit}: no row can be patched by its key {column.name!r}: {why}")
    exact = dataclasses.replace(
        plan,
        columns=tuple(columns),
        sides={side: dataclasses.replace(plan.sides[side], where="", settled="", written="") for side in SIDES},
        partitioning=Partitioning(strategy="hash", buckets=1),
        method="exact",
        hash="sha256",
        encoding="injective",
        bits=DIGEST_BITS,
        salt="",
        slice=None,
        partition_ranges=(),
    )
    return Transfer(exact, unwritable, frozenset(column.name for column in plan.columns if column.masked))


def _carried(column: ColumnPlan, target: Dialect, audit: Audit, unwritable: dict[str, str]) -> ColumnPlan:
    plain = dataclasses.replace(column, trim=False, case=None, null_as=None, masked=False, tolerance=None, fine={}, by_value=False)
    if "an expression" in column.types.values():
        unwritable[column.name] = "the audit compares the result of an expression there"
        return plain
    if column.zones.get("target"):
        unwritable[column.name] = "its times are compared by the clock of a zone, which shows one hour twice"
        return plain
    if column.native["target"].name == "nested":
        unwritable[column.name] = "it holds arrays or structs"
        return plain
    shared = canonical.shared_kind(column.native["source"], column.native["target"])
    if shared is None and column.kind.name == "rounded":
        unwritable[column.name] = "the two types share no kind"
    if shared is None or dataclasses.replace(column.kind, rounding="") == shared.kind:
        return plain
    rules = {name.lower(): rule for name, rule in audit.columns.override.items()}
    rule = rules.get(column.name.lower())
    return dataclasses.replace(plain, kind=with_rounding(shared.kind, column.native, target, rule.fraction if rule else None))


def _why_no_key(column: ColumnPlan, carried: ColumnPlan) -> str:
    if column.masked:
        return "it is masked, so that the store holds only digests of it"
    levelled = column.trim or column.case or column.null_as is not None
    return "the audit compares it levelled, so that several rows can have one" if levelled or column.kind != carried.kind else ""
