"""Rows as a patch reads and writes them: exact texts of columns that can be written, what differs, and how they are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from auditor import canonical
from auditor.compare.accounting import Key, Row
from auditor.config import Audit
from auditor.errors import ColumnRefused, PatchRefused
from auditor.model import SIDES, ColumnPlan, DifferenceKind, Partitioning, Plan, Side
from auditor.planning.times import with_rounding
from auditor.run.fetch import Fetcher
from dialects import Dialect, Session

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


UNSHORTENED = 1 << 30
"""Characters beyond which a value would be shortened: more than any value has."""


@dataclass(frozen=True, slots=True)
class ExactRow:
    """A row with the canonical texts of all its columns, and its digest."""

    texts: tuple[str | None, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class RowChange:
    """What makes one row of a target equal the source's."""

    kind: DifferenceKind
    """``missing`` rows are inserted, ``changed`` ones updated, ``extra`` ones deleted."""
    key: Key
    new: ExactRow | None
    """The row as it should be; None if there should be none."""
    old: ExactRow | None
    """The target's row as it was read; None if there was none."""
    columns: tuple[str, ...] = ()
    """The columns of a changed row that differ, by the source's names."""


def read_rows(plan: Plan, side: Side, session: Session, keys: Sequence[Key]) -> dict[Key, ExactRow]:
    """Return the rows of these keys as one side has them now. Raises PatchRefused where several rows have one key."""
    rows: dict[Key, ExactRow] = {}
    for row, _ in Fetcher(plan, side, session, UNSHORTENED).by_canonical_key(keys):
        if row.key in rows:
            key = describe_key(plan, row.key)
            raise PatchRefused(f"the {side} has several rows of the key {key}; repair these by hand, then run again")
        rows[row.key] = _exact(row)
    return rows


def compare_rows(
    names: Sequence[str], keys: Sequence[Key], source: Mapping[Key, ExactRow], target: Mapping[Key, ExactRow], only: Sequence[str] = ()
) -> list[RowChange]:
    """Return what makes the target's rows of these keys equal the source's; nothing for rows that are equal.

    ``names`` are the columns of a row. With ``only``, changed rows are made equal in these columns alone, and no other rows are changed.
    """
    changes = []
    for key in keys:
        new, old = source.get(key), target.get(key)
        if new and old:
            differing = tuple(n for n, a, b in zip(names, new.texts, old.texts, strict=True) if a != b and (not only or n in only))
            if differing:
                changes.append(RowChange("changed", key, new, old, differing))
        elif (new or old) and not only:
            changes.append(RowChange("missing" if new else "extra", key, new, old))
    return changes


def meant_texts(names: Sequence[str], change: RowChange) -> tuple[str | None, ...]:
    """Return the texts that a row should have once it is inserted or updated: of a changed row, the new ones of its columns."""
    assert change.new
    if change.old is None:
        return change.new.texts
    texts = zip(names, change.new.texts, change.old.texts, strict=True)
    return tuple(new if name in change.columns else old for name, new, old in texts)


def describe_key(plan: Plan, key: Key) -> str:
    """Return a key for a person: ``id = 7, day = 2026-11-22``."""
    return ", ".join(f"{column.name} = {'NULL' if text is None else text}" for column, text in zip(plan.key_columns, key, strict=True))


def _exact(row: Row) -> ExactRow:
    return ExactRow((*row.key, *row.texts), row.digits)
