"""What a topic no longer has, or has otherwise, stops its table by name, and never passes in silence; other tables continue."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from auditor.errors import ConfigError, PartsGone, SourceReplaced, TopicRefused
from auditor.pipeline.incarnation import NOTE
from auditor.pipeline.restaging import restage
from auditor.service import pipelines as service
from auditor.store import parts, pipelines
from tests.pipeline.read_topics.conftest import MakeRoad
from tests.pipeline.read_topics.topics import PIPELINE, TopicRoad, Topics, plain

pytestmark = pytest.mark.kafka


def skip(road: TopicRoad) -> None:
    """Let the table continue behind what stops it."""
    for note in road.notes():
        service.skip(road.settings, road.store, PIPELINE, note.table, str(note.body["place"]), "its rows were copied again", by="test")


def two_topics(topics: Topics, make_road: MakeRoad) -> tuple[TopicRoad, str, str]:
    """A road from two topics, of which five messages each are loaded."""
    orders, items = topics.make("shop.orders"), topics.make("shop.items")
    road = make_road(plain(topics, "shop.orders", "shop.items", id="bigint"))
    for topic in (orders, items):
        topics.send(topic, *(({"id": number}, {"id": number}) for number in range(5)))
    road.load()
    assert len(road.rows("orders")) == len(road.rows("items")) == 5
    return road, orders, items


def test_what_retention_removed_before_it_was_read(topics: Topics, make_road: MakeRoad) -> None:
    road, orders, items = two_topics(topics, make_road)
    for topic in (orders, items):
        topics.send(topic, *(({"id": number}, {"id": number}) for number in range(5, 12)))
    [gone] = topics.admin.delete_records([TopicPartition(orders, 0, 9)]).values()
    gone.result()
    road.load()
    [note] = road.notes()
    assert (note.table, note.events, note.body["place"]) == ("shop.orders", 4, f"{orders}:0:5")
    assert "offset 5 to 8 were removed, by retention or by hand, before they were read" in note.reason
    assert len(road.rows("orders")) == 5 and len(road.rows("items")) == 12
    skip(road)
    road.load()
    assert [number for (number,) in road.rows("orders")] == [*range(5), 9, 10, 11]


@pytest.mark.slow
def test_a_topic_that_was_deleted_and_made_again(topics: Topics, make_road: MakeRoad) -> None:
    road, orders, items = two_topics(topics, make_road)
    topics.remove(orders)
    topics.send(items, ({"id": 5}, {"id": 5}))
    road.load()  # which waits for the topic
    assert len(road.rows("items")) == 6 and road.read_up_to()[orders, 0] == 5 and not road.notes()
    topics.make("shop.orders", partitions=2)
    topics.send(orders, *(({"id": number}, {"id": number}) for number in range(20, 26)))
    topics.send(items, ({"id": 6}, {"id": 6}))
    road.load()
    [note] = road.notes()
    assert note.table == "shop.orders" and f"the topic {orders} was deleted and made again" in note.reason
    assert len(road.rows("orders")) == 5 and len(road.rows("items")) == 7
    skip(road)
    road.begin()  # as a new process
    road.load()
    assert [number for (number,) in road.rows("orders")] == [*range(5), *range(20, 26)]
    assert sum(part.rows for part in parts.list_parts(road.store, PIPELINE, "shop.orders", 0)) == 11


def test_offsets_beyond_the_end_of_a_partition(topics: Topics, make_road: MakeRoad) -> None:
    road, orders, items = two_topics(topics, make_road)
    ahead = dict(road.offset)  # as if the broker had been restored to when there were fewer
    ahead["topics"] = {**ahead["topics"], orders: {**ahead["topics"][orders], "offsets": [8]}}
    parts.record_batch(road.store, PIPELINE, [], {}, ahead)
    road.begin()
    road.load()
    [note] = road.notes()
    assert f"partition 0 of the topic {orders} ends at offset 5, and was read up to 8" in note.reason
    topics.send(orders, ({"id": 7}, {"id": 7}))
    topics.send(items, ({"id": 7}, {"id": 7}))
    skip(road)
    road.load()
    assert (7,) in road.rows("orders") and (7,) in road.rows("items")


def test_new_partitions_are_told_and_read_from_their_beginning(
    topics: Topics, make_road: MakeRoad, caplog: pytest.LogCaptureFixture
) -> None:
    road, orders, _ = two_topics(topics, make_road)
    [grown] = topics.admin.create_partitions([NewPartitions(orders, 3)]).values()
    grown.result()
    topics.wait(lambda: len(topics.admin.list_topics(orders, 5).topics[orders].partitions) == 3)
    topics.send(orders, ({"id": 50}, {"id": 50}), partition=2)
    with caplog.at_level(logging.WARNING):
        road.load()
    assert f"the topic {orders} has a new partition, 2" in caplog.text
    assert (50,) in road.rows("orders") and road.read_up_to()[orders, 2] == 1


def test_a_topic_that_fits_a_pattern_later_is_read_from_its_beginning(topics: Topics, make_road: MakeRoad) -> None:
    orders = topics.make("shop.orders")
    road = make_road(f"messages: {{schemas: true}}\ntopics: ['{topics.prefix}.shop.*']\nstart: latest")
    send_with_schema(topics, orders, 1)
    road.begin()
    send_with_schema(topics, orders, 2)
    send_with_schema(topics, topics.make("shop.late"), 3)
    road.load()
    assert road.rows("orders") == [(2,)] and road.rows("late") == [(3,)]


def send_with_schema(topics: Topics, topic: str, number: int) -> None:
    """Send an insert in Debezium's envelope with its schema."""
    row = {"type": "struct", "optional": True, "fields": [{"field": "id", "type": "int64", "optional": False}]}
    envelope = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}, {"field": "op", "type": "string"}]}
    value = {"schema": envelope, "payload": {"before": None, "after": {"id": number}, "op": "c"}}
    topics.send(topic, ({"schema": {**row, "optional": False}, "payload": {"id": number}}, value))


