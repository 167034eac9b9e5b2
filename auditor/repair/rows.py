"""Read rows by their keys from both sides, and say what would make the target's equal the source's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.compare.accounting import Key, Row
from auditor.errors import PatchRefused
from auditor.model import DifferenceKind, Plan, Side
from auditor.run.fetch import Fetcher
from dialects import Session

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
