"""Rolling audits: which run read which partitions last."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlalchemy import Column, Connection, ForeignKey, Table, delete, func, insert, select

from auditor.store import audit_state
from auditor.store.database import Store
from auditor.store.run_lifecycle import format_bound, parse_bound
from auditor.store.runs import get_run_number
from auditor.store.schema import Moment, big_integer, metadata, runs, short_text

rolling_parts = Table(
    "auditor_rolling_parts",
    metadata,
    Column("audit", short_text(), ForeignKey("auditor_audit_states.audit"), primary_key=True),
    Column("number", big_integer(), primary_key=True, autoincrement=False),
    Column("layout", short_text(), nullable=False),
    Column("first", short_text(), nullable=False),
    Column("end_before", short_text(), nullable=False),
    Column("run", big_integer(), ForeignKey("auditor_runs.number"), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("watermark", Moment()),
)


@dataclass(frozen=True, slots=True)
class RollingPart:
    """Partitions by number, from ``first`` (inclusive) to ``end`` (exclusive), None for no bound, and the run that read them last.

    ``at`` is when it read them; ``watermark`` is the time up to which its data was settled.
    """

    first: int | None
    end: int | None
    run: str
    at: dt.datetime
    watermark: dt.datetime | None = None


def record_part(store: Store, audit: str, layout: str, part: RollingPart) -> None:
    """Store a part, replacing what it covers of earlier parts, and delete the parts of other layouts. Raises UnknownRun.

    ``layout`` identifies the partitioning and the settings (`history.fingerprint.hash_layout`): only parts of one layout are comparable.
    """

    def work(connection: Connection) -> None:
        audit_state.lock_state(connection, audit)
        get_run_number(connection, part.run)
        left = [rest for earlier in _fetch_parts(connection, audit, layout) for rest in _subtract(earlier, part)]
        connection.execute(delete(rolling_parts).where(rolling_parts.c.audit == audit))
        rows = [
            {
                "audit": audit,
                "number": number,
                "layout": layout,
                "first": format_bound(each.first),
                "end_before": format_bound(each.end),
                "run": get_run_number(connection, each.run),
                "at": each.at,
                "watermark": each.watermark,
            }
            for number, each in enumerate(sorted([*left, part], key=_sort_key), 1)
        ]
        connection.execute(insert(rolling_parts), rows)

    store.write(work)


def list_parts(store: Store, audit: str, layout: str) -> list[RollingPart]:
    """Return the parts of an audit under this layout, ascending and without overlap."""
    with store.reading() as connection:
        return _fetch_parts(connection, audit, layout)


def get_last_read(store: Store, audit: str) -> dt.datetime | None:
    """Return when a part of an audit was last read, under any layout; None if none was. It changes with every part that is stored."""
    with store.reading() as connection:
        return connection.execute(select(func.max(rolling_parts.c.at)).where(rolling_parts.c.audit == audit)).scalar()


def _fetch_parts(connection: Connection, audit: str, layout: str) -> list[RollingPart]:
    joined = select(rolling_parts, runs.c.run.label("id")).join(runs, runs.c.number == rolling_parts.c.run)
    statement = joined.where(rolling_parts.c.audit == audit, rolling_parts.c.layout == layout).order_by(rolling_parts.c.number)
    return [
        RollingPart(parse_bound(row.first), parse_bound(row.end_before), row.id, row.at, row.watermark)
        for row in connection.execute(statement)
    ]


def _sort_key(part: RollingPart) -> tuple[bool, int]:
    return part.first is not None, part.first or 0


def _subtract(part: RollingPart, later: RollingPart) -> Iterator[RollingPart]:
    """Yield what a later part leaves of a part: nothing, the part itself, or one or two remainders."""
    if _ends_before(later.end, part.first) or _ends_before(part.end, later.first):
        yield part
        return
    if later.first is not None and (part.first is None or part.first < later.first):
        yield replace(part, end=later.first)
    if later.end is not None and (part.end is None or later.end < part.end):
        yield replace(part, first=later.end)


def _ends_before(end: int | None, first: int | None) -> bool:
    """Return whether a range that ends at ``end`` (exclusive) lies entirely before one that starts at ``first``."""
    return end is not None and first is not None and end <= first
