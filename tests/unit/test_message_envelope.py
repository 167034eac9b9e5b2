"""Which messages each event becomes, what their fields are, and that each reads as the events that it came from."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from auditor.config import MessageSettings
from auditor.errors import ColumnRefused, ValueRefused
from auditor.pipeline.events import ARROW_SCHEMA, Position, TableSchema
from auditor.pipeline.messages.other_topics import SchemaChangeMessages, TransactionMessages
from auditor.pipeline.messages.reading import MessageReader
from auditor.pipeline.messages.source_block import Names
from auditor.pipeline.messages.writing import Encoder, nullable_additions, number_in_transactions
from tests.pipeline_events import absent, announce, batch, delete, event, insert, refresh, table, update
from tests.unit.test_message_values import Shelf

NAMES = Names("shop", "0.1.0", server_id=7, log_name="mysql-bin")
ORDERS = table("orders", ("id",), id="int", name="varchar(20) null", price="decimal(5,2)")
NOW = 1_795_978_019_967_001_316

ROW, CHANGED, MOVED = ["1", "a", "1.50"], ["1", None, "2.00"], ["2", "a", "1.50"]


def messages(schema: TableSchema, events: pa.RecordBatch, orders: pa.Array | None = None, **form: Any) -> list[dict[str, Any]]:
    """Return the messages of events in JSON."""
    found = Encoder(schema, MessageSettings(**form), NAMES).encode(events, NOW, orders).to_pylist()
    return [{name: json.loads(one) if isinstance(one, bytes) else one for name, one in message.items()} for message in found]


def in_short(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    shown = [value and (value["op"], value["before"], value["after"]) for value in (one["value"] for one in found)]
    return [(one["event"], one["key"], value) for one, value in zip(found, shown, strict=True)]


A, B, C = {"id": 1, "name": "a", "price": "AJY="}, {"id": 1, "name": None, "price": "AMg="}, {"id": 2, "name": "a", "price": "AJY="}


def test_each_event_becomes_the_messages_of_its_kind() -> None:
    events = batch(
        insert(ORDERS, 1, ROW),
        update(ORDERS, 2, (ROW, CHANGED), (ROW, MOVED)),
        delete(ORDERS, 3, ROW),
        refresh(ORDERS, 4, ROW, bounds=([None] * 3, ["9", None, None])),
        absent(ORDERS, 5, ["1", None, None]),
    )
    alone = {"id": 1, "name": None, "price": None}
    assert in_short(messages(ORDERS, events)) == [
        (0, {"id": 1}, ("c", None, A)),
        (1, {"id": 1}, ("u", A, B)),
        (2, {"id": 1}, ("d", A, None)),
        (2, {"id": 1}, None),
        (2, {"id": 2}, ("c", None, C)),
        (3, {"id": 1}, ("d", A, None)),
        (3, {"id": 1}, None),
        (5, {"id": 1}, ("r", None, A)),
        (6, {"id": 1}, ("d", alone, None)),
        (6, {"id": 1}, None),
    ]
    without = messages(ORDERS, events, tombstones=False)
    assert [one["event"] for one in without] == [0, 1, 2, 2, 3, 5, 6] and all(one["value"] for one in without)


def test_a_changed_key_is_in_the_headers_of_its_messages() -> None:
    gone, tombstone, come = messages(ORDERS, batch(update(ORDERS, 2, (ROW, MOVED))))
    assert (gone["new_key"], gone["old_key"]) == ({"id": 2}, None)
    assert (tombstone["new_key"], tombstone["old_key"]) == ({"id": 2}, None)
    assert (come["new_key"], come["old_key"]) == (None, {"id": 1})


def test_where_a_schema_forbids_a_key_alone_the_row_before_is_null() -> None:
    gone, tombstone = messages(ORDERS, batch(absent(ORDERS, 5, ["1", None, None])), schemas=True)
    assert gone["key"]["payload"] == {"id": 1} and gone["value"]["payload"]["before"] is None and tombstone["value"] is None
    [tombstone] = messages(ORDERS, batch(absent(ORDERS, 5, ["1", None, None])), schemas=True, values="flat")
    assert tombstone["value"] is None
    with pytest.raises(ValueRefused, match="tombstones: true"):
        messages(ORDERS, batch(absent(ORDERS, 5, ["1", None, None])), schemas=True, values="flat", tombstones=False)


def test_a_table_without_a_key_has_neither_keys_nor_tombstones() -> None:
    schema = table("keyless", (), id="int", name="varchar(20) null")
    events = batch(update(schema, 1, (["1", "a"], ["2", "a"])), delete(schema, 2, ["2", "a"]))
    found = messages(schema, events)
    assert [(one["key"], one["value"]["op"]) for one in found] == [(None, "u"), (None, "d")]


def test_source_and_transaction_say_where_the_event_stands() -> None:
    place = Position(0, 3, 4567).pack()
    one = {**insert(ORDERS, place, ROW)[0], "gtid": None, "row": 4}
    events = batch([one])
    [message] = messages(ORDERS, events, number_in_transactions(events))
    assert list(message["value"]) == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    micros = events["time"].cast(pa.int64())[0].as_py()
    assert message["value"]["source"] == {
        "version": "0.1.0", "connector": "mysql", "name": "shop", "ts_ms": micros // 1000, "snapshot": "false", "db": "shop",
        "sequence": None, "ts_us": micros, "ts_ns": micros * 1000, "table": "orders", "server_id": 7, "gtid": None,
        "file": "mysql-bin.000003", "pos": 4567, "row": 4, "thread": None, "query": None,
    }  # fmt: skip
    transaction = {"id": "file=mysql-bin.000003,pos=4567", "total_order": 5, "data_collection_order": 1}
    assert message["value"]["transaction"] == transaction
    assert (message["value"]["ts_ms"], message["value"]["ts_us"], message["value"]["ts_ns"]) == (NOW // 10**6, NOW // 1000, NOW)


def test_events_are_numbered_within_their_transaction() -> None:
    events = batch(insert(ORDERS, 1, ROW, MOVED), insert(ORDERS, 2, ROW), delete(ORDERS, 3, ROW, MOVED))
    assert number_in_transactions(events).to_pylist() == [1, 2, 1, 1, 2]
    assert number_in_transactions(events.slice(0, 0)).to_pylist() == []


def test_the_flat_form_is_that_of_extract_new_record_state() -> None:
    events = batch(insert(ORDERS, 1, ROW), delete(ORDERS, 2, ROW))
    found = messages(ORDERS, events, values="flat", add=["op", "table", "source.ts_ms", "gtid"])
    micros = events["time"].cast(pa.int64()).to_pylist()
    added = [{"__table": "orders", "__source_ts_ms": one // 1000, "__gtid": f"0-1-{n}"} for n, one in enumerate(micros, 1)]
    expected = [{**A, "__deleted": "false", "__op": "c", **added[0]}, {**A, "__deleted": "true", "__op": "d", **added[1]}, None]
    assert [one["value"] for one in found] == expected
    assert list(found[0]["value"]) == ["id", "name", "price", "__deleted", "__op", "__table", "__source_ts_ms", "__gtid"]


def test_the_plain_form_is_the_row_after_or_a_tombstone() -> None:
    events = batch(insert(ORDERS, 1, ROW), update(ORDERS, 2, (ROW, MOVED)), delete(ORDERS, 3, MOVED))
    found = messages(ORDERS, events, values="plain")
    assert [(one["key"]["id"], one["value"]) for one in found] == [(1, A), (1, None), (2, C), (2, None)]


@pytest.mark.parametrize("form", [{}, {"schemas": True}, {"format": "avro"}, {"format": "json_schema"}])
@pytest.mark.parametrize("values", ["debezium", "flat", "plain"])
def test_messages_are_read_as_their_events(form: dict[str, Any], values: str) -> None:
    settings = MessageSettings(**form, values=values, source_types=True)
    events = batch(
        insert(ORDERS, 1, ROW),
        update(ORDERS, 2, (ROW, CHANGED), (ROW, MOVED)),
        delete(ORDERS, 3, ROW),
        refresh(ORDERS, 4, ROW),
        absent(ORDERS, 5, ["7", None, None]),
    )
    shelf = Shelf(settings.format)
    written = Encoder(ORDERS, settings, NAMES, shelf.register).encode(events, NOW)
    given = None if settings.schemas or settings.has_registry else ORDERS
    reader = MessageReader("shop", "orders", settings, given, shelf.look_up)
    numbers = written["event"].to_numpy()
    positions, rows_of = (events[name].to_numpy()[numbers] for name in ("position", "row"))
    times = events["time"].take(written["event"])
    read = reader.read(written["key"].to_pylist(), written["value"].to_pylist(), positions, rows_of, times)
    assert read.refused == []
    rows = [one for part in read.events for one in part.to_pylist() if one["kind"] != "schema"]
    found = [(one["kind"], one["position"], one["before"], one["after"]) for one in rows]
    key, last = ["1", None, None], ["7", None, None]
    if values == "debezium":
        assert found == [
            ("insert", 1, None, ROW), ("update", 2, ROW, CHANGED), ("delete", 2, ROW, None), ("insert", 2, None, MOVED),
            ("delete", 3, ROW, None), ("refresh", 4, None, ROW), ("absent", 5, last, None),
        ]  # fmt: skip
        assert rows[0]["gtid"] == "0-1-1"
        return
    gone = ("delete", ROW) if values == "flat" else ("absent", key)
    expected = [
        ("refresh", 1, None, ROW), ("refresh", 2, None, CHANGED), (gone[0], 2, gone[1], None), ("refresh", 2, None, MOVED),
        (gone[0], 3, gone[1], None), ("refresh", 4, None, ROW),
    ]  # fmt: skip
    assert found[:-1] == expected
    assert found[-1][1:] == (5, last, None)


def test_events_of_no_row_and_columns_that_the_form_adds_are_refused() -> None:
    encoder = Encoder(ORDERS, MessageSettings(), NAMES)
    with pytest.raises(ValueError, match="kind schema"):
        encoder.encode(batch(announce(ORDERS, 1)), NOW)
    with pytest.raises(ValueError, match="3 columns"):
        encoder.encode(batch([event(ORDERS, "insert", 1, 0, None, ["1"])]), NOW)
    with pytest.raises(ColumnRefused, match="__deleted"):
        Encoder(table("t", ("id",), id="int", __deleted="int"), MessageSettings(values="flat"), NAMES)
    with pytest.raises(ColumnRefused, match="a_b"):
        Encoder(table("t", ("a b",), **{"a b": "int", "a-b": "int"}), MessageSettings(format="avro"), NAMES, lambda part, text: 1)
    with pytest.raises(ValueError, match="registry"):
        Encoder(ORDERS, MessageSettings(format="avro"), NAMES)


def test_a_batch_without_rows_has_no_messages() -> None:
    events = batch(refresh(ORDERS, 4, bounds=([None] * 3, ["9", None, None])))
    assert messages(ORDERS, events) == [] and messages(ORDERS, events.slice(0, 0)) == []


def test_an_added_column_is_nullable_so_that_schemas_stay_compatible() -> None:
    added = nullable_additions(table("orders", ("id",), id="int", price="decimal(5,2)", later="int"), ["id", "price"])
    assert [column.nullable for column in added.columns] == [False, False, True]


def test_truncate_is_one_message_of_the_envelope_alone() -> None:
    value = Encoder(ORDERS, MessageSettings(), NAMES).truncate("u:9", Position(0, 1, 99).pack(), 5_000_000, NOW)
    assert value is not None
    body = json.loads(value)
    assert (body["op"], body["before"], body["after"], body["source"]["gtid"], body["source"]["pos"]) == ("t", None, None, "u:9", 99)
    assert Encoder(ORDERS, MessageSettings(values="flat"), NAMES).truncate("u:9", 1, 1, NOW) is None


@pytest.mark.parametrize("form", [{}, {"schemas": True}, {"format": "json_schema"}])
def test_transactions_have_a_beginning_and_an_end_with_counts(form: dict[str, Any]) -> None:
    writer = TransactionMessages(MessageSettings(**form), lambda part, text: 3)
    bodies = [
        [one[5:] if "format" in form else one for one in message]
        for message in (writer.begin("u:1", 17), writer.end("u:1", {"shop.orders": 2, "shop.items": 3}, 18))
    ]
    (first_key, first), (_, last) = [[json.loads(one) for one in message] for message in bodies]
    if "schemas" in form:
        assert first["schema"]["name"] == "io.debezium.connector.common.TransactionMetadataValue"
        first_key, first, last = first_key["payload"], first["payload"], last["payload"]
    assert first_key == {"id": "u:1"}
    assert first == {"status": "BEGIN", "id": "u:1", "event_count": None, "data_collections": None, "ts_ms": 17}
    counts = [{"data_collection": "shop.orders", "event_count": 2}, {"data_collection": "shop.items", "event_count": 3}]
    assert last == {"status": "END", "id": "u:1", "event_count": 5, "data_collections": counts, "ts_ms": 18}


@pytest.mark.parametrize("form", [{}, {"format": "avro"}])
def test_statements_are_described_with_the_columns_after_them(form: dict[str, Any]) -> None:
    writer = SchemaChangeMessages(MessageSettings(**form), NAMES, lambda part, text: 3)
    schema = table("orders", ("id",), id="int unsigned", price="decimal(5,2) null", state="set('a','b')")
    changes = [("ALTER", "orders", schema), ("DROP", "old", None)]
    place = {"gtid": "u:1", "position": Position(0, 1, 99).pack(), "micros": 5_000_000, "now_ns": NOW}
    key, value = writer.write("shop", "ALTER TABLE ...", changes, **place)  # type: ignore[arg-type]
    if form:
        assert key[:5] == value[:5] == b"\0\0\0\0\3"
        return
    body = json.loads(value)
    assert json.loads(key) == {"databaseName": "shop"} and body["ddl"] == "ALTER TABLE ..." and body["source"]["table"] is None
    assert [(one["type"], one["id"]) for one in body["tableChanges"]] == [("ALTER", '"shop"."orders"'), ("DROP", '"shop"."old"')]
    columns = body["tableChanges"][0]["table"]["columns"]
    shown = [(one["typeName"], one["jdbcType"], one["length"], one["scale"], one["optional"], one["enumValues"]) for one in columns]
    assert shown == [
        ("INT UNSIGNED", 4, None, None, False, None),
        ("DECIMAL", 3, 5, 2, True, None),
        ("SET", 1, 3, None, False, ["'a'", "'b'"]),
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"schemas": True, "format": "avro"}, "in the registry"),
        ({"values": "plain", "tombstones": False}, "would not write deletes"),
        ({"add": ["op", "op"]}, "twice"),
        ({"add": ["lsn"]}, "no field of a change"),
        ({"add": ["transaction.id"]}, "no field of a change"),
    ],
)
def test_settings_that_do_not_fit_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        MessageSettings.model_validate(given)


def test_large_batches_are_encoded_whole() -> None:
    rows = [[str(number), None if number % 7 else f'"{number}\n', "1.50"] for number in range(5000)]
    found = Encoder(ORDERS, MessageSettings(), NAMES).encode(batch(insert(ORDERS, 1, *rows)), NOW)
    assert found["event"].to_numpy().tolist() == list(np.arange(5000))
    assert [json.loads(one)["after"]["name"] for one in found["value"].to_pylist()] == [row[1] for row in rows]
    assert ARROW_SCHEMA.field("row").type == pa.int64()
