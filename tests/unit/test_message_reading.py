"""Messages of other producers are read as what they say, and each that is not understood is refused alone, with the reason."""

from __future__ import annotations

import json
import struct
from typing import Any, get_args

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.config import MessageFormat, MessageSettings
from auditor.errors import MessageRefused
from auditor.pipeline.events import ARROW_SCHEMA, TableSchema
from auditor.pipeline.messages import column_values, registry
from auditor.pipeline.messages.connect_schemas import from_avro, from_json_schema
from auditor.pipeline.messages.formats import FORMATS, OF_REGISTRY
from auditor.pipeline.messages.reading import MessageReader, ReadMessages
from tests.pipeline_events import table

ORDERS = table("orders", ("id",), id="int", name="varchar(20) null", price="decimal(5,2)")
PLAIN = MessageSettings(values="plain", decimals="string")


def as_bytes(given: Any) -> bytes | None:
    return given if isinstance(given, bytes | None) else json.dumps(given).encode()


def read(reader: MessageReader, *messages: tuple[Any, Any]) -> ReadMessages:
    """Read messages, of which JSON is given as objects, and bytes as they are."""
    keys, values = (
        [one if isinstance(one, bytes | None) else json.dumps(one).encode() for one in side] for side in zip(*messages, strict=True)
    )
    count = len(keys)
    times = pa.array(range(count), ARROW_SCHEMA.field("time").type)
    return reader.read(keys, values, np.arange(100, 100 + count), np.arange(count), times)


def in_short(found: ReadMessages) -> list[tuple[Any, ...]]:
    rows = [row for one in found.events for row in one.to_pylist()]
    return [(row["kind"], row["position"], row["row"], row["before"], row["after"]) for row in rows if row["kind"] != "schema"]


def schemas(found: ReadMessages) -> list[TableSchema]:
    return [TableSchema.from_json(one["after"][0][0].as_py()) for one in found.events if one["kind"][0].as_py() == "schema"]


def test_plain_objects_are_rows_that_exist_and_tombstones_keys_that_do_not() -> None:
    reader = MessageReader("shop", "orders", PLAIN, ORDERS)
    found = read(reader, ({"id": 1}, {"id": 1, "name": None, "price": "1.50"}), ({"id": 1}, None), (7, None))
    assert found.refused == []
    assert in_short(found) == [
        ("refresh", 100, 0, None, ["1", None, "1.50"]),
        ("absent", 101, 1, ["1", None, None], None),
        ("absent", 102, 2, ["7", None, None], None),
    ]
    [schema] = schemas(found)
    assert schema.columns == ORDERS.columns and found.events[0]["row"][0].as_py() == -1


BAD: list[tuple[Any, Any, str]] = [
    ({"id": 1}, b"{", "no JSON"),
    ({"id": 1}, b"\xff\xfe", "no JSON"),
    ({"id": 1}, [1], "an array where an object"),
    ({"id": 1}, 5, "a number where an object"),
    ({"id": 1}, {"id": 1, "name": "x"}, "no field for the column 'price'"),
    ({"id": 1}, {"id": 1, "name": "x", "price": None}, "'price' is null"),
    ({"id": 1}, {"id": None, "name": "x", "price": "1.00"}, "'id' is null"),
    ({"id": 1}, {"id": 1, "price": "1.00", "other": 3}, "field 'other'"),
    ({"id": 1}, {"id": 1, "name": "x", "price": "1.00", "other": 3}, "field 'other'"),
    ({"id": 1}, {"id": "1", "name": "x", "price": "1.00"}, "'id', int: str where int"),
    ({"id": 1}, {"id": True, "name": "x", "price": "1.00"}, "'id', int: bool where int"),
    ({"id": 1}, {"id": 1.0, "name": "x", "price": "1.00"}, "'id', int: float where int"),
    ({"id": 1}, {"id": 2**64, "name": "x", "price": "1.00"}, "'id', int"),
    ({"id": 1}, {"id": 1, "name": 5, "price": "1.00"}, "'name', varchar"),
    ({"id": 1}, b'{"id": 1, "name": "\\ud800", "price": "1.00"}', "'name', varchar"),
    ({"id": 1}, {"id": 1, "name": "x", "price": "NaN"}, "no decimal number"),
    (None, None, "a delete without a key"),
    ({}, None, "the key has no 'id'"),
    ({"id": None}, None, "the key has no 'id'"),
    ([1], None, "'id'"),
]


