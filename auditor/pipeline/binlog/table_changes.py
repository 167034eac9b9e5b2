"""Say of each table that is read what a statement does to it."""

from __future__ import annotations

from auditor.pipeline.binlog.ddl import ChangeBody, Changes, Name, Op
from auditor.pipeline.binlog.selection import COPIES, Selection

ALL_TABLES = "*"
"""Stands for all tables of a database that was dropped."""


def changes_of(changes: Changes, selection: Selection) -> dict[Name, ChangeBody]:
    """Return the body of the note on each table that a statement changes: of those that are read, and of copies beside them."""
    bodies: dict[Name, ChangeBody] = {}
    for table, ops in changes.ops.items():
        if selection.has(*table):
            bodies[table] = _body(table, ops)
        elif (beside := selection.shadowed(*table)) and beside[1] in COPIES:
            bodies[table] = {"ops": list(ops), "beside": beside[0]}
    for table, ops in _renamed(changes, selection).items():
        body = bodies.setdefault(table, {"ops": []})
        body["ops"] += ops
        bodies[table] = {**body, **_body(table, body["ops"])}
    if changes.dropped_database:
        bodies[changes.dropped_database, ALL_TABLES] = _body((changes.dropped_database, ALL_TABLES), [{"op": "gone"}])
    return bodies


def _body(table: Name, ops: list[Op]) -> ChangeBody:
    body: ChangeBody = {"ops": list(ops)}
    if why := next((op["why"] for op in ops if op["op"] == "rows"), ""):
        body["stage"] = "statement"
        body["reason"] = f"{'.'.join(table)}: {why}; copy the table again, or skip this if the target may differ"
    elif any(op["op"] in ("clear", "create", "moved") or (op["op"] == "gone" and "to" in op) for op in ops):
        body["advances"] = True
    return body


def _renamed(changes: Changes, selection: Selection) -> dict[Name, list[Op]]:
    """Return what the renames of a statement, which happen one after the other, do to tables in the end."""
    origins: dict[Name, Name] = {}
    """By name the name that its table had before; only of names that the statement mentions."""
    gone: set[Name] = set()
    for old, new in changes.renames:
        origin = origins.pop(old, old)
        gone |= {old}
        gone -= {new}
        origins[new] = origin
    ops: dict[Name, list[Op]] = {}
    for new, origin in origins.items():
        if not selection.has(*new) or new == origin:
            continue
        beside = selection.shadowed(*origin)
        if beside and beside[0] == new[1] and beside[1] in COPIES:
            ops[new] = [{"op": "swapped", "from": ".".join(origin)}]
        elif selection.has(*origin):
            ops[new] = [{"op": "moved", "from": ".".join(origin)}]
            ops.setdefault(origin, []).extend([{"op": "gone", "to": ".".join(new)}] if origin not in origins else [])
        else:
            ops[new] = [{"op": "rows", "why": f"it is {'.'.join(origin)} since a RENAME, whose rows the pipeline does not have"}]
    for old in gone:
        if selection.has(*old) and old not in origins and old not in ops:
            ops[old] = [{"op": "gone"}]
    return {table: some for table, some in ops.items() if some}
