"""Messages that are of no row: the beginning and end of transactions, and statements that changed tables, in Debezium's shape.

https://debezium.io/documentation/reference/3.6/connectors/mysql.html#mysql-transaction-metadata and ``#mysql-schema-change-topic``
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from auditor.config import MessageSettings
from auditor.pipeline.events import ColumnSchema, TableSchema
from auditor.pipeline.messages.column_values import labels_of
from auditor.pipeline.messages.connect_schemas import Schema, struct
from auditor.pipeline.messages.formats import PayloadWriter, Register
from auditor.pipeline.messages.source_block import Names

Message = tuple[bytes, bytes]
"""The key and the value of a message."""

_TEXT, _LONG = Schema("string"), Schema("int64")
_OPTIONAL_TEXT, _OPTIONAL_INT = Schema("string", optional=True), Schema("int32", optional=True)
_TEXTS = Schema("array", optional=True, items=_TEXT)

TRANSACTION_KEY = struct("io.debezium.connector.common.TransactionMetadataKey", {"id": _TEXT}, version=1)
TRANSACTION_VALUE = struct(
    "io.debezium.connector.common.TransactionMetadataValue",
    {
        "status": _TEXT,
        "id": _TEXT,
        "event_count": Schema("int64", optional=True),
        "data_collections": Schema(
            "array",
            optional=True,
            items=struct("event.collection", {"data_collection": _TEXT, "event_count": _LONG}, optional=True, version=1),
        ),
        "ts_ms": _LONG,
    },
    version=1,
)


class TransactionMessages:
    """Writes the messages of a topic of transactions."""

    def __init__(self, settings: MessageSettings, register: Register | None = None) -> None:
        self._key = PayloadWriter(TRANSACTION_KEY, settings, "key", register)
        self._value = PayloadWriter(TRANSACTION_VALUE, settings, "value", register)

    def begin(self, transaction: str, ts_ms: int) -> Message:
        """Return the message BEGIN of a transaction that was committed at a time in milliseconds; its name is that of `transaction_ids`."""
        return self._write("BEGIN", transaction, None, ts_ms)

    def end(self, transaction: str, counts: Mapping[str, int], ts_ms: int) -> Message:
        """Return the message END of a transaction, with the number of its events by table (``database.table``)."""
        return self._write("END", transaction, counts, ts_ms)

    def _write(self, status: str, transaction: str, counts: Mapping[str, int] | None, ts_ms: int) -> Message:
        collections = None if counts is None else [{"data_collection": name, "event_count": count} for name, count in counts.items()]
        total = None if counts is None else sum(counts.values())
        body = {"status": status, "id": transaction, "event_count": total, "data_collections": collections, "ts_ms": ts_ms}
        return self._key.write({"id": transaction}), self._value.write(body)


_COLUMN = struct(
    "io.debezium.connector.schema.Column",
    {
        "name": _TEXT, "jdbcType": Schema("int32"), "nativeType": _OPTIONAL_INT, "typeName": _TEXT, "typeExpression": _OPTIONAL_TEXT,
        "charsetName": _OPTIONAL_TEXT, "length": _OPTIONAL_INT, "scale": _OPTIONAL_INT, "position": Schema("int32"),
        "optional": Schema("boolean", optional=True), "autoIncremented": Schema("boolean", optional=True),
        "generated": Schema("boolean", optional=True), "comment": _OPTIONAL_TEXT, "defaultValueExpression": _OPTIONAL_TEXT,
        "enumValues": _TEXTS,
    },
    version=1,
)  # fmt: skip
_TABLE = struct(
    "io.debezium.connector.schema.Table",
    {
        "defaultCharsetName": _OPTIONAL_TEXT,
        "primaryKeyColumnNames": _TEXTS,
        "columns": Schema("array", items=_COLUMN),
        "comment": _OPTIONAL_TEXT,
    },
    optional=True,
    version=1,
)
_CHANGE = struct("io.debezium.connector.schema.Change", {"type": _TEXT, "id": _TEXT, "table": _TABLE}, version=1)

JDBC_TYPES = {
    "bit": -7, "tinyint": 5, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "float": 6, "double": 8, "decimal": 3, "char": 1,
    "varchar": 12, "tinytext": 12, "text": 12, "mediumtext": 12, "longtext": 12, "binary": -2, "varbinary": -3, "tinyblob": 2004,
    "blob": 2004, "mediumblob": 2004, "longblob": 2004, "date": 91, "time": 92, "datetime": 93, "timestamp": 2014, "year": 4, "enum": 1,
    "set": 1, "json": 1111,
}  # fmt: skip
"""Numbers of `java.sql.Types` that Debezium has for types; spatial ones, and all others, are OTHER (1111)."""

ChangeType = Literal["CREATE", "ALTER", "DROP"]


class SchemaChangeMessages:
    """Writes the messages of a topic of statements that changed tables."""

    def __init__(self, settings: MessageSettings, names: Names, register: Register | None = None) -> None:
        self._names = names
        package = f"io.debezium.connector.{names.connector}"
        key = struct(f"{package}.SchemaChangeKey", {"databaseName": _TEXT}, version=1)
        texts = dict.fromkeys(("databaseName", "schemaName", "ddl"), _OPTIONAL_TEXT)
        fields = {"source": names.schema, "ts_ms": _LONG, **texts, "tableChanges": Schema("array", items=_CHANGE)}
        self._key = PayloadWriter(key, settings, "key", register)
        self._value = PayloadWriter(struct(f"{package}.SchemaChangeValue", fields, version=1), settings, "value", register)

    def write(
        self,
        database: str,
        ddl: str | None,
        changes: Sequence[tuple[ChangeType, str, TableSchema | None]],
        *,
        gtid: str | None,
        position: int,
        micros: int,
        now_ns: int,
    ) -> Message:
        """Return the message of a statement at a position of the log, which was committed at a time in microseconds.

        ``changes`` are what it did: CREATE, ALTER or DROP, the table's name, and its columns after it, None after DROP. ``ddl`` is None
        where the log tells the columns alone.
        """
        table = changes[0][1] if len(changes) == 1 else None
        source = self._names.block(database, table, gtid, position, micros)
        described = [
            {"type": kind, "id": f'"{database}"."{name}"', "table": None if schema is None else _describe(schema)}
            for kind, name, schema in changes
        ]
        body = {"source": source, "ts_ms": now_ns // 1_000_000, "databaseName": database, "schemaName": None, "ddl": ddl}
        return self._key.write({"databaseName": database}), self._value.write({**body, "tableChanges": described})


def _describe(schema: TableSchema) -> dict[str, Any]:
    columns = [_describe_column(column, number) for number, column in enumerate(schema.columns, 1)]
    return {"defaultCharsetName": None, "primaryKeyColumnNames": list(schema.key), "columns": columns, "comment": None}


def _describe_column(column: ColumnSchema, position: int) -> dict[str, Any]:
    match = re.fullmatch(r"(\w+)(?:\((.*)\))?(.*)", column.type, re.DOTALL)
    assert match is not None
    base, inside, rest = match[1], match[2] or "", match[3]
    labels = labels_of(inside) if base in ("enum", "set") else None
    sizes = [int(size) for size in re.findall(r"\d+", inside)] if labels is None else [1 if base == "enum" else 2 * len(labels) - 1]
    name = f"{base}{rest}".upper()
    return {
        "name": column.name,
        "jdbcType": JDBC_TYPES.get(base, 1111),
        "nativeType": None,
        "typeName": name,
        "typeExpression": name,
        "charsetName": column.charset,
        "length": sizes[0] if sizes else None,
        "scale": sizes[1] if len(sizes) > 1 else None,
        "position": position,
        "optional": column.nullable,
        "autoIncremented": False,
        "generated": column.computed is not None,
        "comment": None,
        "defaultValueExpression": None,
        "enumValues": None if labels is None else [_quoted(label) for label in labels],
    }


def _quoted(label: str) -> str:
    return "'" + label.replace("'", "''") + "'"
