"""Schemas of messages: Kafka Connect's, as its JSON converter embeds them, and the same as Avro's and as JSON Schema's.

What Avro's and JSON Schema's say of a Connect schema follows Confluent's converters (``connect.name``, ``connect.parameters`` and such):
https://docs.confluent.io/platform/current/schema-registry/connect.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from auditor.errors import ColumnRefused, MessageRefused

Json = Mapping[str, Any]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
PRECISION = "connect.decimal.precision"
"""The parameter of a Decimal that says its digits; Connect itself only knows its ``scale``."""

AVRO_TYPES = {"int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double"}
"""Avro's types for Connect's that have another name there."""

_OF_AVRO = {
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_ALIASES = {"float32": "float", "float64": "double"}
"""Names that JSON Schema's ``connect.type`` has for types, where the JSON converter has others."""

AVRO_LOGICAL = {
    DECIMAL: "decimal",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
"""Logical types that Confluent's converter writes beside Connect's names."""

_OF_LOGICAL = {
    "decimal": DECIMAL,
    "date": "io.debezium.time.Date",
    "time-millis": "io.debezium.time.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "io.debezium.time.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "uuid": "io.debezium.data.Uuid",
}
"""What values of Avro's own logical types are, in Debezium's names."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema of Kafka Connect: of a message, a row, or one of its values."""

    type: str
    """``int16``, ``int32``, ``int64``, ``float``, ``double``, ``boolean``, ``string``, ``bytes``, ``struct`` or ``array``."""
    optional: bool = False
    name: str | None = None
    """What the value means: ``io.debezium.time.Date``."""
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: Any = None
    fields: tuple[tuple[str, Schema], ...] = ()
    """The fields of a struct."""
    items: Schema | None = None
    """What the elements of an array are."""

    def parameter(self, name: str) -> str | None:
        """Return a parameter, or None."""
        return dict(self.parameters).get(name)

    def field(self, name: str) -> Schema | None:
        """Return the schema of a field, or None."""
        return dict(self.fields).get(name)


def struct(name: str | None, fields: Mapping[str, Schema], *, optional: bool = False, version: int | None = None) -> Schema:
    """Return the schema of a struct."""
    return Schema("struct", optional, name, version, fields=tuple(fields.items()))


def to_connect(schema: Schema, field: str | None = None) -> dict[str, Any]:
    """Return a schema as the JSON converter embeds it, its keys in that order."""
    body: dict[str, Any] = {"type": schema.type}
    if schema.type == "struct":
        body["fields"] = [to_connect(one, name) for name, one in schema.fields]
    if schema.items is not None:
        body["items"] = to_connect(schema.items)
    body["optional"] = schema.optional
    given = {"name": schema.name, "version": schema.version, "doc": schema.doc, "parameters": dict(schema.parameters) or None}
    body |= {key: value for key, value in (given | {"default": schema.default, "field": field}).items() if value is not None}
    return body


def from_connect(body: Any) -> Schema:
    """Return the schema that a JSON message has beside it. Raises MessageRefused."""
    if not isinstance(body, dict) or not isinstance(body.get("type"), str):
        raise MessageRefused("the schema beside the payload is none of Kafka Connect's")
    fields = body.get("fields") or ()
    if any(not isinstance(field, dict) or not isinstance(field.get("field"), str) for field in fields):
        raise MessageRefused("the schema beside the payload has a field without a name")
    kind: str = body["type"]
    return Schema(
        _ALIASES.get(kind, kind),
        bool(body.get("optional")),
        body.get("name"),
        body.get("version"),
        body.get("doc"),
        tuple((str(name), str(value)) for name, value in (body.get("parameters") or {}).items()),
        body.get("default"),
        tuple((field["field"], from_connect(field)) for field in fields),
        from_connect(body["items"]) if "items" in body else None,
    )


def avro_name(name: str) -> str:
    """Return a name as Avro allows it, as Debezium's ``field.name.adjustment.mode: avro`` does: ``_`` in place of other characters."""
    adjusted = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{adjusted}" if re.match(r"\d", adjusted) else adjusted


def to_avro(schema: Schema) -> Any:
    """Return a schema as Avro's. Raises ColumnRefused if two fields of a struct would have the same name."""
    return _to_avro(schema, set())


def _to_avro(schema: Schema, named: set[str]) -> Any:
    body = _avro_body(schema, named)
    return ["null", body] if schema.optional else body


def _avro_body(schema: Schema, named: set[str]) -> Any:
    meta: dict[str, Any] = {}
    if schema.version is not None:
        meta["connect.version"] = schema.version
    if schema.parameters:
        meta["connect.parameters"] = dict(schema.parameters)
    if schema.name is not None:
        meta["connect.name"] = schema.name
    if schema.type == "struct":
        full = ".".join(avro_name(part) for part in (schema.name or "ConnectDefault").split("."))
        if full in named:
            return full
        named.add(full)
        space, _, name = full.rpartition(".")
        names = [avro_name(field) for field, _ in schema.fields]
        if twice := next((one for one in names if names.count(one) > 1), None):
            raise ColumnRefused(f"two columns would be named {twice!r} in Avro; rename or exclude one of them")
        fields = [_avro_field(avro_name(field), one, named) for field, one in schema.fields]
        return {"type": "record", "name": name, **({"namespace": space} if space else {}), "fields": fields, **meta}
    if schema.items is not None:
        return {"type": "array", "items": _to_avro(schema.items, named), **meta}
    kind = AVRO_TYPES.get(schema.type, schema.type)
    if schema.type in ("int8", "int16"):
        meta["connect.type"] = schema.type
    if schema.name == DECIMAL:
        meta |= {"scale": int(schema.parameter("scale") or 0), "precision": int(schema.parameter(PRECISION) or 64)}
    if schema.name in AVRO_LOGICAL:
        meta["logicalType"] = AVRO_LOGICAL[schema.name]
    return {"type": kind, **meta} if meta else kind


def _avro_field(name: str, schema: Schema, named: set[str]) -> dict[str, Any]:
    body = {"name": name, "type": _to_avro(schema, named)}
    return body | {"default": None} if schema.optional else body


def plain_avro(body: Any) -> Any:
    """Return an Avro schema without logical types, so that values are read and written as what their bytes hold."""
    if isinstance(body, list):
        return [plain_avro(one) for one in body]
    if isinstance(body, dict):
        return {key: plain_avro(value) for key, value in body.items() if key != "logicalType"}
    return body


def from_avro(body: Any) -> Schema:
    """Return the Connect schema of an Avro schema. Raises MessageRefused for what rows do not have: maps, and unions of several types."""
    return _from_avro(body, {}, "")


def _from_avro(body: Any, named: dict[str, Schema], space: str) -> Schema:
    if isinstance(body, list):
        kinds = [one for one in body if one != "null"]
        if len(kinds) != 1:
            raise MessageRefused("the Avro schema has a union of several types")
        return replace(_from_avro(kinds[0], named, space), optional=len(kinds) < len(body))
    if isinstance(body, str):
        if body in _OF_AVRO:
            return Schema(_OF_AVRO[body])
        found = named.get(body) or named.get(f"{space}.{body}")
        if found is None:
            raise MessageRefused(f"the Avro schema names a type {body!r} that it does not have")
        return found
    if not isinstance(body, dict):
        raise MessageRefused("the Avro schema is none")
    kind, parameters = body.get("type"), {str(name): str(value) for name, value in (body.get("connect.parameters") or {}).items()}
    logical = body.get("logicalType")
    if logical == "decimal":
        parameters = {"scale": str(body.get("scale", 0)), PRECISION: str(body["precision"]), **parameters}
    name = body.get("connect.name") or _OF_LOGICAL.get(logical or "")
    described: dict[str, Any] = {"name": name, "version": body.get("connect.version"), "parameters": tuple(parameters.items())}
    if kind == "record":
        space = body.get("namespace", space)
        full = body["name"] if "." in body["name"] or not space else f"{space}.{body['name']}"
        fields = tuple((field["name"], _from_avro(field["type"], named, space)) for field in body["fields"])
        named[full] = Schema("struct", fields=fields, **{**described, "name": body.get("connect.name") or full})
        return named[full]
    if kind == "array":
        return Schema("array", items=_from_avro(body["items"], named, space), **described)
    if kind == "enum":
        return Schema("string", name="io.debezium.data.Enum", parameters=(("allowed", ",".join(body["symbols"])),))
    if isinstance(kind, dict | list):
        return _from_avro(kind, named, space)
    if kind not in _OF_AVRO:
        raise MessageRefused(f"the Avro schema has the type {kind!r}, which no column has")
    return Schema(body.get("connect.type", _OF_AVRO[kind]), **described)


_JSON_TYPES = {"float": ("number", "float32"), "double": ("number", "float64"), "boolean": ("boolean", None), "string": ("string", None),
               "bytes": ("string", "bytes"), "struct": ("object", None), "array": ("array", None)}  # fmt: skip


def to_json_schema(schema: Schema) -> dict[str, Any]:
    """Return a schema as JSON Schema, as Confluent's converter writes it, but that a Decimal, which is base64, is called a string."""
    kind, connect = _JSON_TYPES.get(schema.type, ("integer", schema.type))
    body: dict[str, Any] = {"type": kind}
    given = {
        "title": schema.name,
        "connect.version": schema.version,
        "connect.type": connect,
        "connect.parameters": dict(schema.parameters),
    }
    body |= {key: value for key, value in given.items() if value}
    if schema.type == "struct":
        properties = {name: {"connect.index": index, **to_json_schema(one)} for index, (name, one) in enumerate(schema.fields)}
        body["properties"] = properties
        if required := [name for name, one in schema.fields if not one.optional]:
            body["required"] = required
        body["additionalProperties"] = False  # else a registry calls a schema with one column more incompatible
    if schema.items is not None:
        body["items"] = to_json_schema(schema.items)
    return {"oneOf": [{"type": "null"}, body]} if schema.optional else body


def from_json_schema(body: Any) -> Schema:
    """Return the Connect schema of a JSON Schema. Raises MessageRefused for what rows do not have."""
    options = body.get("oneOf") or body.get("anyOf") if isinstance(body, dict) else None
    if options:
        kinds = [one for one in options if one.get("type") != "null"]
        if len(kinds) != 1:
            raise MessageRefused("the JSON Schema has a choice of several types")
        return replace(from_json_schema(kinds[0]), optional=len(kinds) < len(options))
    kind = body.get("type") if isinstance(body, dict) else None
    optional = isinstance(kind, list) and "null" in kind
    if isinstance(kind, list):
        kind = next(iter([one for one in kind if one != "null"]), None)
    simple = {"integer": "int64", "number": "double", "boolean": "boolean", "string": "string", "object": "struct", "array": "array"}
    if kind not in simple:
        raise MessageRefused(f"the JSON Schema has the type {kind!r}, which no column has")
    assert isinstance(kind, str)
    connect: str = body.get("connect.type", simple[kind])
    properties = body.get("properties") or {}
    required = body.get("required") or ()
    order = sorted(properties, key=lambda name: properties[name].get("connect.index", 0))
    fields = [(name, from_json_schema(properties[name])) for name in order]
    # Without Confluent's marks, a property that is not required may be missing.
    if "connect.index" not in next(iter(properties.values()), {}):
        fields = [(name, one if name in required else replace(one, optional=True)) for name, one in fields]
    return Schema(
        _ALIASES.get(connect, connect),
        optional,
        body.get("title"),
        body.get("connect.version"),
        parameters=tuple((str(name), str(value)) for name, value in (body.get("connect.parameters") or {}).items()),
        fields=tuple(fields),
        items=from_json_schema(body["items"]) if kind == "array" else None,
    )


def compact(body: Any) -> str:
    """Return JSON without blanks, as messages have it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def list_parameter(labels: Sequence[str]) -> str:
    """Return the labels of an ENUM or SET as the parameter ``allowed`` has them: commas within them are escaped."""
    return ",".join(label.replace(",", "\\,") for label in labels)


def split_parameter(allowed: str) -> list[str]:
    """Return the labels of a parameter ``allowed``."""
    return [label.replace("\\,", ",") for label in re.split(r"(?<!\\),", allowed)]