@pytest.mark.parametrize(("key", "value", "reason"), BAD, ids=lambda one: str(one)[:40])
def test_a_message_that_is_not_understood_is_refused_alone(key: Any, value: Any, reason: str) -> None:
    good = ({"id": 1}, {"id": 1, "name": "a", "price": "1.50"})
    found = read(MessageReader("shop", "orders", PLAIN, ORDERS), good, (key, value), good)
    [(number, words)] = found.refused
    assert number == 1 and reason in words
    assert [row[1] for row in in_short(found)] == [100, 102]


ENVELOPES: list[tuple[Any, str]] = [
    ({"op": "c", "before": None, "after": None}, "no row after"),
    ({"op": "t", "before": None, "after": None}, "TRUNCATE"),
    ({"op": "m", "before": None, "after": None}, "'m' is of no row"),
    ({"id": 1, "name": "a", "price": "1.50"}, "no envelope"),
    ({"op": "c", "after": [1]}, "objects or null"),
]


@pytest.mark.parametrize(("value", "reason"), ENVELOPES)
def test_envelopes_of_no_row_are_refused(value: Any, reason: str) -> None:
    found = read(MessageReader("shop", "orders", MessageSettings(), ORDERS), ({"id": 1}, value))
    assert found.events == [] and reason in found.refused[0][1]


def test_an_update_without_the_row_before_is_a_row_that_exists() -> None:
    row = {"id": 1, "name": None, "price": "AJY="}
    values = [{"op": op, "before": None, "after": None if op == "d" else row} for op in "crud"]
    found = read(MessageReader("shop", "orders", MessageSettings(), ORDERS), *(({"id": 1}, value) for value in values))
    assert [row[0] for row in in_short(found)] == ["insert", "refresh", "refresh", "absent"]


def test_a_tombstone_after_its_delete_is_no_event_of_its_own() -> None:
    gone = {"op": "d", "before": {"id": 1, "name": None, "price": "AJY="}, "after": None}
    reader = MessageReader("shop", "orders", MessageSettings(), ORDERS)
    found = read(reader, ({"id": 1}, gone), ({"id": 1}, None), ({"id": 1}, None), ({"id": 2}, None))
    assert [row[:2] for row in in_short(found)] == [("delete", 100), ("absent", 102), ("absent", 103)]
    assert [row[:2] for row in in_short(read(reader, ({"id": 1}, gone)))] == [("delete", 100)]
    assert in_short(read(reader, ({"id": 1}, None))) == []


