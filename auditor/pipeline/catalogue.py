"""Read the columns and keys of many tables from the catalogue of a source, in few statements.

A statement joins a look-up of each table: a condition on several names would have MariaDB open every table of the database.
https://mariadb.com/kb/en/optimizing-for-information_schema-tables/
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sql_templates
from auditor.pipeline.events import ColumnSchema, TableSchema
from dialects import Session

AT_ONCE = 100
"""Tables that one statement asks for."""

Name = tuple[str, str]
"""Database and table."""


def find_tables(session: Session, names: Sequence[Name]) -> dict[Name, bool]:
    """Return those of the tables that are there and have rows of their own, and whether each is system-versioned. Raises EngineError."""
    return {name: bool(is_versioned) for name, is_versioned in _look_up(session, "pipeline_table", names)}


def describe_tables(session: Session, tables: dict[Name, bool]) -> dict[Name, TableSchema]:
    """Return the columns and keys of tables that are there, of which it is given whether each is system-versioned. Raises EngineError."""
    names = list(tables)
    columns: dict[Name, list[tuple[Any, ...]]] = {}
    keys: dict[Name, list[tuple[Any, ...]]] = {}
    for found, template in ((columns, "pipeline_columns"), (keys, "pipeline_keys")):
        for name, *values in _look_up(session, template, names):
            found.setdefault(name, []).append(tuple(values))
    return {name: _schema(name, columns[name], keys.get(name, []), tables[name]) for name in names if name in columns}


def _schema(name: Name, columns: Sequence[tuple[Any, ...]], key: Sequence[tuple[Any, ...]], is_versioned: bool) -> TableSchema:
    ordered = sorted(columns, key=lambda column: int(column[0]))
    ends = {str(column) for _, column, _, _, is_end in ordered if is_end}
    if is_versioned:  # the end of a row's period may be a column that the catalogue does not list
        ends |= {str(column) for _, column in key} - {str(column) for _, column, *_ in ordered}
    described = tuple(ColumnSchema(str(column), str(native), bool(null)) for _, column, native, null, _ in ordered)
    in_key = [str(column) for _, column in sorted(key, key=lambda part: int(part[0]))]
    return TableSchema(*name, described, tuple(column for column in in_key if column not in ends))


def _look_up(session: Session, template: str, names: Sequence[Name]) -> Iterator[tuple[Any, ...]]:
    """Yield for each row of a template the name of its table, and what follows. None has a name with letters of other cases."""
    literal, text = session.dialect.names.literal, session.dialect.template(template)
    for first in range(0, len(names), AT_ONCE):
        asked = names[first : first + AT_ONCE]
        statements = (
            sql_templates.fill(text, {"number": str(number), "schema": literal(database), "table": literal(table)}).rstrip()
            for number, (database, table) in enumerate(asked)
        )
        joined = sql_templates.fill(session.dialect.template("pipeline_listed"), {"statements": "\nUNION ALL\n".join(statements)})
        for number, database, table, *values in session.query_listed(joined):
            if asked[int(number)] == (str(database), str(table)):
                yield asked[int(number)], *values
