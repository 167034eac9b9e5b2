"""Rolling audits: which run last looked at which partitions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlalchemy import Connection, delete, insert, select

from auditor.store import standing
from auditor.store._schema import runs, stretches
from auditor.store._store import Store
from auditor.store._stored import number_of
from auditor.store.chunks import read, written


@dataclass(frozen=True, slots=True)
class Stretch:
    """Partitions from ``first`` (inclusive) to ``end`` (exclusive; None is no bound), and the run that looked at them last."""

    first: int | None
    end: int | None
    run: str
    at: dt.datetime
    watermark: dt.datetime | None = None


def record(store: Store, audit: str, layout: str, stretch: Stretch) -> None:
    """Keep a stretch in place of what it covers of earlier ones; those of other layouts mean nothing any more. Raises UnknownRun."""

    def work(connection: Connection) -> None:
        standing.ensure(connection, audit)
        number_of(connection, stretch.run)
        left = [piece for earlier in _kept(connection, audit, layout) for piece in _without(earlier, stretch)]
        connection.execute(delete(stretches).where(stretches.c.audit == audit))
        rows = [
            {
                "audit": audit,
                "number": number,
                "layout": layout,
                "first": written(piece.first),
                "end_before": written(piece.end),
                "run": number_of(connection, piece.run),
                "at": piece.at,
                "watermark": piece.watermark,
            }
            for number, piece in enumerate(sorted([*left, stretch], key=_place), 1)
        ]
        connection.execute(insert(stretches), rows)

    store.write(work)


def of(store: Store, audit: str, layout: str) -> list[Stretch]:
    """The stretches of an audit, ascending; no two overlap."""
    with store.reading() as connection:
        return _kept(connection, audit, layout)


def _kept(connection: Connection, audit: str, layout: str) -> list[Stretch]:
    wanted = select(stretches, runs.c.run.label("id")).join(runs, runs.c.number == stretches.c.run)
    mine = wanted.where(stretches.c.audit == audit, stretches.c.layout == layout).order_by(stretches.c.number)
    return [Stretch(read(row.first), read(row.end_before), row.id, row.at, row.watermark) for row in connection.execute(mine)]


def _place(stretch: Stretch) -> tuple[bool, int]:
    return stretch.first is not None, stretch.first or 0


def _without(stretch: Stretch, later: Stretch) -> Iterator[Stretch]:
    """What is left of a stretch where a later one looked again."""
    if _reaches(later.end, stretch.first) or _reaches(stretch.end, later.first):
        yield stretch
        return
    if later.first is not None and (stretch.first is None or stretch.first < later.first):
        yield replace(stretch, end=later.first)
    if later.end is not None and (stretch.end is None or later.end < stretch.end):
        yield replace(stretch, first=later.end)


def _reaches(end: int | None, first: int | None) -> bool:
    """Whether what ends here lies wholly before what begins there."""
    return end is not None and first is not None and end <= first
