"""A page of the differences of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from auditor.api import differences as kept
from auditor.store import Store

SIZE = 50
"""Differences on a page."""

Kind = Literal["", "missing", "extra", "changed"]
Settled = Literal["", "confirmed", "unsettled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some differences in their order; ``next`` is where the following page begins, None where there is none."""

    ranges: Sequence[dict[str, Any]]
    named: Sequence[dict[str, Any]]
    first: int
    last: int
    next: int | None


def listed(store: Store, run: str, kind: Kind, state: Settled, after: int) -> Page:
    """A page of the differences that a run kept. Raises UnknownRun where it named none."""
    found = kept.page(store, asked(store, run, kind, state), after, SIZE + 1)
    here = found[:SIZE]
    return Page(
        ranges=[{**one, **one["range"]} for one in here if one["range"]],
        named=[one for one in here if not one["range"]],
        first=here[0]["number"] if here else 0,
        last=here[-1]["number"] if here else 0,
        next=here[-1]["number"] if len(found) > SIZE else None,
    )


def asked(store: Store, run: str, kind: Kind, state: Settled) -> kept.Asked:
    """Which differences are meant; an empty word means all of them."""
    return kept.of(store, run, kind or None, state or None)
