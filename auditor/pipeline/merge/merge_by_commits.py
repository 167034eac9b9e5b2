"""Merge into tables that are written by commits: the position is a number that the commit itself carries.

There is no table of positions. What a target holds of a table is what the newest commit of the pipeline on this table says.
"""

from __future__ import annotations

from collections.abc import Sequence

from auditor.points import reach
from auditor.run.target_position import mark_name
from auditor.sql.merge import Bound, MergeStatements
from dialects import Session
from dialects.committing import Commit, Committing


def read_position(session: Committing, place: tuple[str, str], pipeline: str, table: str) -> tuple[int, str]:
    """Return up to which position a target holds a table of the source, and the id of the schema there; (0, '') if nothing.

    ``place`` is its schema and name there.
    """
    position, schema_id = session.read_marks(place, mark_names(pipeline, table))
    return (position, f"{schema_id:012x}") if position else (0, "")


def read_incarnation(session: Committing, place: tuple[str, str], pipeline: str, table: str) -> str:
    """Return the incarnation of the pipeline that wrote a table; '' if it carries none."""
    [number] = session.read_marks(place, (_life(pipeline, table),))
    return f"{number:014x}" if number else ""


def _life(pipeline: str, table: str) -> str:
    return f"{mark_name(pipeline, table)}/incarnation"


def mark_names(pipeline: str, table: str) -> tuple[str, str]:
    """Return under which names a commit carries its position and the number of its schema."""
    name = mark_name(pipeline, table)
    return name, f"{name}/schema"


def merge(
    session: Session,
    pipeline: str,
    statements: MergeStatements,
    attempt: str,
    before: tuple[int, str],
    after: tuple[int, str],
    incarnation: str,
    bounds: Sequence[Bound] = (),
) -> bool:
    """Merge the loaded changes of an attempt in one commit; False, and nothing merged, if the target holds something else than ``before``.

    ``before`` and ``after`` are positions with the ids of schemas, ``bounds`` the attempt's intervals of keys. Raises EngineError.
    """
    assert isinstance(session, Committing)
    marks, expected = _marks(pipeline, statements.table, before, after, incarnation)
    session.execute(statements.keep_last(attempt))
    try:
        for statement in statements.void_bounds(bounds) + statements.add_gone(bounds):
            session.execute(statement)
        reach("merge.merged")
        reach("merge.commit")
        return session.commit(
            Commit(statements.target, statements.last, statements.columns, statements.key, marks, expected, f"{statements.prefix}op")
        )
    finally:
        for statement in statements.clear():
            session.execute(statement)


def pass_by(
    session: Committing,
    place: tuple[str, str],
    pipeline: str,
    table: str,
    before: tuple[int, str],
    after: tuple[int, str],
    *,
    clear: bool,
    incarnation: str = "",
) -> bool:
    """Set the position of a table by a commit that changes no row, or with ``clear`` deletes all; False if it is not ``before``.

    Raises EngineError.
    """
    marks, expected = _marks(pipeline, table, before, after, incarnation)
    return session.mark(place, marks, expected, clear=clear)


def rewrite(
    session: Committing,
    target: str,
    pipeline: str,
    table: str,
    before: tuple[int, str],
    after: tuple[int, str],
    *,
    rows: str,
    incarnation: str = "",
) -> bool:
    """Put the rows of a SELECT in place of those of ``target`` (SQL text) by one commit with its position; False if it is not ``before``.

    Raises EngineError.
    """
    return session.rewrite(target, rows, *_marks(pipeline, table, before, after, incarnation))


def forget(session: Committing, place: tuple[str, str], pipeline: str, table: str) -> None:
    """Let a target forget where it stands in a table's stream, by a commit that changes no row. Raises EngineError."""
    session.mark(place, dict.fromkeys((*mark_names(pipeline, table), _life(pipeline, table)), 0), {})


def _marks(
    pipeline: str, table: str, before: tuple[int, str], after: tuple[int, str], incarnation: str
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers that a commit carries, and those that the table carries before it."""
    names = mark_names(pipeline, table)
    marks, expected = (dict(zip(names, _numbers(*held), strict=True)) for held in (after, before))
    marks[_life(pipeline, table)] = int(incarnation or "0", 16)
    return marks, expected


def _numbers(position: int, schema_id: str) -> tuple[int, int]:
    return position, int(schema_id or "0", 16)
