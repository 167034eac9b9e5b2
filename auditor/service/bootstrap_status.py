"""How a bootstrap stands, for the API and the pages: its state, what was copied, and what it left."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from auditor.store import bootstraps
from auditor.store.bootstraps import Bootstrap

if TYPE_CHECKING:
    from auditor.store import Store

SHOWN = 3
"""Ranges of keys that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBootstrap:
    """A bootstrap as it is shown; see the fields of the API's schema."""

    bootstrap: str
    audit: str
    state: str
    stage: str
    is_at_work: bool
    requested_by: str
    at: dt.datetime
    source: str
    keys: str
    swap: str
    old: str
    old_dropped: bool
    why: str
    ranges: int
    of_ranges: int
    rows: int
    of_rows: int
    bytes: int
    after_run: str | None


def show(store: Store, found: Bootstrap) -> ShownBootstrap:
    """Return how a bootstrap stands."""
    detail, copied = found.detail, bootstraps.list_ranges(store, found.bootstrap).values()
    state: Any = found.state
    return ShownBootstrap(
        **{name: getattr(found, name) for name in ("bootstrap", "audit", "stage", "requested_by", "at")},
        state=state,
        is_at_work=found.state == "running" and bootstraps.is_at_work(store, found.bootstrap),
        source=str(detail["source"]),
        keys=describe_keys([(span["first"], span["end"]) for span in detail["spans"]]),
        swap=str(detail["swap"]),
        old=str(detail["old"]),
        old_dropped=bool(detail.get("old_dropped")),
        why="" if found.state in ("done", "dropped") else str(detail.get("why", "")),
        ranges=len(copied),
        of_ranges=len(detail["ranges"]),
        rows=sum(int(one["rows"]) for one in copied),
        of_rows=int(detail["rows"]),
        bytes=sum(int(one["bytes"]) for one in copied),
        after_run=detail.get("after"),
    )


def describe_keys(spans: Sequence[tuple[int | None, int | None]]) -> str:
    """Return ranges of keys (first, end) for a person; empty if there is one without bounds."""
    if list(spans) == [(None, None)]:
        return ""
    shown = [f"{'' if first is None else f'{first:,}'}..{'' if end is None else f'{end - 1:,}'}" for first, end in spans[:SHOWN]]
    more = f" and {len(spans) - SHOWN:,} further ranges" if len(spans) > SHOWN else ""
    return f"{', '.join(shown)}{more}"


def list_copied(store: Store, found: Bootstrap) -> list[Mapping[str, Any]]:
    """Return the ranges that were copied, in order, with their bounds."""
    ranges = found.detail["ranges"]
    copied = bootstraps.list_ranges(store, found.bootstrap)
    same = ("rows", "bytes", "sha256", "snapshot")
    return [
        {"number": number, **{end: ranges[number][end] for end in ("first", "end")}, **{name: copied[number][name] for name in same}}
        for number in sorted(copied)
    ]
