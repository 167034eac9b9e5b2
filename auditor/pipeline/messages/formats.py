"""Formats of messages: how keys and values are written as bytes and read from them, alone or with a registry (Confluent's wire format).

A format is an entry of `FORMATS`, and a name of ``format:`` (`auditor.config.MessageFormat`). How its schemas and Kafka Connect's become
each other is in `connect_schemas`. Rows as JSON are written and read by whole columns (`writing`, `bulk_reading`); those of another format
one by one, of Python's values as Avro has them (`column_values`).

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import MessageFormat, MessageSettings
from auditor.errors import MessageRefused
from auditor.pipeline.messages import connect_schemas
from auditor.pipeline.messages.connect_schemas import Schema, avro_name, compact
from dialects import extras

Register = Callable[[str, str], int]
"""Registers a schema's text for ``key`` or ``value`` of a topic, and returns its identifier."""

LookUp = Callable[[int], tuple[MessageFormat, Any, Schema]]
"""Returns the format, body and Connect schema of a registry's identifier: `SchemaRegistry.schema`."""

MAGIC = 0
"""The first byte of a message whose next four are a schema's identifier."""

IDENTIFIER = struct.Struct(">BI")
"""The bytes in front of a payload whose schema is in a registry."""


def _read_json(number: int, body: Any) -> Callable[[bytes], Any]:
    return lambda data: _loads(data[IDENTIFIER.size :])


def _read_avro(number: int, body: Any) -> Callable[[bytes], Any]:
    import fastavro

    schema = fastavro.parse_schema(connect_schemas.plain_avro(body))

    def read(data: bytes) -> Any:
        content = io.BytesIO(data)
        content.seek(IDENTIFIER.size)
        try:
            found = fastavro.schemaless_reader(content, schema, None)
        except (EOFError, IndexError, ValueError, OverflowError, UnicodeDecodeError, struct.error) as error:
            raise MessageRefused(f"no Avro of schema {number}: {str(error)[:200]}") from None
        if content.tell() != len(data):
            raise MessageRefused(f"no Avro of schema {number}: {len(data) - content.tell()} bytes are left")
        return found

    return read


def _write_avro(schema: Schema) -> Callable[[IO[bytes], Any], None]:
    extras.require("Avro", "kafka")
    import fastavro

    parsed = fastavro.parse_schema(connect_schemas.plain_avro(connect_schemas.to_avro(schema)))
    return lambda content, payload: fastavro.schemaless_writer(content, parsed, payload)


@dataclass(frozen=True, slots=True)
class Format:
    """How payloads, and their schemas in a registry, are written and read."""

    title: str
    registry_type: str = ""
    """What a registry calls schemas of the format; empty if it has none there."""
    to_schema: Callable[[Schema], Any] = connect_schemas.to_json_schema
    """Returns the body of a schema as a registry has it. Raises ColumnRefused for names that it does not allow."""
    from_schema: Callable[[Any], Schema] = connect_schemas.from_json_schema
    """Returns what the body of a registry's schema is for Connect. Raises MessageRefused for one that no table has."""
    reader: Callable[[int, Any], Callable[[bytes], Any]] = _read_json
    """Returns, of a schema's identifier and body, what reads messages that begin with it, and raises MessageRefused."""
    writer: Callable[[Schema], Callable[[IO[bytes], Any], None]] | None = None
    """Returns what writes a payload of a schema to a stream, of Python's values; None if payloads are JSON."""
    field_name: Callable[[str], str] = str
    """Returns the name that a column has in a payload."""

    @property
    def is_json(self) -> bool:
        """Whether payloads are texts of JSON, which are written and read by whole columns."""
        return self.writer is None


FORMATS: Mapping[MessageFormat, Format] = {
    "json": Format("JSON"),
    "json_schema": Format("JSON", "JSON"),
    "avro": Format("Avro", "AVRO", connect_schemas.to_avro, connect_schemas.from_avro, _read_avro, _write_avro, avro_name),
}

OF_REGISTRY: Mapping[str, MessageFormat] = {one.registry_type: name for name, one in FORMATS.items() if one.registry_type}
"""The formats by the types of their schemas in a registry."""


