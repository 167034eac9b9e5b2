"""Topics have what was staged: each row once, in the order of its key, under kills and errors, and with what statements did."""

from __future__ import annotations

import json
import re
import time

import pytest

from auditor.errors import BrokerUnreachable
from auditor.points import armed
from auditor.store import pipelines
from tests.pipeline.kafka.topic_road import PIPELINE, TARGET, Made, TopicRoad, number_of
from tests.pipeline_events import announce, batch, delete, insert, note, refresh, table, update

ORDERS = table("orders", ["id"], id="int", item="varchar(20) null")
NOTES = table("notes", ["id"], id="int", body="text null")
STEPS = ("begin", "sent", "commit", "committed", "report")

pytestmark = pytest.mark.kafka


def order(number: int, item: str | None) -> list[str | None]:
    return [str(number), item]


def test_rows_are_published_in_debeziums_form(road: TopicRoad) -> None:
    road.stage(
        batch(
            announce(ORDERS, 10),
            insert(ORDERS, 10, order(1, "pen"), order(2, None)),
            update(ORDERS, 11, (order(1, "pen"), order(1, "ink"))),
            delete(ORDERS, 12, order(2, None)),
            update(ORDERS, 13, (order(1, "ink"), order(3, "ink"))),
            refresh(ORDERS, 14, order(3, "ink")),
        )
    )
    assert road.publisher().publish_all() == 6
    found = [(message.key(), value and value["op"]) for message, value in zip(road.messages(), road.values(), strict=True)]
    one, two, three = (json.dumps({"id": number}, separators=(",", ":")).encode() for number in (1, 2, 3))
    assert found == [(one, "c"), (two, "c"), (one, "u"), (two, "d"), (two, None), (one, "d"), (one, None), (three, "c"), (three, "r")]
    assert road.table() == {three.decode(): {"id": 3, "item": "ink"}}
    assert [value["op"] for value in road.values() if value][2] == "u"


def test_nothing_is_published_twice(road: TopicRoad) -> None:
    road.stage(batch(announce(ORDERS, 10), insert(ORDERS, 10, order(1, "pen"))))
    assert road.publisher().publish_all() == 1
    assert road.publisher().publish_all() == 0, "another process begins where the topics are"
    road.stage(batch(announce(ORDERS, 11), insert(ORDERS, 11, order(2, "ink"))))
    assert road.publisher().publish_all() == 1
    assert len(road.values()) == 2
    merged = pipelines.list_merges(road.store, PIPELINE, TARGET)[TARGET]["shop.orders"]
    assert (merged.position, merged.events, merged.state) == (11, 2, "merged")


@pytest.mark.slow
def test_a_transaction_that_takes_too_long_says_so_and_is_tried_again(made: Made) -> None:
    road = made.road(timeout="10s")
    road.stage(batch(announce(ORDERS, 10), insert(ORDERS, 10, order(1, "pen"))))
    publisher = road.publisher()
    with armed("publish.sent", lambda: time.sleep(25)):  # the broker looks every 10 s for what stands open for too long
        publisher.publish_all()
    state, reason = road.report()
    assert state == "delayed", reason
    assert re.match(r"a transaction stood open for 2\d s, and the broker ends one after 10 s; raise timeout of the target events", reason)
    assert publisher.publish_all() == 1 and len(road.values()) == 1


@pytest.mark.quick_for("sent", "commit", "report")
@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_ends_at_any_step_leaves_neither_a_gap_nor_a_double(road: TopicRoad, step: str) -> None:
    def end() -> None:
        raise KeyboardInterrupt

    road.stage(batch(announce(ORDERS, 10), insert(ORDERS, 10, order(1, "pen"))), batch(announce(NOTES, 10), insert(NOTES, 10, ["1", "a"])))
    publisher = road.publisher()
    with armed(f"publish.{step}", end), pytest.raises(KeyboardInterrupt):
        publisher.publish_all()
    road.publisher().publish_all()
    road.stage(batch(announce(ORDERS, 11), insert(ORDERS, 11, order(2, "ink"))))
    road.publisher().publish_all()
    assert [value["after"]["id"] for value in road.values()] == [1, 2]
    assert [value["after"]["id"] for value in road.values("shop.notes")] == [1]
    assert [number_of(message) for message in road.messages()] == [0, 1], "what was undone took no numbers"
    assert [number_of(message) for message in road.messages("shop.notes")] == [0]


def test_messages_of_each_partition_are_numbered_on_by_every_publisher(made: Made) -> None:
    road = made.road(partitions=3, max_transaction=4, cleanup="delete")
    for position in range(10, 30):
        rows = [order(number, "pen") for number in range(position * 10, position * 10 + 3)]
        road.stage(batch(announce(ORDERS, position), insert(ORDERS, position, *rows)))
        road.publish(anew=position % 7 == 0)
    road.stage_task(batch(note("change", "orders", 2000, {"ops": [{"op": "clear"}], "advances": True})))
    road.publish()
    road.stage(batch(announce(ORDERS, 2001), insert(ORDERS, 2001, *(order(number, "ink") for number in range(9)))))
    road.publish(anew=True)
    found: dict[int, list[int]] = {}
    for message in road.messages():
        found.setdefault(message.partition() or 0, []).append(number_of(message))
    assert sum(map(len, found.values())) == 60 + 3 + 9
    assert all(numbers == [*range(len(numbers))] for numbers in found.values()) and len(found) == 3


def test_an_answer_that_was_lost_is_found_out_and_not_sent_again(road: TopicRoad) -> None:
    def lose() -> None:
        raise BrokerUnreachable("the test's own")

    road.stage(batch(announce(ORDERS, 10), insert(ORDERS, 10, order(1, "pen"))))
    publisher = road.publisher()
    with armed("publish.committed", lose):
        publisher.publish_all()
    publisher.clock = lambda: float("inf")
    assert publisher.publish_all() == 0
    assert len(road.values()) == 1


def test_tables_of_one_transaction_come_together(made: Made) -> None:
    road = made.road(transactions=f"{made.folder.name}-tx")
    road.stage(
        batch(announce(ORDERS, 10), insert(ORDERS, 10, order(1, "pen"), order(2, "ink"))),
        batch(announce(NOTES, 10), insert(NOTES, 10, ["1", "a"])),
    )
    road.publisher().publish_all()
    [value, second] = road.values()
    assert value["transaction"] == {"id": "0-1-10", "total_order": 1, "data_collection_order": 1}
    assert second["transaction"]["data_collection_order"] == 2
