"""Count the rows of a table by a statement in whose scope is nothing else, and hold what was summarised against that."""

from __future__ import annotations

from collections.abc import Sequence

import sql_templates
from auditor.errors import ReadingContradicted
from auditor.model import Chunk, Plan, Side
from auditor.sql import render
from auditor.sql.user_sql import checked
from dialects import Session


def hold_count(plan: Plan, side: Side, pieces: Sequence[Sequence[Chunk]], rows: int, session: Session) -> bool:
    """Hold the rows that were summarised of a table, or of ranges of its keys, against a count of them: one statement a piece.

    Return False if they cannot be, because the table changes: a second count is another. Raises ReadingContradicted.
    """
    here = plan.sides[side]
    if _is_counted(plan, side, pieces, rows, session):
        return True
    first, second = (_count(plan, side, pieces, session) for _ in range(2))
    if first != second:
        return False
    total, met, unmet, unknown = first
    where = " in the keys that were chosen" if any(pieces) else ""
    if total == met + unmet + unknown and met == rows:
        return False  # it changed once
    filtered = f" ({met:,} meet the filter, {unmet:,} do not, of {unknown:,} it is unknown)" if here.conditions else ""
    raise ReadingContradicted(
        f"{side}: the run read {rows:,} rows{where}, and a bare count finds {total:,}{filtered}, so nothing is claimed about the tables;"
        " look for a setting of the server, or something between, that cuts results, and report a bug if there is none"
    )


def _is_counted(plan: Plan, side: Side, pieces: Sequence[Sequence[Chunk]], rows: int, session: Session) -> bool:
    total, met, unmet, unknown = _count(plan, side, pieces, session)
    return met == rows and total == met + unmet + unknown


def _count(plan: Plan, side: Side, pieces: Sequence[Sequence[Chunk]], session: Session) -> tuple[int, ...]:
    """Return how many rows there are, and how many meet the filter, do not, and leave it unknown."""
    counted = [_count_piece(plan, side, ranges, session) for ranges in pieces]
    return tuple(map(sum, zip(*counted, strict=True)))


def _count_piece(plan: Plan, side: Side, ranges: Sequence[Chunk], session: Session) -> tuple[int, int, int, int]:
    here, dialect = plan.sides[side], session.dialect
    within = " OR ".join(f"({_within(plan, side, key_range)})" for key_range in ranges) or "1 = 1"
    if not here.conditions:
        total = int(session.query_row(render.count(dialect, here.table, within))[0])
        return total, total, 0, 0
    condition = " AND ".join(f"({text})" for text in here.conditions)
    holes = {"table": here.table, "within": within, "condition": f"({condition})"}
    total, met, unmet, unknown = session.query_row(checked(sql_templates.fill(dialect.template("bare_count"), holes), dialect))
    return int(total), int(met), int(unmet), int(unknown)


def _within(plan: Plan, side: Side, chunk: Chunk) -> str:
    key = plan.columns[0].expression[side]
    if chunk.null_key:
        return f"{key} IS NULL"
    bounds = [f"{key} {sign} {bound}" for sign, bound in ((">=", chunk.first), ("<", chunk.end)) if bound is not None]
    return " AND ".join([*bounds, *([f"({chunk.within})"] if chunk.within else [])]) or "1 = 1"
