"""Check how the chunks of a plan are read, before they are, and refuse scans of large tables that no index serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from auditor.config import ConnectionSettings
from auditor.connections.reader import Reader
from auditor.errors import ScanRefused
from auditor.model import Plan, Side
from auditor.run.chunk_queue import ChunkQueue
from auditor.sql import render
from dialects import Session

SMALL = 4
"""A chunk of at most 1/SMALL of the keys should be read through an index; for a larger one a full scan can be cheaper."""


def check_chunks(reader: Reader, plan: Plan, sides: Sequence[Side] = ()) -> Plan:
    """Return the plan with notes on how its chunks are read, those of ``sides`` or of all.

    Raises ScanRefused if no index serves those of a large table.
    """
    notes = [reader.ask_side(side, lambda shard, session: _check_side(reader, plan, shard, session)) for side in sides]
    if not sides:
        notes = list(reader.ask_each(lambda side, session: _check_side(reader, plan, side, session)).values())
    return replace(plan, notes=(*plan.notes, *(note for note in notes if note)))


def _check_side(reader: Reader, plan: Plan, side: Side, session: Session) -> str | None:
    first = ChunkQueue.of_plan(plan, side).take() if plan.sides[side].chunk_keys else None
    statement = render.summary(plan, side, session.dialect, first) if first else ""
    return check_scan(plan, side, session, reader.sides[side].settings, statement)


def check_scan(plan: Plan, side: Side, session: Session, settings: ConnectionSettings, statement: str = "") -> str | None:
    """Return a note on how a side's key ranges are read; None if it is not read in key ranges or its engine has no indexes.

    ``statement`` summarises one chunk, of at most the plan's ``chunk_keys`` keys; the server's plan for it counts more than the list
    of indexes. Raises ScanRefused if each key range would read the whole of a table of more than ``scan_rows`` rows.
    """
    here, key = plan.sides[side], plan.columns[0]
    if plan.partitioning.strategy != "range" and not here.chunk_keys and len(here.chunks) == 1:
        return None
    leading = session.dialect.server.leading_index_columns(session, here.table)
    if leading is None:
        return None
    indexed = key.expression[side] in {session.dialect.names.quote(column) for column in leading}
    small = bool(here.chunk_keys) and here.chunk_keys * SMALL <= plan.span
    expected = session.dialect.server.estimate_scan(session, statement) if statement and small else None
    rows = here.estimate or 0
    if not (expected.full_scan if expected else not indexed):
        reads = f"; one of them reads about {expected.rows:,} of {rows:,} rows" if expected else ""
        return f"{side}: an index serves the key ranges of {here.table} by {key.name}{reads}"
    missing = f"no index of {here.table} begins with its key {key.name}"
    why = missing if not indexed else f"the server would not use the index of {here.table} that begins with its key {key.name}"
    limit = settings.limits.scan_rows
    if rows <= limit or settings.limits.force:
        return f"{side}: {why}, so each key range reads the whole table, about {rows:,} rows"
    hint = "analyse the table" if indexed else "add one"
    raise ScanRefused(
        f"{why}, so each key range would read the whole table, about {rows:,} rows, and scan_rows is {limit:,}; {hint},"
        f" or write force: true under the limits of connection {here.connection}"
    )