def test_poison_stops_its_table_until_it_is_skipped(topics: Topics, make_road: MakeRoad) -> None:
    road, orders, items = two_topics(topics, make_road)
    topics.send(orders, ({"id": 8}, {"id": 8}), ({"id": 9}, b"{not json"), ({"id": 9}, {"id": "x"}), ({"id": 10}, {"id": 10}))
    topics.send(items, ({"id": 8}, {"id": 8}))
    road.load()
    places = [note.body["place"] for note in road.notes()]
    assert places == [f"{orders}:0:6", f"{orders}:0:7"] and (8,) in road.rows("items")
    assert (8,) in road.rows("orders") and (10,) not in road.rows("orders")
    with pytest.raises(ConfigError, match=f"what stops it: shop.orders at {orders}:0:6"):
        service.skip(road.settings, road.store, PIPELINE, "orders", f"{orders}:0:5", "wrong place", by="test")
    skip(road)
    road.load()
    assert (10,) in road.rows("orders") and not road.notes()


def test_what_is_refused_before_anything_is_read(topics: Topics, make_road: MakeRoad) -> None:
    road = make_road(plain(topics, "shop.orders", id="bigint"))
    with pytest.raises(TopicRefused, match=f"topic {topics.name('shop.orders')} is not on the broker kafka"):
        road.begin()
    topics.make("shop.orders")
    given = f"start: {{{topics.name('shop.orders')}: {{0: 3}}}}"
    with pytest.raises(ConfigError, match="has offsets from 0 to 0, and no 3"):
        make_road(plain(topics, "shop.orders", id="bigint") + f"\n{given}").begin()
    road.begin()
    other = {**road.offset, "server": "another"}
    parts.record_batch(road.store, PIPELINE, [], {}, other)
    with pytest.raises(SourceReplaced, match="leads to another cluster"):
        road.begin()._stage_next()


def test_a_damaged_part_is_read_from_its_topic_again(topics: Topics, make_road: MakeRoad) -> None:
    orders = topics.make("shop.orders", partitions=2)
    road = make_road(plain(topics, "shop.orders", id="bigint") + "\nmax_messages: 30")
    for begin in (0, 100):
        topics.send(orders, *(({"id": number}, {"id": number}) for number in range(begin, begin + 50)))
        road.stage()
    listed = parts.list_parts(road.store, PIPELINE, "shop.orders", 0)
    for part in listed[1:3]:
        (road.folder / "staging" / part.path).write_bytes(b"damaged")
    road.root.put(NOTE, pipelines.begin(road.store, PIPELINE).encode())
    road.merge()
    road.merge()
    assert [number for (number,) in road.rows("orders")] == [*range(50), *range(100, 150)]
    [gone] = topics.admin.delete_records([TopicPartition(orders, 0, 10)]).values()
    gone.result()
    damaged = next(part for part in listed if part.first == listed[0].first)
    (road.folder / "staging" / damaged.path).write_bytes(b"damaged")
    with pytest.raises(PartsGone, match="cannot be staged again"):
        restage(road.settings, road.store, PIPELINE, road.root, "shop.orders")
