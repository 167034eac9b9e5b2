"""Check that the chunks of a plan are read as they may be, before they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from auditor.connections.reader import Reader
from auditor.model import Plan, Side
from auditor.planning import index_check
from auditor.run.chunk_queue import ChunkQueue
from auditor.sql import render
from dialects import Session


def check_chunks(reader: Reader, plan: Plan, sides: Sequence[Side] = ()) -> Plan:
    """Return the plan with notes on how its chunks are read, those of ``sides`` or of all.

    Raises ScanRefused if no index serves those of a large table.
    """
    notes = [reader.ask_side(side, lambda shard, session: _check(reader, plan, shard, session)) for side in sides]
    if not sides:
        notes = list(reader.ask_each(lambda side, session: _check(reader, plan, side, session)).values())
    return replace(plan, notes=(*plan.notes, *(note for note in notes if note)))


def _check(reader: Reader, plan: Plan, side: Side, session: Session) -> str | None:
    first = ChunkQueue.of_plan(plan, side).take() if plan.sides[side].chunk_keys else None
    statement = render.summary(plan, side, session.dialect, first) if first else ""
    return index_check.check_scan(plan, side, session, reader.sides[side].settings, statement)
