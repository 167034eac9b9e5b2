"""Topics of plain messages as a source: upserts and tombstones, several partitions, restarts, and what is never read."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest

from auditor.durations import durations
from auditor.pipeline.events import message_position
from auditor.pipeline.kafka.topic_sources import KafkaTopics
from auditor.pipeline.source import EVENT_TYPE
from auditor.pipeline.watch import Watch
from auditor.store import parts
from tests.pipeline.read_topics.conftest import MakeRoad
from tests.pipeline.read_topics.topics import Topics, plain

pytestmark = pytest.mark.kafka


def test_upserts_and_tombstones(topics: Topics, make_road: MakeRoad) -> None:
    topic = topics.make("shop.orders", partitions=3)
    road = make_road(plain(topics, "shop.orders", id="bigint", item="varchar(40)"))
    topics.send(topic, *(({"id": number}, {"id": number, "item": f"a{number}"}) for number in range(10)))
    road.load()
    assert road.rows("orders") == [(number, f"a{number}") for number in range(10)]
    topics.send(topic, ({"id": 3}, {"id": 3, "item": "b"}), ({"id": 4}, None), ({"id": 11}, {"id": 11, "item": None}))
    road.load()
    expected: dict[int, Any] = {number: f"a{number}" for number in range(10)} | {3: "b", 11: None}
    del expected[4]
    assert road.rows("orders") == sorted(expected.items())
    assert topics.committed(road.group) == road.read_up_to()
    assert sum(road.read_up_to().values()) == 13


@pytest.mark.slow
def test_keys_stay_in_order_over_partitions_and_restarts_at_any_point(topics: Topics, make_road: MakeRoad) -> None:
    topic = topics.make("shop.orders", partitions=4)
    road = make_road(plain(topics, "shop.orders", id="bigint", item="int") + "\nmax_messages: 37")
    expected: dict[int, int] = {}
    numbers = random.Random(7)
    for _ in range(4):
        messages: list[tuple[Any, Any]] = []
        for step in range(100):
            key = numbers.randrange(25)
            expected.pop(key, None)
            if numbers.random() < 0.8:
                expected[key] = step
                messages.append(({"id": key}, {"id": key, "item": step}))
            else:
                messages.append(({"id": key}, None))
        topics.send(topic, *messages)
        fails = numbers.randrange(3)

        def crash(function: Any, tasks: Any, fails: int = fails) -> Any:
            if fails == 0:
                raise KeyboardInterrupt  # before any task
            done = [function(task) for task in tasks]
            if fails == 1:
                raise KeyboardInterrupt  # with files that no store lists
            return done

        driver = road.begin(crash)
        with pytest.raises(KeyboardInterrupt) if fails < 2 else nullcontext():
            driver._stage_next()
        road.begin()
        road.load()
        assert road.rows("orders") == sorted(expected.items())
    assert sum(road.read_up_to().values()) == 400


def test_a_batch_that_is_planned_again_has_the_same_positions(topics: Topics, make_road: MakeRoad) -> None:
    for table in ("shop.orders", "shop.items"):
        topics.send(topics.make(table, partitions=2), *(({"id": number}, {"id": number}) for number in range(20)))
    road = make_road(plain(topics, "shop.orders", "shop.items", id="bigint"))
    driver = road.begin()
    reader = KafkaTopics({"config": str(road.config_file), "pipeline": "shop"}).streamReader(EVENT_TYPE)
    start = road.offset
    end = reader.latestOffset(start)

    def places() -> list[tuple[str, int, list[str]]]:
        read = [row for task in reader.partitions(start, end) for batch in reader.read(task) for row in batch.to_pylist()]
        return [(row["table"], row["position"], row["after"]) for row in read if row["kind"] != "schema"]

    found = places()
    assert len({position for _, position, _ in found}) == len(found) == 40
    assert found == places() and [position for _, position, _ in found] == [message_position(number + 1) for number in range(40)]
    reader.stop()
    assert driver._stage_next() is not None and road.offset == end


@pytest.mark.slow
def test_there_is_no_rest_while_more_than_a_batch_waits(topics: Topics, make_road: MakeRoad) -> None:
    road = make_road(plain(topics, "shop.orders", id="bigint", item="int") + "\nmax_messages: 4")
    topic = topics.make("shop.orders")
    topics.send(topic, *(({"id": number}, {"id": number, "item": number}) for number in range(10)))
    driver = road.begin()
    first, second, last = (driver._stage_next() for _ in range(3))
    assert first == second == 0.0 and last is not None and last > 0.0, "the third one has all that there is"
    assert driver._stage_next() is None


@pytest.mark.slow
def test_only_committed_transactions_are_read(topics: Topics, make_road: MakeRoad) -> None:
    topic = topics.make("shop.orders")
    road = make_road(plain(topics, "shop.orders", id="bigint", item="varchar(9)"))
    with topics.producing(**{"transactional.id": topic}) as producer:
        producer.init_transactions(30)
        for number, commits in enumerate([True, False, True, False]):
            producer.begin_transaction()
            for key in range(3):
                producer.produce(topic, key=f'{{"id": {key}}}', value=f'{{"id": {key}, "item": "{number}"}}')
            producer.flush(30)
            producer.commit_transaction(30) if commits else producer.abort_transaction(30)
        road.load()
        assert road.rows("orders") == [(key, "2") for key in range(3)]
        assert sum(part.rows for part in parts.list_parts(road.store, "shop", "shop.orders", 0)) == 6
        assert road.read_up_to() == {(topic, 0): 16}  # with four markers
        producer.begin_transaction()
        producer.produce(topic, key='{"id": 0}', value='{"id": 0, "item": "open"}')
        producer.flush(30)
        topics.send(topic, ({"id": 9}, {"id": 9, "item": "behind"}))
        assert road.stage() == 0  # until the transaction before it is decided
        watch = Watch(road.store, road.settings, "shop")
        assert not watch.check().warnings
        with durations.overridden(transaction_open=0.0):
            [warning] = watch.check().warnings
        assert f"partition 0 of the topic {topic} is read up to offset 16: a producer's transaction stands open there" in warning
        producer.abort_transaction(30)
    road.load()
    assert road.rows("orders") == [*((key, "2") for key in range(3)), (9, "behind")]


def test_masks_subsets_routes_and_computed_columns(topics: Topics, make_road: MakeRoad) -> None:
    topic = topics.make("shop.orders")
    more = """\
columns:
  orders:
    exclude: [secret]
    mask: [mail]
    where: "qty > 0"
    compute: {double: {kind: integer, expr: "qty + qty"}}
    table: [{name: orders_eu, when: "land = 'de'"}]
"""
    columns = {"id": "bigint", "qty": "int", "land": "varchar(2)", "mail": "varchar(40)", "secret": "varchar(9)"}
    road = make_road(plain(topics, "shop.orders", **columns), more)

    def row(number: int, qty: int, land: str) -> tuple[Any, Any]:
        return {"id": number}, {"id": number, "qty": qty, "land": land, "mail": "a@b", "secret": "x"}

    topics.send(topic, row(1, 5, "de"), row(2, 5, "fr"), row(3, 0, "fr"), row(4, 7, "de"))
    road.load()
    topics.send(topic, row(4, 8, "fr"), row(2, 0, "fr"), ({"id": 9}, None))
    road.load()
    found = [tuple(value for place, value in enumerate(one) if place != 3) for one in road.rows("orders_eu") + road.rows("orders")]
    assert found == [(1, 5, "de", 10), (4, 8, "fr", 16)]
    assert all(len(one[3]) == 32 for one in road.rows("orders_eu"))
