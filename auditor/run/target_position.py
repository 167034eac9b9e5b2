"""Where a target says that it stands in the stream of a table: in a table of positions, or by a number that each commit carries."""

from __future__ import annotations

from auditor.sql.merge import POSITIONS, Positions
from dialects import Session
from dialects.committing import Committing


def mark_name(pipeline: str, table: str) -> str:
    """Return under which name a commit carries the position of a table of the source, ``database.table``."""
    return f"auditor/{pipeline}/{table}"


def read_position(session: Session, place: tuple[str, str], pipeline: str, table: str) -> int:
    """Return up to which position a target, as the session's snapshot shows it, holds a table of the source; 0 if it holds nothing.

    ``place`` is the table's schema and name there. Raises EngineError.
    """
    if isinstance(session, Committing):
        return session.read_marks(place, (mark_name(pipeline, table),))[0]
    rows = session.query(Positions(session.dialect, place[0], pipeline).list())
    return next((int(position) for name, position, _ in rows if str(name) == table), 0)


def name_positions(session: Session, schema: str) -> str:
    """Return what the audit's user needs to read for that, as a clause."""
    what = "the table's metadata" if isinstance(session, Committing) else f"{schema}.{POSITIONS}"
    return f"let the audit's user read {what} there"
