"""The parts of MergeTree tables, one by one: a part never changes, as merges, mutations and deletes write others in its place.

Only tables are read so whose rows are those of their parts and nothing else: FINAL makes rows of several parts, and replicas have others at
other times. There is no snapshot, so a part that was read has to be there still afterwards.

https://clickhouse.com/docs/operations/system-tables/parts
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from dialects import errors
from dialects.clickhouse.catalogue import engine_name
from dialects.data_files import DataFile, DataFiles, Rows

LOOKS = 5
"""How often parts are listed until they are the same before and after the rows were counted."""

PATCH = "patch-"
"""Begins the names of parts that change rows of others. https://clickhouse.com/docs/sql-reference/statements/update"""

PART = "_part"
"""The column of each row that says in which part it is."""

_LITERAL = re.compile(r"-?\d+(\.\d+)?|'(?:[^'\\]|\\.)*'|NULL|true|false", re.IGNORECASE)
"""Default values that are the same at every reading."""


class MergeTreeParts(DataFiles):
    """The active parts of a table that is a MergeTree of one server."""

    TRUSTS = "a part of the same name, hash, rows and size of a table has the same rows under the same definition of the table"

    def why_none(self, session: Any, table: str) -> str:
        engine, *_ = _about(session, table)
        if engine == "MergeTree":
            return ""
        if engine_name(engine) == "MergeTree":
            return f"{table} is a table of the engine {engine}, each replica of which has other parts at other times"
        if engine_name(engine).endswith("MergeTree"):
            return f"{table} is a table of the engine {engine}, which makes rows of several parts"
        return f"{table} is a table of the engine {engine or 'that is unknown'}, and only those of MergeTree consist of parts"

    def list_files(self, session: Any, table: str) -> Sequence[DataFile]:
        engine, definition, uuid = _about(session, table)
        if not engine:
            raise errors.NoSuchObject(f"{table}: there is no such table any more")
        holes = _holes(session, table)
        if session.query(session.dialect.catalogue_query("has_column", {**holes, "column": f"'{PART}'"})):
            raise errors.StatementRefused(f"{table} has a column {PART}, by which parts are told apart; remove files: kept")
        parts = _list_consistently(session, table, holes)
        if patched := [name for name, *_ in parts if str(name).startswith(PATCH)]:
            raise errors.StatementRefused(
                f"{table} has {len(patched):,} parts that change rows of others ({patched[0]}), which are not read one by one; run"
                " OPTIMIZE TABLE ... FINAL, or remove files: kept"
            )
        session.definitions[table] = definition
        [(server,)] = session.query("SELECT toString(serverUUID())")
        where = [str(server), uuid, holes["schema"], holes["table"]]
        return [
            DataFile(str(name), json.dumps([*where, str(name), str(digest), int(rows), int(size)]), int(size), int(rows))
            for name, digest, rows, size, _ in parts
        ]

    def reading(self, session: Any, table: str, statement: str) -> str:
        _refuse_computed(session, table, statement.lower())
        return json.dumps([session.definitions[table]])

    def show(self, session: Any, table: str, files: Sequence[DataFile], number: str, rows: Rows) -> str:
        columns = session.query_listed(session.dialect.catalogue_query("column_names", _holes(session, table)))
        names = session.dialect.names
        listed = ", ".join(names.string_literal(file.path) for file in files)
        values = ", ".join(names.quote(str(name)) for (name,) in columns)
        place = f"toInt64(indexOf([{listed}], {PART})) - 1"
        return f"(SELECT {values}, {place} AS {number} FROM {table} WHERE {PART} IN ({listed}))"

    def confirm(self, session: Any, table: str, files: Sequence[DataFile]) -> None:
        there = {str(name) for name, *_ in _list(session, _holes(session, table))}
        _, definition, _ = _about(session, table)
        if gone := [file.path for file in files if file.path not in there]:
            raise errors.SerializationConflict(
                f"{table}: parts were merged or dropped while they were read ({gone[0]}); it is tried again with the parts that are there"
                " then: run the audit while fewer rows are inserted"
            )
        if definition != session.definitions[table]:
            raise errors.SerializationConflict(f"{table} was altered while its parts were read; it is tried again")


def _holes(session: Any, table: str) -> dict[str, str]:
    """Return the names of a table's database and of itself as literals, of its name as SQL text."""
    names = [re.sub(r"\\(.)", r"\1", name) for name in re.findall(r'"((?:[^"\\]|\\.)*)"', table)]
    literal = session.dialect.names.string_literal
    return {"schema": literal(names[0]) if len(names) > 1 else "currentDatabase()", "table": literal(names[-1])}


def _about(session: Any, table: str) -> tuple[str, str, str]:
    """Return a table's engine, its definition, and its id; empty texts if there is none."""
    rows = session.query(session.dialect.catalogue_query("definition", _holes(session, table)))
    return (str(rows[0][0]), str(rows[0][1]), str(rows[0][2])) if rows else ("", "", "")


def _list(session: Any, holes: dict[str, str]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = session.query_listed(session.dialect.catalogue_query("parts", holes))
    return found


def _list_consistently(session: Any, table: str, holes: dict[str, str]) -> list[tuple[Any, ...]]:
    """Return the parts of a table while all that was asked of it is done, and no row is hidden from this user.

    Raises StatementRefused, and SerializationConflict for a table that is written all the time.
    """
    for _ in range(LOOKS):
        if waiting := session.query(session.dialect.catalogue_query("mutations", holes)):
            raise errors.SerializationConflict(
                f"{table} has a mutation that is not done ({waiting[0][0]}), whose parts are not read one by one; it is tried again"
            )
        parts = _list(session, holes)
        unmasked = " SETTINGS apply_deleted_mask = 0" if any(deleted for *_, deleted in parts) else ""
        [(count,)] = session.query(f"SELECT count() FROM {table}{unmasked}")
        if parts == _list(session, holes):
            break
    else:
        raise errors.SerializationConflict(f"{table} got other parts each time that they were listed; it is tried again")
    rows = sum(int(part[2]) for part in parts)
    if int(count) != rows:
        raise errors.StatementRefused(
            f"{table} has {rows:,} rows in its parts, and {int(count):,} for this user: a row policy hides some, or system.parts does not"
            " show all; grant the user what is missing, or remove files: kept"
        )
    return parts


def _refuse_computed(session: Any, table: str, statement: str) -> None:
    """Raise StatementRefused for columns whose values are not stored in the parts, and can be others at each reading."""
    holes = _holes(session, table)
    for name, kind, expression in session.query_listed(session.dialect.catalogue_query("computed_columns", holes)):
        spelt = (str(name).lower(), session.dialect.names.quote(str(name))[1:-1].lower())  # which differ if it has quotes or backslashes
        is_read = any(re.search(rf"(?<!\w){re.escape(one)}(?!\w)", statement) for one in spelt)
        if not is_read or _LITERAL.fullmatch(str(expression)):
            continue
        if str(kind) == "ALIAS":
            raise errors.StatementRefused(f"{table}: {name} is an ALIAS, computed at each reading; exclude it, or remove files: kept")
        column = {**holes, "column": session.dialect.names.string_literal(str(name))}
        [(without,)] = session.query(session.dialect.catalogue_query("parts_without_column", column))
        if int(without):
            raise errors.StatementRefused(
                f"{table}: {int(without):,} parts are older than the column {name}, whose default ({expression}) is computed at each"
                f" reading of them; run ALTER TABLE ... MATERIALIZE COLUMN {name}, or exclude it"
            )
