"""The block ``source`` of a change, which says where in which log it stands, and the names that it and the schemas have from a pipeline."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import SOURCE_FIELDS
from auditor.pipeline.events import FIRST_MESSAGES, OFFSET_BITS, TableSchema
from auditor.pipeline.messages import byte_texts
from auditor.pipeline.messages.connect_schemas import Schema, struct

Number = TypeVar("Number", int, np.ndarray)
"""A position, or many of them."""

SNAPSHOT = ("true", "first", "first_in_data_collection", "last_in_data_collection", "last", "false", "incremental")


@dataclass(frozen=True, slots=True)
class Names:
    """What messages say of the pipeline that writes them."""

    prefix: str
    """Debezium's ``topic.prefix``: the name of the source, with which schemas' names begin."""
    version: str
    """The version of the auditor."""
    connector: str = "mysql"
    """``mysql`` or ``mariadb``."""
    server_id: int = 0
    """The server whose log is read."""
    log_name: str = "binlog"
    """The name of the log's files without their number."""

    def of_table(self, schema: TableSchema, part: str) -> str:
        """Return the name of a table's schema: ``shop.crm.orders.Key``."""
        return f"{self.prefix}.{schema.database}.{schema.table}.{part}"

    @property
    def schema(self) -> Schema:
        """The schema of the block."""
        long, text = Schema("int64"), Schema("string")
        kinds = {name: Schema("string", optional=True) for name in ("sequence", "table", "gtid", "query")}
        kinds |= {name: Schema("int64", optional=True) for name in ("ts_us", "ts_ns", "thread")}
        kinds |= dict.fromkeys(("version", "connector", "name", "db", "file"), text)
        kinds |= dict.fromkeys(("ts_ms", "server_id", "pos"), long)
        kinds["row"] = Schema("int32")
        allowed = (("allowed", ",".join(SNAPSHOT)),)
        kinds["snapshot"] = Schema("string", True, "io.debezium.data.Enum", 1, parameters=allowed, default="false")
        fields = {name: kinds[name] for name in SOURCE_FIELDS}
        return struct(f"io.debezium.connector.{self.connector}.Source", fields, version=1)

    def block(self, database: str, table: str | None, gtid: str | None, position: int, micros: int) -> dict[str, Any]:
        """Return the block of one change that is none of a row."""
        given = {"version": self.version, "connector": self.connector, "name": self.prefix, "ts_ms": micros // 1000, "snapshot": "false"}
        given |= {"db": database, "ts_us": micros, "ts_ns": micros * 1000, "table": table, "server_id": self.server_id, "gtid": gtid}
        given |= {"file": f"{self.log_name}.{file_number(position):06d}", "pos": position & ((1 << OFFSET_BITS) - 1), "row": 0}
        return {name: given.get(name) for name in SOURCE_FIELDS}


def file_number(positions: Number) -> Number:
    """Return the numbers of the files of positions; those of messages that a pipeline read in topics are counted from 0."""
    return positions >> OFFSET_BITS & (FIRST_MESSAGES - 1)


class SourceBlocks:
    """The blocks of a batch of events of one table, field by field, as JSON."""

    def __init__(self, names: Names, schema: TableSchema, events: pa.RecordBatch) -> None:
        micros = events["time"].cast(pa.int64())
        positions = events["position"].to_numpy()
        files = _numbered(file_number(positions), f'"{json.dumps(names.log_name)[1:-1]}.')
        us = pc.cast(micros, pa.string())
        milliseconds = pa.array(micros.to_numpy() // 1000).cast(pa.string())
        is_read = pc.is_in(events["kind"], pa.array(["refresh", "absent"]))

        def constant(value: Any) -> pa.Scalar:
            return pa.scalar(json.dumps(value, ensure_ascii=False))

        self.fields: dict[str, pa.Array | pa.Scalar] = {
            "version": constant(names.version),
            "connector": constant(names.connector),
            "name": constant(names.prefix),
            "ts_ms": milliseconds,
            "snapshot": pc.if_else(is_read, '"incremental"', '"false"'),
            "db": constant(schema.database),
            "sequence": constant(None),
            "ts_us": us,
            "ts_ns": pc.binary_join_element_wise(us, pa.scalar("000"), ""),
            "table": constant(schema.table),
            "server_id": constant(names.server_id),
            "gtid": pc.fill_null(byte_texts.quote(events["gtid"]), "null"),
            "file": files,
            "pos": pa.array(positions & ((1 << OFFSET_BITS) - 1)).cast(pa.string()),
            "row": events["row"].cast(pa.string()),
            "thread": constant(None),
            "query": constant(None),
        }

    def json(self, count: int) -> pa.Array:
        """Return the blocks."""
        return join_object({name: self.fields[name] for name in SOURCE_FIELDS}, count)


def _numbered(numbers: np.ndarray, before: str) -> pa.Array:
    """Return the names of files as JSON, each number of six digits at least."""
    unique, places = np.unique(numbers, return_inverse=True)
    return pa.array([f'{before}{number:06d}"' for number in unique], pa.string()).take(pa.array(places))


def join_object(fields: dict[str, pa.Array | pa.Scalar], count: int) -> pa.Array:
    """Return JSON objects of fields, whose values are JSON; text that all rows have in common is joined once."""
    parts: list[pa.Array | pa.Scalar] = []
    text = "{"
    for number, (name, values) in enumerate(fields.items()):
        text += f"{',' if number else ''}{json.dumps(name, ensure_ascii=False)}:"
        if isinstance(values, pa.Scalar):
            text += values.as_py()
        else:
            parts += [pa.scalar(text), values]
            text = ""
    if not parts:
        return pa.array([text + "}"] * count, pa.string())
    return pc.binary_join_element_wise(*parts, pa.scalar(text + "}"), "")
