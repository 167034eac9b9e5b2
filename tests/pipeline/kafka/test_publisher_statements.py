"""What statements of the source did to tables is in the topics as well, and a table that cannot go on stops alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from auditor.pipeline.events import TableSchema
from auditor.store import table_notes
from tests.pipeline.kafka.topic_road import PIPELINE, Made, TopicRoad, headers_of
from tests.pipeline_events import announce, batch, delete, insert, note, table, update

ORDERS = table(id="int", item="varchar(20) null")
NOTES = table("notes", id="int", body="text null")
WIDER = table(id="int", item="varchar(20) null", fee="decimal(8,2)")
NARROWER = table(id="int", fee="decimal(8,2)")
RENAMED = table(id="int", price="decimal(8,2)")

pytestmark = pytest.mark.kafka


def comes(schema: TableSchema, position: int, *rows: Any) -> list[dict[str, object]]:
    """Inserts at a position, with the schema before them."""
    return announce(schema, position) + insert(schema, position, *rows)


def change(name: str, position: int, *ops: dict[str, Any], statement: str = "") -> list[dict[str, object]]:
    """A note on what a statement did."""
    whole = any(op["op"] in ("clear", "create", "moved") or ("to" in op and op["op"] == "gone") for op in ops)
    return note("change", name, position, {"ops": list(ops), "advances": whole, "statement": statement})


def test_columns_that_change_are_told_in_debeziums_shape(road: TopicRoad) -> None:
    road.stage_task(
        batch(
            comes(ORDERS, 10, ["1", "pen"]),
            change("orders", 20, {"op": "add", "column": "fee", "value": {"text": "1.50"}}, statement="ALTER TABLE orders ADD fee"),
            comes(WIDER, 21, ["2", "ink", "2.50"]),
        ),
    )
    road.publish()
    road.publish(anew=True)
    road.stage_task(batch(change("orders", 30, {"op": "drop", "column": "item"}), comes(NARROWER, 31, ["3", "3.50"])))
    road.publish()
    road.stage_task(batch(change("orders", 40, {"op": "rename", "from": "fee", "to": "price"}), comes(RENAMED, 41, ["4", "4.50"])))
    road.publish()
    assert [sorted(value["after"]) for value in road.values()] == [["id", "item"], ["fee", "id", "item"], ["fee", "id"], ["id", "price"]]
    told = road.values("changes")
    assert [one["tableChanges"][0]["type"] for one in told] == ["CREATE", "ALTER", "ALTER", "ALTER"]
    columns = [[column["name"] for column in one["tableChanges"][0]["table"]["columns"]] for one in told]
    assert columns == [["id", "item"], ["id", "item", "fee"], ["id", "fee"], ["id", "price"]]
    assert {"source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges"} == told[0].keys()
    assert told[1]["ddl"] == "ALTER TABLE orders ADD fee" and told[0]["databaseName"] == "shop" and told[2]["ddl"] is None
    headers = [headers_of(message) for message in road.messages("changes")]
    assert [TableSchema.from_json(header["auditor.columns"]) for header in headers] == [ORDERS, WIDER, NARROWER, RENAMED]
    assert [header["auditor"].split(".")[0] for header in headers] == ["10", "21", "31", "41"]


@pytest.mark.parametrize(("form", "reader"), [("avro", AvroDeserializer), ("json_schema", JSONDeserializer)])
def test_messages_of_a_registry_are_read_by_its_own_deserializers(registered: Made, form: str, reader: Any) -> None:
    road = registered.road(messages={"format": form, "values": "flat"}, schema_changes=None)
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen"]), delete(ORDERS, 11, ["1", "pen"])))
    road.publish()
    road.stage_task(
        batch(change("orders", 20, {"op": "add", "column": "fee", "value": {"text": "0"}}), comes(WIDER, 21, ["2", "ink", "2.50"]))
    )
    road.publish()
    topic, found = f"{road.prefix}.shop.orders", []
    with SchemaRegistryClient({"url": registered.registry}) as client:
        read = reader(None, schema_registry_client=client) if form == "json_schema" else reader(client)
        for message in road.messages():
            fields = [(part, body) for part, body in ((MessageField.KEY, message.key()), (MessageField.VALUE, message.value())) if body]
            found.append([read(body, SerializationContext(topic, part)) for part, body in fields])
    rows = [[{**one} for one in pair] for pair in found]
    assert [key["id"] for key, *_ in rows] == [1, 1, 1, 2]
    assert [[(one["item"], one["__op"], one["__deleted"]) for one in values] for _, *values in rows] == [
        [("pen", "c", "false")],
        [("pen", "d", "true")],
        [],
        [("ink", "c", "false")],
    ]
    assert "fee" in rows[3][1] and road.report() == ("merged", "")


def test_a_registry_that_refuses_a_schema_stops_that_table_alone(registered: Made) -> None:
    road = registered.road(messages={"format": "avro", "values": "plain"}, schema_changes=None)
    text = table(id="int", item="int null")
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen"])), batch(comes(NOTES, 11, ["1", "a"])))
    road.publish()
    subject = f"{road.prefix}.shop.orders-value"
    with SchemaRegistryClient({"url": registered.registry}) as client:
        client.set_compatibility(subject, "FULL")
    road.stage_task(batch(change("orders", 20, {"op": "convert"}), comes(text, 21, ["2", "2"])), batch(comes(NOTES, 22, ["2", "b"])))
    road.stage_task(batch(comes(NOTES, 23, ["3", "c"])))
    road.publish()
    road.publish()
    state, why = road.report()
    assert state == "stopped" and subject in why
    assert len(road.messages()) == 1 and len(road.messages("shop.notes")) == 3, "nothing of it is published before"
    with SchemaRegistryClient({"url": registered.registry}) as client:
        client.set_compatibility(subject, "NONE")
    road.publish()
    assert road.report() == ("merged", "") and len(road.messages()) == 2


def test_a_table_that_was_emptied_says_so_in_each_partition(made: Made) -> None:
    road = made.road(cleanup="delete", partitions=3)
    road.stage_task(batch(comes(ORDERS, 10, *([str(number), "pen"] for number in range(20)))))
    road.stage_task(batch(change("orders", 20, {"op": "clear"}, statement="TRUNCATE orders")), batch(comes(NOTES, 25, ["1", "a"])))
    road.stage_task(batch(comes(ORDERS, 30, ["5", "ink"])))
    road.publish()
    cleared = [message for message in road.messages() if b'"op":"t"' in (message.value() or b"")]
    assert [(message.partition(), message.key()) for message in cleared] == [(0, None), (1, None), (2, None)]
    assert all(headers_of(message)["auditor"].startswith("20.-1.") for message in cleared)
    assert list(road.table().values()) == [{"id": 5, "item": "ink"}] and road.report() == ("merged", "")
    assert road.values("changes")[1]["ddl"] == "TRUNCATE orders"
    assert road.whole()["apart"] == [] and road.whole()["position"] == 30


@pytest.mark.quick_for("compacted")
@pytest.mark.parametrize("target", [{}, {"cleanup": "delete", "messages": {"values": "flat"}}], ids=["compacted", "flat"])
def test_a_topic_that_cannot_say_that_its_table_was_emptied_stops(made: Made, target: dict[str, Any]) -> None:
    road = made.road(**target)
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen"])))
    road.stage_task(batch(change("orders", 20, {"op": "clear"})), batch(comes(NOTES, 25, ["1", "a"])))
    road.stage_task(batch(comes(ORDERS, 30, ["5", "ink"])))
    road.publish()
    assert road.report()[0] == "stopped" and "the source emptied shop.orders" in road.report()[1]
    assert len(road.messages()) == 1 and len(road.messages("shop.notes")) == 1
    assert road.whole()["apart"] == ["shop.orders"]
    road.skip(20)
    road.publish()
    assert road.report() == ("merged", "") and len(road.messages()) == 2 and road.whole()["apart"] == []


def test_a_renamed_table_goes_on_in_the_topic_of_its_new_name(road: TopicRoad) -> None:
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen"])), batch(comes(NOTES, 11, ["1", "a"])))
    later = table("later", id="int", item="varchar(20) null")
    road.stage_task(
        batch(change("orders", 20, {"op": "gone", "to": "shop.later"})),
        batch(change("later", 20, {"op": "moved", "from": "shop.orders"}), comes(later, 30, ["2", "ink"])),
        batch(comes(NOTES, 31, ["2", "b"])),
    )
    road.publish()
    for name in ("shop.orders", "shop.later"):
        assert "was renamed in the source" in road.report(name)[1]
    assert len(road.messages("shop.notes")) == 2
    road.skip(20, "shop.orders")
    road.skip(20, "shop.later")
    road.publish()
    assert [value["after"]["id"] for value in road.values("shop.later")] == [2] and len(road.messages()) == 1
    assert road.report("shop.later") == road.report("shop.orders") == ("merged", "")
    road.stage_task(batch(comes(NOTES, 40, ["3", "c"])))
    road.publish()
    assert road.whole()["apart"] == [] and road.whole()["position"] == 40


def test_a_value_that_no_message_holds_stops_its_table_until_it_is_skipped(road: TopicRoad) -> None:
    days = table("days", id="int", length="time null")
    road.configure(messages={"times": "isostring"})
    road.stage_task(
        batch(comes(days, 10, ["1", "10:00:00"])),
        batch(comes(days, 11, ["2", "11:00:00"], ["3", "838:00:00"])),
        batch(comes(NOTES, 12, ["1", "a"])),
    )
    road.stage_task(batch(comes(days, 13, ["4", "12:00:00"])))
    road.publish()
    road.publish()
    assert road.report("shop.days")[0] == "stopped" and len(road.messages("shop.notes")) == 1
    [stop] = [one for one in table_notes.list_notes(road.store, PIPELINE) if one.kind == "poison"]
    assert (stop.position, stop.row, stop.table) == (11, 1, "shop.days")
    assert [value["after"]["id"] for value in road.values("shop.days")] == [1], "up to the transaction that has it"
    road.skip(11, "shop.days", row=1)
    road.publish()
    assert [value["after"]["id"] for value in road.values("shop.days")] == [1, 2, 4]
    assert road.report("shop.days") == ("merged", "") and road.whole()["apart"] == []


def test_a_message_that_is_too_long_stops_its_table_until_it_is_skipped(made: Made) -> None:
    road = made.road(settings={"max.message.bytes": "300000"})
    road.stage_task(
        batch(comes(NOTES, 10, ["1", "a"], ["2", "x" * 400_000], ["3", "c"])),
        batch(comes(ORDERS, 11, ["1", "pen"])),
    )
    road.publish()
    assert road.report("shop.notes")[0] == "stopped" and "max.message.bytes" in road.report("shop.notes")[1]
    assert len(road.messages()) == 1 and road.messages("shop.notes") == []
    road.skip(10, "shop.notes")
    road.stage_task(batch(announce(NOTES, 20), update(NOTES, 20, (["3", "c"], ["3", "d"]))))
    road.publish()
    found = [json.loads(message.value() or b"")["after"]["id"] for message in road.messages("shop.notes")]
    assert found == [3] and road.report("shop.notes") == ("merged", ""), "without a row's number all of the transaction is skipped"
