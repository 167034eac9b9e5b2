"""The tables of a pipeline's source: which there are, and their columns and keys as the source's catalogue has them now.

Many are read in few statements. A statement joins a look-up of each table: a condition on several names would have MariaDB open every
table of the database. https://mariadb.com/kb/en/optimizing-for-information_schema-tables/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import dialects
import sql_templates
from auditor.config import Pipeline, Settings
from auditor.pipeline.events import ColumnSchema, TableSchema
from auditor.pipeline.kafka.topic_cluster import TopicCluster
from dialects import Place, Session, Table

AT_ONCE = 100
"""Tables that one statement asks for."""

Name = tuple[str, str]
"""Database and table."""


def list_source_tables(settings: Settings, name: str) -> list[str]:
    """Return what a pipeline's source calls its tables now, ``database.table``. Raises EngineError and BrokerError."""
    pipeline = settings.pipeline(name)
    if pipeline.topic_source:
        return sorted(pipeline.topic_source.table_of(topic) for topic in TopicCluster(settings, pipeline.topic_source).find())
    connection = settings.connections[pipeline.of_log("a log").connection]
    with closing(dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)) as session:
        return [".".join(table) for table in list_tables(session, pipeline)]


def home_of(session: Session) -> str:
    """Return the database in which names of tables without one are looked up; '' for none. Raises EngineError."""
    return str(session.query("SELECT DATABASE()")[0][0] or "") if session.dialect.CHANGE_STREAM == "binlog" else ""


def list_tables(session: Session, pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return the databases and names of the pipeline's tables; what has no rows of its own, as a view, is passed by. Raises EngineError."""
    if session.dialect.CHANGE_STREAM != "binlog":
        return [
            (table.schema, table.name)
            for table in session.dialect.catalogue.list_tables(session)
            if not table.is_view and pipeline.replicates(table.name)
        ]
    home = home_of(session)
    tables = [(str(database), str(name)) for database, name, _ in session.query_listed(_statement(session, "pipeline_tables"))]
    return sorted((database, name) for database, name in tables if pipeline.replicates(name, database, home))


def list_versioned(session: Session) -> set[str]:
    """Return the system-versioned tables of the server, as ``database.table``."""
    if session.dialect.CHANGE_STREAM != "binlog":
        return set()
    return {
        f"{database}.{name}"
        for database, name, is_versioned in session.query_listed(_statement(session, "pipeline_tables"))
        if is_versioned
    }


def read_schemas(session: Session, pipeline: Pipeline) -> dict[str, TableSchema]:
    """Return the columns of the pipeline's tables as the source's catalogue has them, by ``database.table``. Raises EngineError."""
    tables = list_tables(session, pipeline)
    if session.dialect.CHANGE_STREAM == "binlog":
        versioned = list_versioned(session)
        described = _describe_tables(session, {name: ".".join(name) in versioned for name in tables})
        return {".".join(name): described[name] for name in tables if name in described}
    found = {f"{database}.{name}": _describe(session, database, name) for database, name in tables}
    return {name: schema for name, schema in found.items() if schema is not None}


def read_some(session: Session, pipeline: Pipeline, tables: Sequence[str]) -> dict[str, TableSchema]:
    """Return the columns of tables, ``database.table``, as `read_schemas` does, without those that are not the pipeline's.

    Raises EngineError.
    """
    home, names = home_of(session), [(database, name) for database, _, name in (table.partition(".") for table in tables)]
    there = _find_tables(session, [(database, name) for database, name in names if pipeline.replicates(name, database, home)])
    return {".".join(name): schema for name, schema in _describe_tables(session, there).items()}


def _describe(session: Session, database: str, name: str) -> TableSchema | None:
    tables = session.dialect.catalogue.describe(session, Place((database, name)))
    alike = [table for table in tables if table.names[-2:] == (database, name)]  # and none whose name has letters of other cases
    return _schema_of_table(database, name, alike[0]) if alike else None


def _schema_of_table(database: str, name: str, table: Table) -> TableSchema:
    columns = tuple(
        ColumnSchema(column.name, re.sub(r" character set \w+$", "", column.native), column.nullable) for column in table.columns
    )
    return TableSchema(database, name, columns, table.primary_key)


def _find_tables(session: Session, names: Sequence[Name]) -> dict[Name, bool]:
    """Return those of the tables that are there and have rows of their own, and whether each is system-versioned. Raises EngineError."""
    return {name: bool(is_versioned) for name, is_versioned in _look_up(session, "pipeline_table", names)}


def _describe_tables(session: Session, tables: dict[Name, bool]) -> dict[Name, TableSchema]:
    """Return the columns and keys of tables that are there, of which it is given whether each is system-versioned. Raises EngineError."""
    names = list(tables)
    columns: dict[Name, list[tuple[Any, ...]]] = {}
    keys: dict[Name, list[tuple[Any, ...]]] = {}
    for found, template in ((columns, "pipeline_columns"), (keys, "pipeline_keys")):
        for name, *values in _look_up(session, template, names):
            found.setdefault(name, []).append(tuple(values))
    return {name: _schema_of_rows(name, columns[name], keys.get(name, []), tables[name]) for name in names if name in columns}


def _schema_of_rows(name: Name, columns: Sequence[tuple[Any, ...]], key: Sequence[tuple[Any, ...]], is_versioned: bool) -> TableSchema:
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


def _statement(session: Session, template: str) -> str:
    return sql_templates.fill(session.dialect.template(template), {})
