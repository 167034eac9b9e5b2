"""How a bootstrap stands, for the API and the pages: its state, what was copied, and what it left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from auditor.shapes.bootstrap import Bootstrap, CopiedRange, CopyProgress
from auditor.store import bootstraps
from auditor.store.bootstraps import Bootstrap as StoredBootstrap

if TYPE_CHECKING:
    from auditor.store import Store

SHOWN = 3
"""Ranges of keys that are named."""


def show(store: Store, stored: StoredBootstrap) -> Bootstrap:
    """Return the status of a bootstrap."""
    detail, copied = stored.detail, bootstraps.list_ranges(store, stored.bootstrap).values()
    progress = CopyProgress(
        ranges=len(copied),
        of_ranges=len(detail["ranges"]),
        rows=sum(int(copied_range["rows"]) for copied_range in copied),
        of_rows=int(detail["rows"]),
        bytes=sum(int(copied_range["bytes"]) for copied_range in copied),
    )
    return Bootstrap(
        bootstrap=stored.bootstrap,
        audit=stored.audit,
        state=stored.state,
        stage=stored.stage,
        requested_by=stored.requested_by,
        at=stored.at,
        is_at_work=stored.state == "running" and bootstraps.is_at_work(store, stored.bootstrap),
        source=str(detail["source"]),
        keys=describe_keys([(span["first"], span["end"]) for span in detail["spans"]]),
        swap=detail["swap"],
        old=str(detail["old"]),
        old_dropped=bool(detail.get("old_dropped")),
        why="" if stored.state in ("done", "dropped") else str(detail.get("why", "")),
        progress=progress,
        after_run=detail.get("after"),
    )


def describe_keys(spans: Sequence[tuple[int | None, int | None]]) -> str:
    """Return ranges of keys (first, end) for a person; empty if there is one without bounds."""
    if list(spans) == [(None, None)]:
        return ""
    shown = [f"{'' if first is None else f'{first:,}'}..{'' if end is None else f'{end - 1:,}'}" for first, end in spans[:SHOWN]]
    more = f" and {len(spans) - SHOWN:,} further ranges" if len(spans) > SHOWN else ""
    return f"{', '.join(shown)}{more}"


def list_copied(store: Store, stored: StoredBootstrap) -> list[CopiedRange]:
    """Return the ranges that were copied, in order, with their bounds."""
    ranges, copied = stored.detail["ranges"], bootstraps.list_ranges(store, stored.bootstrap)
    return [_copied(number, ranges[number], copied[number]) for number in sorted(copied)]


def _copied(number: int, bounds: Mapping[str, Any], entry: Mapping[str, Any]) -> CopiedRange:
    return CopiedRange(
        number=number,
        first=bounds["first"],
        end=bounds["end"],
        rows=entry["rows"],
        bytes=entry["bytes"],
        sha256=entry["sha256"],
        snapshot=entry["snapshot"],
    )
