"""In which partition messages are, in which order, up to where tables are published together, and what messages say of transactions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from auditor.pipeline import publisher as module
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.kafka.topics import list_ends
from auditor.store import pipelines
from tests.pipeline.kafka.topic_road import PIPELINE, TARGET, Made, TopicRoad, headers_of, read
from tests.pipeline_events import announce, batch, delete, insert, note, refresh, table, update
from tests.servers import kafka
from tests.servers.process import Unavailable

ORDERS = table(id="int", item="varchar(20) null")
NOTES = table("notes", id="int", body="text null")

JAVAS = {
    b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, b"abc": 479470107,
}  # fmt: skip
"""What the Java client's murmur2 returns.
https://github.com/apache/kafka/blob/4.0/clients/src/test/java/org/apache/kafka/common/utils/UtilsTest.java"""

pytestmark = pytest.mark.kafka


def comes(schema: TableSchema, position: int, *rows: Any) -> list[dict[str, object]]:
    """Inserts at a position, with the schema before them."""
    return announce(schema, position) + insert(schema, position, *rows)


def murmur2(key: bytes) -> int:
    """Return the Java client's hash of a key, as 32 bits with a sign."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    found = 0x9747B28C ^ len(key)
    for start in range(0, len(key) & ~3, 4):
        word = int.from_bytes(key[start : start + 4], "little") * factor & mask
        found = (found * factor & mask) ^ ((word ^ word >> 24) * factor & mask)
    if rest := key[len(key) & ~3 :]:
        found = (found ^ int.from_bytes(rest, "little")) * factor & mask
    found = (found ^ found >> 13) * factor & mask
    found ^= found >> 15
    return found - (1 << 32) if found >> 31 else found


def test_keys_are_in_the_partitions_of_the_java_client(made: Made) -> None:
    assert {key: murmur2(key) for key in JAVAS} == JAVAS
    road = made.road(partitions=7)
    road.stage(batch(comes(ORDERS, 10, *([str(number), "pen"] for number in range(-50, 250)))))
    road.publish()
    ours = {message.key(): message.partition() for message in road.messages()}
    assert ours == {key: (murmur2(key) & 0x7FFFFFFF) % 7 for key in ours if key} and len(ours) == 300
    plain = f"{road.prefix}.plain"
    admin = AdminClient({"bootstrap.servers": road.server})
    admin.create_topics([NewTopic(plain, 7)])[plain].result(20)
    producer = Producer({"bootstrap.servers": road.server, "partitioner": "murmur2_random"})
    for key in [*ours, *JAVAS]:
        producer.produce(plain, b"", key)
    producer.flush(20)
    theirs = {message.key(): message.partition() for message in read(road.server, plain)}
    assert theirs == ours | {key: (value & 0x7FFFFFFF) % 7 for key, value in JAVAS.items()}


def test_places_are_unique_and_increase_for_each_key(made: Made) -> None:
    road = made.road(partitions=3, max_transaction=5)
    for position in range(10, 60):
        key = str(position % 7)
        road.stage(batch(comes(ORDERS, position, [key, "a"]), update(ORDERS, position, ([key, "a"], [key, "b"]))[:0]))
        road.stage(batch(announce(ORDERS, position), update(ORDERS, position + 1000, ([key, "a"], [key, "b"]))))
    road.publish()
    places: dict[bytes, list[tuple[int, int]]] = {}
    for message in road.messages():
        place, row, schema, _ = headers_of(message)["auditor"].split(".")
        assert schema == ORDERS.id
        places.setdefault(message.key() or b"", []).append((int(place), int(row)))
    assert len(places) == 7 and all(found == sorted(set(found)) for found in places.values())


def test_a_key_that_changes_goes_and_comes_with_the_keys_in_headers(road: TopicRoad) -> None:
    road.stage(batch(comes(ORDERS, 10, ["1", "pen"]), update(ORDERS, 11, (["1", "pen"], ["2", "pen"]))))
    road.publish()
    _, gone, tombstone, come = road.messages()
    assert json.loads(headers_of(gone)["__debezium.newkey"]) == {"id": 2} and json.loads(headers_of(come)["__debezium.oldkey"]) == {"id": 1}
    assert (tombstone.key(), tombstone.value()) == (b'{"id":1}', None)
    assert [headers_of(one)["auditor"] for one in (gone, tombstone, come)] == [f"11.0.{ORDERS.id}.{number}" for number in (1, 2, 3)]


def test_a_table_that_was_behind_catches_up_in_small_transactions_without_a_gap(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    road = made.road(max_transaction=3)
    road.stage_task(batch(comes(ORDERS, 10, ["10", "pen"])), batch(comes(NOTES, 11, ["11", "a"])))
    road.publish()
    reason = "the test's own"
    road.stage_task(batch(note("poison", "orders", 20, {"stage": "decoding", "reason": reason, "of": 1}, events=1)))
    for position in range(21, 41):
        road.stage_task(batch(comes(ORDERS, position, [str(position), "pen"])), batch(comes(NOTES, position, [str(position), "a"])))
    road.publish()
    assert road.report() == ("stopped", reason) and road.whole()["apart"] == ["shop.orders"] and road.whole()["position"] == 40
    assert len(road.messages("shop.notes")) == 21 and len(road.messages()) == 1
    road.publish(anew=True)
    road.skip(20)
    road.stage_task(batch(comes(NOTES, 41, ["41", "a"])))
    sent, transact = list[int](), module.Publisher._transact

    def first_two(publisher: module.Publisher, *given: Any) -> int:
        if len(sent) == 2:
            raise KeyboardInterrupt
        sent.append(transact(publisher, *given))
        return sent[-1]

    monkeypatch.setattr(module.Publisher, "_transact", first_two)
    with pytest.raises(KeyboardInterrupt):
        road.publish()
    monkeypatch.undo()
    assert road.whole()["apart"] == ["shop.orders"], "it is not as far as the others yet"
    road.publish(anew=True)
    assert [value["after"]["id"] for value in road.values()] == [10, *range(21, 41)]
    assert [value["after"]["id"] for value in road.values("shop.notes")] == [11, *range(21, 42)]
    assert road.whole()["apart"] == [] and road.whole()["position"] == 41


def test_a_new_table_far_behind_the_others_position_is_published_whole(road: TopicRoad) -> None:
    road.stage_task(batch(note("poison", "orders", 5, {"stage": "decoding", "reason": "the test's own", "of": 1}, events=1)))
    road.stage_task(batch(comes(ORDERS, 6, ["6", "pen"])), batch(comes(NOTES, 100, ["1", "a"])))
    road.publish()
    assert road.whole()["position"] == 100 and len(road.messages("shop.notes")) == 1
    road.skip(5)
    road.publish()
    assert [value["after"]["id"] for value in road.values()] == [6] and road.report() == ("merged", "")


def test_statements_that_do_nothing_leave_no_table_behind(road: TopicRoad) -> None:
    """A table that waited, and has nothing left but CREATE TABLE IF NOT EXISTS, is as far as the others."""
    road.stage_task(batch(comes(ORDERS, 10, ["1", "pen"])), batch(comes(NOTES, 10, ["1", "a"])))
    road.publish()
    poison = note("poison", "orders", 20, {"stage": "decoding", "reason": "the test's own", "of": 1}, events=1)
    added = note("change", "orders", 21, {"ops": [{"op": "add", "column": "fee", "value": {"text": "1"}}]})
    made = note("change", "orders", 22, {"ops": [{"op": "create", "sure": False}], "advances": True})
    road.stage_task(batch(poison, added, made), batch(comes(NOTES, 23, ["2", "a"])))
    road.publish()
    road.skip(20)
    road.stage_task(batch(comes(NOTES, 24, ["3", "a"])))
    road.publish()
    count = road.whole()["batch"]
    assert road.whole()["apart"] == [] and road.publish() == 0 and road.whole()["batch"] == count


def test_a_damaged_part_stops_its_table_alone_and_no_transaction_stays_open(road: TopicRoad) -> None:
    road.stage(batch(comes(NOTES, 10, ["1", "a"])))
    [part] = road.stage(batch(comes(ORDERS, 11, ["1", "pen"])))
    content = (Path(str(folder_at(str(road.root)))) / part.path).read_bytes()
    (road.root / part.path).write_bytes(content[:-40] + bytes(40))
    road.publish()
    assert len(road.messages("shop.notes")) == 1 and road.report()[0] in ("stopped", "delayed")
    (road.root / part.path).write_bytes(content)
    road.publish()
    assert road.report() == ("merged", "") and len(road.messages()) == 1


def test_transactions_are_told_with_as_many_messages_as_topics_have(made: Made) -> None:
    road = made.road(transactions=f"{made.folder.name}-transactions", cleanup="delete")
    rows = [["1", "pen"], ["2", "ink"]]
    bounds = ([None, None], ["2", None])
    road.stage(
        batch(
            comes(ORDERS, 10, *rows),
            update(ORDERS, 11, (rows[0], ["3", "pen"])),
            delete(ORDERS, 12, rows[1]),
            refresh(ORDERS, 13, ["3", "pen"], bounds=bounds),
        ),
        batch(comes(NOTES, 10, ["1", "a"])),
    )
    road.publish()
    told = [json.loads(message.value() or b"") for message in read(road.server, f"{made.folder.name}-transactions")]
    assert [one["status"] for one in told] == ["BEGIN", "END"] * 4
    ends = {one["id"]: one for one in told if one["status"] == "END"}
    found: dict[str, Counter[str]] = {}
    for name in ("shop.orders", "shop.notes"):
        for value in road.values(name):
            if value:
                found.setdefault(value["transaction"]["id"], Counter())[name] += 1
    counted = {name: Counter({one["data_collection"]: one["event_count"] for one in end["data_collections"]}) for name, end in ends.items()}
    assert counted == found and {name: end["event_count"] for name, end in ends.items()} == {
        name: sum(one.values()) for name, one in found.items()
    }


def test_a_report_that_was_lost_is_made_up_by_the_next_publisher(road: TopicRoad) -> None:
    road.stage(batch(comes(ORDERS, 10, ["1", "pen"])))
    road.publish()
    pipelines.report_merges(road.store, PIPELINE, TARGET, {"shop.orders": pipelines.MergeNews(5, "delayed", "the broker was away")})
    road.publish(anew=True)
    assert road.report() == ("merged", "")
    assert pipelines.list_merges(road.store, PIPELINE, TARGET)[TARGET]["shop.orders"].position == 10


@pytest.mark.slow
def test_a_broker_that_begins_again_is_met_again(tmp_path: Path, empty_store: Path) -> None:
    try:
        broker = kafka.start_private(tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    made = Made(tmp_path, broker.server, "", empty_store)
    try:
        road = made.road()
        road.stage(batch(comes(ORDERS, 10, ["1", "pen"])))
        road.publish()
        wait_for_markers(road)
        broker.kill()
        road.stage(batch(comes(ORDERS, 20, ["2", "ink"])))
        starting = Thread(target=broker.start)
        starting.start()
        while not road.publish():
            assert road.report()[0] == "delayed", road.report()
        starting.join()
        assert [value["after"]["id"] for value in road.values()] == [1, 2] and road.report() == ("merged", "")
    finally:
        for one in made.roads:
            one.close()
        broker.stop()


def wait_for_markers(road: TopicRoad) -> None:
    """Wait until the broker has ended the transactions whose commits it confirmed: a single one that is killed before forgets to."""
    admin = AdminClient({"bootstrap.servers": road.server})
    places = [(f"{road.prefix}.{name}", 0) for name in ("positions", "changes", "shop.orders")]
    while list_ends(admin, places, 10) != list_ends(admin, places, 10, committed=False):
        pass


def test_a_transaction_that_the_broker_forgot_to_end_is_refused_and_not_sent_again(road: TopicRoad) -> None:
    road.stage(batch(comes(ORDERS, 10, ["1", "pen"])))
    road.publish()
    producer = Producer({"bootstrap.servers": road.server, "transactional.id": f"{road.prefix}-hanging"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(f"{road.prefix}.positions", b"{}", b"{}")
    producer.flush(20)
    road.publish(anew=True)
    assert road.publish() == 0 and "is neither committed nor aborted" in road.report()[1]
    producer.abort_transaction(20)
    road.publish()
    assert road.report() == ("merged", "") and len(road.messages()) == 1