class PayloadWriter:
    """Writes keys or values of one schema. With a registry the schema is registered at once."""

    def __init__(self, schema: Schema, settings: MessageSettings, part: str, register: Register | None = None) -> None:
        self.schema, self.format = schema, FORMATS[settings.format]
        self._head, self._tail = b"", b""
        if settings.has_registry:
            if register is None:
                raise ValueError(f"format: {settings.format} needs a registry")
            self._head = IDENTIFIER.pack(MAGIC, register(part, compact(self.format.to_schema(schema))))
        elif settings.schemas:
            embedded = compact(connect_schemas.to_connect(schema))
            self._head, self._tail = f'{{"schema":{embedded},"payload":'.encode(), b"}"
        self._write = self.format.writer and self.format.writer(schema)

    def write_texts(self, payloads: pa.Array) -> pa.Array:
        """Return messages of payloads in JSON; NULL stays NULL."""
        payloads = payloads.cast(pa.binary())
        if not self._head:
            return payloads
        return pc.binary_join_element_wise(pa.scalar(self._head), payloads, pa.scalar(self._tail), pa.scalar(b""))

    def write_values(self, payloads: list[Any]) -> pa.Array:
        """Return messages of payloads that are Python's values, whose names are those of the format; None stays None."""
        if self._write is None:
            return self.write_texts(pa.array([None if one is None else compact(one) for one in payloads], pa.string()))
        found: list[bytes | None] = []
        for payload in payloads:
            if payload is None:
                found.append(None)
                continue
            content = io.BytesIO()
            content.write(self._head)
            self._write(content, payload)
            found.append(content.getvalue())
        return pa.array(found, pa.binary())

    def write(self, payload: Any) -> bytes:
        """Return one message of Python's values."""
        return bytes(self.write_values([payload])[0].as_py())


class PayloadReader:
    """Reads keys and values of one topic, and says which schema each has."""

    def __init__(self, settings: MessageSettings, look_up: LookUp | None = None) -> None:
        if settings.has_registry and look_up is None:
            raise ValueError(f"format: {settings.format} needs a registry")
        self._look_up, self._has_registry = look_up, settings.has_registry
        self._readers: dict[int, Callable[[bytes], Any]] = {}
        self.key, self.value = EmbeddedSchemas(), EmbeddedSchemas()

    def read_key(self, data: bytes) -> tuple[Any, Schema | None]:
        """Return what a key holds, and its schema if there is one. Raises MessageRefused."""
        return self._read_registered(data)[:2] if self._has_registry else self.key.read(data)

    def read_value(self, data: bytes) -> tuple[Any, Schema | None, Format]:
        """Return what a value holds, its schema if there is one, and its format. Raises MessageRefused."""
        return self._read_registered(data) if self._has_registry else (*self.value.read(data), FORMATS["json"])

    def _read_registered(self, data: bytes) -> tuple[Any, Schema, Format]:
        number, form, body, schema = self.registered(data)
        if number not in self._readers:
            self._readers[number] = form.reader(number, body)
        return self._readers[number](data), schema, form

    def registered(self, data: bytes) -> tuple[int, Format, Any, Schema]:
        """Return the identifier with which a key or value begins, and format, body and meaning of its schema. Raises MessageRefused."""
        if len(data) < IDENTIFIER.size or data[0] != MAGIC:
            raise MessageRefused(f"it does not begin with a registry's identifier of {IDENTIFIER.size} bytes")
        _, number = IDENTIFIER.unpack_from(data)
        assert self._look_up is not None
        name, body, schema = self._look_up(number)
        return number, FORMATS[name], body, schema


_SEPARATOR = b',"payload":'


class EmbeddedSchemas:
    """Reads JSON, with or without a schema beside it. What messages have in common before their payload is parsed once."""

    def __init__(self) -> None:
        self.head: bytes | None = None
        """The bytes before the payload of the last message with a schema; None if the schema does not come first, or there was none."""
        self.schema: Schema | None = None
        self._schemas: dict[str, Schema] = {}

    def read(self, data: bytes) -> tuple[Any, Schema | None]:
        """Return what a message holds, and the schema that it has beside it. Raises MessageRefused."""
        if self.head is not None and data.startswith(self.head) and data.endswith(b"}"):
            try:
                return json.loads(data[len(self.head) : -1]), self.schema
            except ValueError:
                pass  # not as this producer writes it, or no JSON at all: parsed as a whole
        body = _loads(data)
        if not isinstance(body, dict) or body.keys() != {"schema", "payload"}:
            return body, None
        if body["schema"] is None:
            return body["payload"], None
        text = json.dumps(body["schema"])
        if text not in self._schemas:
            self._schemas[text] = connect_schemas.from_connect(body["schema"])
        self.schema = self._schemas[text]
        self.head = self._find_head(data, body["schema"])
        return body["payload"], self.schema

    def _find_head(self, data: bytes, schema: Any) -> bytes | None:
        """Return the bytes before the payload, if the schema comes first."""
        end = data.find(_SEPARATOR)
        while end >= 0:
            head = data[: end + len(_SEPARATOR)]
            try:
                if json.loads(head + b"null}") == {"schema": schema, "payload": None}:
                    return head
            except ValueError:
                pass  # a field of the schema that is called payload
            end = data.find(_SEPARATOR, end + 1)
        return None


def _loads(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MessageRefused(f"no JSON: {str(error)[:200]}") from None
