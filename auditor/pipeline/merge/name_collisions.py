"""Which tables of a source would be one table of a target, so that each would delete the other's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from auditor.errors import TableStopped
from auditor.pipeline.merge.positions import Held, Where, read_positions
from auditor.pipeline.merge.target_table import folding
from auditor.pipeline.table_ops import ops_of
from auditor.sql.merge import is_own_table
from auditor.store import parts, table_notes
from dialects import Session

PlaceOf = Callable[[str], tuple[str, str]]
"""Returns the schema and the name that a table of the source, ``database.table``, has in the target."""


def check_place(
    session: Session, where: Where, table: str, held: Held, is_moved: bool, alike: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Check that a table's place in the target is its own. Raises TableStopped.

    A table whose rows the target has goes on, and the one stops that came later; neither goes on where the target has rows of none.
    ``is_moved`` says that the table is about to be renamed in the target as it was in the source; ``alike`` is what `find_alike` found,
    where somebody has asked it.
    """
    found = find_alike(folding(session), where.place, parts.list_tables(where.store, where.pipeline)) if alike is None else alike
    others = found.get(table, ())
    if is_own_table(where.place(table)[1]):
        raise TableStopped(describe_shared(where.target, where.place, table, ()))
    if not others:
        return
    positions = read_positions(session, where)
    renamed = _renamed(where, table, others)
    rivals = [one for one in others if not (is_moved and one in renamed)]
    if wrong := [one for one in rivals if positions.get(one, Held()).schema_id or not (held.schema_id or one in renamed)]:
        raise TableStopped(describe_shared(where.target, where.place, table, wrong))


def find_alike(fold: Callable[[str], str], place_of: PlaceOf, tables: Iterable[str]) -> dict[str, list[str]]:
    """Return by table the other tables that would be one with it in the target; nothing of those that have places of their own.

    ``fold`` returns names so that two are equal if they are one.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for table in tables:  # a server is asked only where that can make a difference
        found.setdefault(tuple(name.lower() for name in place_of(table)), []).append(table)
    alike: dict[str, list[str]] = {}
    for some in found.values():
        names = {table: tuple(fold(name) for name in place_of(table)) for table in some if len(some) > 1}
        for table, name in names.items():
            if others := [other for other, one in names.items() if other != table and one == name]:
                alike[table] = others
    return alike


def describe_shared(target: str, place_of: PlaceOf, table: str, others: Sequence[str]) -> str:
    """Return why a table has no place of its own, and what gives it one."""
    schema, name = place_of(table)
    rest = table.partition(".")[2]
    way_out = (
        f"give it a name of its own: targets: {{{target}: {{tables: {{{table}: {{name: {rest}_2}}}}}}}}, or all of them by"
        f" {target}: {{table: '{{database}}_{{table}}'}} or {{schema: '{{database}}'}}"
    )
    if not others:
        return f"{table} would be {schema}.{name} in the target {target}, where the pipeline has a table of its own; {way_out}"
    return f"{table} and {' and '.join(sorted(others))} would be one table of the target {target}, {schema}.{name}; {way_out}"


def _renamed(where: Where, table: str, others: Iterable[str]) -> set[str]:
    """Return those of the other tables that the source renamed to this one, or this one to them."""
    notes = table_notes.list_notes(where.store, where.pipeline, [table, *others], kind="change")
    moves = {frozenset((note.table, op["from"])) for note in notes for op in ops_of(note.body) if op["op"] == "moved"}
    return {one for one in others if frozenset((table, one)) in moves}
