"""Show differences as people read them. Within a run keys are canonical texts, by which rows are matched, and values are longer."""

from __future__ import annotations

import dataclasses

from auditor import canonical
from auditor.canonical import FLOATS
from auditor.compare import text_forms
from auditor.model import ColumnDifference, Difference, Differences, Plan

MOST_CHARACTERS = 4096
"""Characters of a value up to which it is fetched whole, so that what explains a change is seen beyond those that are shown."""


def as_shown(differences: Differences, plan: Plan, length: int) -> Differences:
    """Return the differences of a finished run as they are shown.

    Floats among their keys are decimal numbers, which read back as the same floats. Of values ``length`` characters are left.
    """
    kinds = {column.name: column.kind for column in plan.key_columns}
    named = [with_windows(difference, length) for difference in differences.named]
    if any(kind.name in FLOATS for kind in kinds.values()):
        readable = [{name: canonical.readable(kinds[name], text) for name, text in difference.key.items()} for difference in named]
        named = [dataclasses.replace(difference, key=key) for difference, key in zip(named, readable, strict=True)]
    return dataclasses.replace(differences, named=tuple(named))


def with_windows(difference: Difference, length: int) -> Difference:
    """Return a difference with ``length`` characters of its values, around where the two sides differ."""
    return dataclasses.replace(difference, columns=tuple(_shortened(column, length) for column in difference.columns))


def _shortened(column: ColumnDifference, length: int) -> ColumnDifference:
    source, target = text_forms.window(column.source or "", column.target or "", length)
    return dataclasses.replace(column, source=None if column.source is None else source, target=None if column.target is None else target)
