"""Ask the source's catalogue what rows have in the columns of a new schema, for columns of which no statement says it."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import Any

from auditor.config import Settings
from auditor.errors import AuditorError
from auditor.pipeline.binlog.column_default import Value, added_value
from auditor.pipeline.binlog.dump import Source, query
from auditor.pipeline.binlog.sql_tokens import tokens
from auditor.pipeline.events import TableSchema
from auditor.pipeline.watch import source_of
from dialects.mysql.session import server_version

log = logging.getLogger(__name__)

COLUMNS = """\
SELECT column_name, column_type, is_nullable, column_default, extra, generation_expression
FROM information_schema.columns WHERE table_schema = '{database}' AND table_name = '{table}'"""


def read_values(settings: Settings, name: str, schema: TableSchema) -> dict[str, Value] | None:
    """Return what `added_value` says of each column of a pipeline's table, by the target's names.

    None if the table has other columns by now, or the source cannot be asked: nothing waits for it.
    """
    rules = settings.pipeline(name).columns_of(schema.table)
    excluded, renamed = {column.lower() for column in rules.exclude}, {old.lower(): new for old, new in rules.rename.items()}
    try:
        rows = _read(source_of(settings, name), schema)
    except AuditorError as error:
        extra = {"action": "catalogue_unread", "pipeline": name, "table": f"{schema.database}.{schema.table}"}
        log.warning("%s: the catalogue's columns of %s cannot be read: %s", name, schema.table, error, extra=extra)
        return None
    values = {renamed.get(column.lower(), column): value for column, value in rows.items() if column.lower() not in excluded}
    masked = {renamed.get(column.lower(), column).lower() for column in rules.mask}
    if {column.lower() for column in values} != {column.name.lower() for column in schema.columns}:
        return None
    return {column: value for column, value in values.items() if column.lower() not in masked}


def _read(source: Source, schema: TableSchema) -> dict[str, Value]:
    names = {"database": _quoted(schema.database), "table": _quoted(schema.table)}
    with closing(source.connect()) as connection:
        is_bare = "mariadb" not in server_version(connection).lower()  # MariaDB writes defaults as a statement does
        rows = [[None if value is None else _text(value) for value in row] for row in query(connection, COLUMNS.format(**names))]
    return {str(row[0]): _value(row[1:], is_bare) for row in rows}


def _value(row: list[str | None], is_bare: bool) -> Value:
    kind, nullable, default, extra, computed = row
    extra = (extra or "").lower()
    if computed:
        return {"unknown": "it is computed from other columns"}
    if "auto_increment" in extra:
        return {"unknown": "the server numbered its rows"}
    if "default_generated" in extra:
        return {"unknown": "its default is an expression"}
    definition = f"{kind}{' NOT NULL' if nullable == 'NO' else ''}"
    if default is not None and is_bare and "binary" in str(kind) and default.startswith("0x"):
        definition += f" DEFAULT {default}"  # MySQL shows bytes by their digits
    elif default is not None:
        definition += f" DEFAULT '{_quoted(default)}'" if is_bare and not default.startswith("b'") else f" DEFAULT {default}"
    return added_value(tokens(definition))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
