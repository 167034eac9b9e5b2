"""Bytes of keys and values: JSON alone or with its schema, or what a registry's identifier says how to read (Confluent's wire format).

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import MessageSettings
from auditor.pipeline.messages import connect_schemas
from auditor.pipeline.messages.connect_schemas import Schema, compact
from dialects import extras

Register = Callable[[str, str], int]
"""Registers a schema's text for ``key`` or ``value`` of a topic, and returns its identifier."""

MAGIC = 0
"""The first byte of a message whose next four are a schema's identifier."""


def schema_text(schema: Schema, settings: MessageSettings) -> str:
    """Return a schema as a registry has it. Raises ColumnRefused if Avro allows no names for it."""
    return compact(connect_schemas.to_avro(schema) if settings.format == "avro" else connect_schemas.to_json_schema(schema))


class PayloadWriter:
    """Writes keys or values of one schema. With a registry the schema is registered at once."""

    def __init__(self, schema: Schema, settings: MessageSettings, part: str, register: Register | None = None) -> None:
        self.schema = schema
        self._avro: Any = None
        self._head, self._tail = b"", b""
        if settings.has_registry:
            if register is None:
                raise ValueError(f"format: {settings.format} needs a registry")
            self._head = struct.pack(">bI", MAGIC, register(part, schema_text(schema, settings)))
        elif settings.schemas:
            embedded = compact(connect_schemas.to_connect(schema))
            self._head, self._tail = f'{{"schema":{embedded},"payload":'.encode(), b"}"
        if settings.format == "avro":
            extras.require("Avro", "kafka")
            import fastavro

            self._avro = fastavro.parse_schema(connect_schemas.plain_avro(connect_schemas.to_avro(schema)))

    @property
    def is_avro(self) -> bool:
        """Whether it writes Avro, of Python's values; otherwise JSON, of texts."""
        return self._avro is not None

    def write_texts(self, payloads: pa.Array) -> pa.Array:
        """Return messages of payloads in JSON; NULL stays NULL."""
        payloads = payloads.cast(pa.binary())
        if not self._head:
            return payloads
        return pc.binary_join_element_wise(pa.scalar(self._head), payloads, pa.scalar(self._tail), pa.scalar(b""))

    def write_values(self, payloads: list[Any]) -> pa.Array:
        """Return messages of payloads that are Python's values, whose names are Avro's if Avro is written; None stays None."""
        if not self.is_avro:
            return self.write_texts(pa.array([None if one is None else compact(one) for one in payloads], pa.string()))
        import fastavro

        found: list[bytes | None] = []
        for payload in payloads:
            if payload is None:
                found.append(None)
                continue
            content = io.BytesIO()
            content.write(self._head)
            fastavro.schemaless_writer(content, self._avro, payload)
            found.append(content.getvalue())
        return pa.array(found, pa.binary())

    def write(self, payload: Any) -> bytes:
        """Return one message of Python's values."""
        return bytes(self.write_values([payload])[0].as_py())