def connect(kind: str, field: str | None = None, *, optional: bool = False, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": optional, **more, **({"field": field} if field else {})}


ZONED = "io.debezium.time.ZonedTimestamp"
DECIMAL = "org.apache.kafka.connect.data.Decimal"


@pytest.mark.parametrize(
    ("schema", "value", "type", "text"),
    [
        (connect("int8"), 5, "tinyint", "5"),
        (connect("int32"), 5, "int", "5"),
        (connect("int64"), 5, "bigint", "5"),
        (connect("float64"), 1.5, "double", "1.5"),
        (connect("boolean"), True, "bit(1)", "1"),
        (connect("string"), "ä\0", "longtext", "ä\0"),
        (connect("bytes"), "/w==", "longblob", "ff"),
        (connect("bytes", name=DECIMAL, parameters={"scale": "2"}), "AJY=", "decimal(38,2)", "1.50"),
        (connect("bytes", name=DECIMAL, parameters={"scale": "2", "connect.decimal.precision": "5"}), "AJY=", "decimal(5,2)", "1.50"),
        (connect("int32", name="org.apache.kafka.connect.data.Date"), -1, "date", "1969-12-31"),
        (connect("int64", name="org.apache.kafka.connect.data.Timestamp"), -1, "datetime(3)", "1969-12-31 23:59:59.999"),
        (connect("int64", name="io.debezium.time.MicroTimestamp"), 1, "datetime(6)", "1970-01-01 00:00:00.000001"),
        (connect("int64", name="io.debezium.time.NanoTimestamp"), 1000, "datetime(6)", "1970-01-01 00:00:00.000001"),
        (connect("int32", name="io.debezium.time.Time"), 1, "time(3)", "00:00:00.001"),
        (connect("int64", name="io.debezium.time.MicroTime"), -3020399000000, "time(6)", "-838:59:59.000000"),
        (connect("string", name=ZONED), "2024-02-29T23:59:59Z", "timestamp(6)", "2024-02-29 23:59:59.000000"),
        (connect("string", name=ZONED), "2024-03-01T01:30:00.5+01:30", "timestamp(6)", "2024-03-01 00:00:00.500000"),
        (connect("string", name="io.debezium.data.Enum", parameters={"allowed": "a,b\\,c"}), "b,c", "enum('a','b,c')", "b,c"),
        (connect("string", name="io.debezium.data.Json"), "{}", "json", "{}"),
    ],
)  # fmt: skip
def test_types_are_the_closest_to_a_schema(schema: dict[str, Any], value: Any, type: str, text: str) -> None:
    whole = {"type": "struct", "optional": False, "fields": [connect("int64", "id"), {**schema, "field": "c"}]}
    key = {"schema": {"type": "struct", "optional": False, "fields": [connect("int64", "id")]}, "payload": {"id": 1}}
    found = read(MessageReader("shop", "t", MessageSettings(values="plain")), (key, {"schema": whole, "payload": {"id": 1, "c": value}}))
    assert found.refused == []
    [announced] = schemas(found)
    assert (announced.key, announced.columns[1].type, in_short(found)[0][4]) == (("id",), type, ["1", text])


WRONG: list[tuple[dict[str, Any], Any, str]] = [
    (connect("array", items=connect("int32")), [1], "which no column has"),
    (connect("struct", name="io.debezium.data.VariableScaleDecimal", fields=[]), {}, "VariableScaleDecimal"),
    (connect("string", name="io.debezium.time.ZonedTime"), "12:00:00Z", "ZonedTime"),
    (connect("int64", name="io.debezium.time.NanoTimestamp"), 1, "below microseconds"),
    (connect("string", name="io.debezium.time.ZonedTimestamp"), "2024-02-29T23:59:59", "no moment with a zone"),
    (connect("string", name="io.debezium.time.ZonedTimestamp"), "2024-02-30T23:59:59+01:00", "c"),
    (connect("int64", name="io.debezium.time.MicroTimestamp"), 2**62, "outside"),
    (connect("int32", name="io.debezium.time.Date"), 2**31 - 1, "outside"),
    (connect("bytes", name=DECIMAL, parameters={"scale": "0", "connect.decimal.precision": "2"}), "AJY=", "more digits"),
    (connect("bytes"), "/w=", "base64"),
    (connect("float64"), float("inf"), "not finite"),
    (connect("bytes", name="io.debezium.data.Bits", parameters={"length": "3"}), "/w==", "more bits"),
]


@pytest.mark.parametrize(("schema", "value", "reason"), WRONG)
def test_what_no_column_holds_is_refused_by_name(schema: dict[str, Any], value: Any, reason: str) -> None:
    whole = {"type": "struct", "optional": False, "fields": [connect("int64", "id"), {**schema, "field": "c"}]}
    found = read(
        MessageReader("shop", "t", MessageSettings(values="plain")), ({"id": 1}, {"schema": whole, "payload": {"id": 1, "c": value}})
    )
    assert found.events == [] and reason in found.refused[0][1]


def test_each_stretch_of_one_schema_is_announced_and_tombstones_wait_for_the_first() -> None:
    def message(number: int, *names: str) -> tuple[Any, Any]:
        fields = [connect("int64", "id"), *(connect("string", name, optional=True) for name in names)]
        return {"id": number}, {
            "schema": {"type": "struct", "optional": False, "fields": fields},
            "payload": {"id": number, **dict.fromkeys(names, "x")},
        }

    reader = MessageReader("shop", "t", MessageSettings(values="plain"))
    found = read(reader, ({"id": 9}, None), message(1, "a"), message(2, "a"), message(3, "a", "b"), message(4, "a"))
    assert found.refused == []
    assert [[column.name for column in schema.columns] for schema in schemas(found)] == [["id", "a"], ["id", "a", "b"], ["id", "a"]]
    assert [row[0] for row in in_short(found)] == ["absent", "refresh", "refresh", "refresh", "refresh"]
    assert [row[4] for row in in_short(found)][1:] == [["1", "x"], ["2", "x"], ["3", "x", "x"], ["4", "x"]]
    early = read(MessageReader("shop", "t", MessageSettings(values="plain")), ({"id": 9}, None))
    assert early.events == [] and "no message before it" in early.refused[0][1]


def test_without_a_schema_and_without_columns_a_message_is_refused() -> None:
    found = read(MessageReader("shop", "t", MessageSettings(values="plain")), ({"id": 9}, {"id": 9}))
    assert found.events == [] and "no columns were given" in found.refused[0][1]


AVRO = {"type": "record", "name": "Order", "namespace": "crm", "fields": [
    {"name": "id", "type": "long"},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["open", "paid"]}},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}], "default": None},
    {"name": "made", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
]}  # fmt: skip
AVRO_KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}


