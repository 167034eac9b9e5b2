"""A page of a run's differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from auditor.service import differences as difference_lists
from auditor.shapes.difference import Difference
from auditor.store import Store

PAGE_SIZE = 50
"""Differences on a page."""

Kind = Literal["", "missing", "extra", "changed"]
DifferenceState = Literal["", "confirmed", "unsettled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferencePage:
    """Differences in order: of ranges and of single rows.

    ``first`` and ``last`` are the numbers of the first and last, 0 if there are none. ``next`` is the number after which the next page
    starts, None on the last page.
    """

    ranges: Sequence[Mapping[str, Any]]
    named: Sequence[Difference]
    first: int
    last: int
    next: int | None


def list_page(store: Store, run: str, kind: Kind, state: DifferenceState, after: int) -> DifferencePage:
    """Return a page of the stored differences of a run. Raises UnknownRun if its report names none."""
    listed = difference_lists.list_page(store, select(store, run, kind, state), after, PAGE_SIZE + 1)
    shown = listed[:PAGE_SIZE]
    return DifferencePage(
        ranges=[{**dict(difference), **dict(difference.range)} for difference in shown if difference.range],
        named=[difference for difference in shown if not difference.range],
        first=shown[0].number if shown else 0,
        last=shown[-1].number if shown else 0,
        next=shown[-1].number if len(listed) > PAGE_SIZE else None,
    )


def select(store: Store, run: str, kind: Kind, state: DifferenceState) -> difference_lists.Selection:
    """Select differences of a run; an empty ``kind`` or ``state`` selects all."""
    return difference_lists.select(store, run, kind or None, state or None)