def avro(number: int, schema: Any, payload: Any) -> bytes:
    import io

    content = io.BytesIO(struct.pack(">bI", 0, number))
    content.seek(5)
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), payload)
    return content.getvalue()


def avro_reader() -> MessageReader:
    found = {1: registry._read(1, "AVRO", json.dumps(AVRO_KEY), False), 2: registry._read(2, "AVRO", json.dumps(AVRO), False)}

    def look_up(number: int) -> Any:
        if number not in found:
            raise MessageRefused(f"the registry has no schema {number}, which the message names")
        return found[number]

    return MessageReader("crm", "orders", MessageSettings(values="plain", format="avro"), look_up=look_up)


def test_plain_avro_with_its_own_logical_types_is_read() -> None:
    import datetime as dt
    from decimal import Decimal

    made = dt.datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=dt.UTC)
    row = {"id": 7, "state": "paid", "price": Decimal("-12.30"), "made": made, "day": dt.date(2024, 2, 29)}
    found = read(avro_reader(), (avro(1, AVRO_KEY, {"id": 7}), avro(2, AVRO, row)), (avro(1, AVRO_KEY, {"id": 8}), None))
    assert found.refused == []
    [schema] = schemas(found)
    assert [column.type for column in schema.columns] == ["bigint", "enum('open','paid')", "decimal(9,2)", "datetime(3)", "date"]
    assert [row[3] or row[4] for row in in_short(found)] == [
        ["7", "paid", "-12.30", "2024-02-29 01:02:03.004", "2024-02-29"],
        ["8", None, None, None, None],
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{}", "5 bytes"),
        (struct.pack(">bI", 0, 9), "no schema 9"),
        (struct.pack(">bI", 0, 2), "no Avro"),
        (struct.pack(">bI", 0, 1) + b"\x0e\x00", "bytes are left"),
    ],
)
def test_bytes_that_are_no_avro_are_refused(value: bytes, reason: str) -> None:
    found = read(avro_reader(), (avro(1, AVRO_KEY, {"id": 8}), value))
    assert found.events == [] and reason in found.refused[0][1]


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    found = read(avro_reader(), (avro(1, AVRO_KEY, {"id": 8}), struct.pack(">bI", 0, 2) + content))
    assert len(found.refused) + len(in_short(found)) == 1


@pytest.mark.parametrize(
    "schema",
    [["null", "string", "long"], {"type": "map", "values": "long"}, "Unknown", 5, {"type": "fixed", "name": "f", "size": 2}],
)
def test_avro_that_no_row_has_is_refused(schema: Any) -> None:
    with pytest.raises(MessageRefused):
        from_avro(schema)


def test_a_json_schema_of_another_producer_is_read() -> None:
    body = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}, "late": {"type": "number"}},
        "required": ["id"],
    }
    schema = from_json_schema(body)
    shown = [(name, one.type, one.optional) for name, one in schema.fields]
    assert shown == [("id", "int64", False), ("name", "string", True), ("late", "double", True)]
    with pytest.raises(MessageRefused):
        from_json_schema({"oneOf": [{"type": "string"}, {"type": "integer"}]})


def test_a_source_type_that_does_not_fit_its_schema_is_refused() -> None:
    from auditor.pipeline.messages.connect_schemas import Schema

    parameters = ((column_values.SOURCE_TYPE, "DATETIME"),)
    with pytest.raises(MessageRefused, match="no way to write datetime"):
        column_values.of_schema("c", Schema("boolean", parameters=parameters), MessageSettings())


def test_each_format_of_the_settings_is_written_and_read() -> None:
    assert set(FORMATS) == set(get_args(MessageFormat))
    assert {name for name in FORMATS if MessageSettings(format=name).has_registry} == set(OF_REGISTRY.values())
