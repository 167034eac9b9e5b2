"""Topics that are not what was written into them are told by name, and stop their tables alone; targets that others filled are refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from auditor.config import load
from auditor.errors import ConfigError
from auditor.model import Part
from auditor.pipeline.events import TableSchema
from auditor.points import armed
from auditor.service import pipelines as service
from auditor.store import open_store, parts, pipelines, refreshes
from auditor.store.refreshes import RefreshScope
from tests.pipeline.kafka.topic_road import PIPELINE, TARGET, Made, TopicRoad, read
from tests.pipeline_events import announce, batch, insert, refresh, table, update

ORDERS = table(id="int", item="varchar(20) null")
NOTES = table("notes", id="int", body="text null")

pytestmark = pytest.mark.kafka


def comes(schema: TableSchema, position: int, *rows: Any) -> list[dict[str, object]]:
    """Inserts at a position, with the schema before them."""
    return announce(schema, position) + insert(schema, position, *rows)


def begin(road: TopicRoad) -> AdminClient:
    """Publish an order and a note, and return a client that changes topics."""
    road.stage(batch(comes(ORDERS, 10, ["1", "pen"])), batch(comes(NOTES, 10, ["1", "a"])))
    road.publish()
    return AdminClient({"bootstrap.servers": road.server})


def go_on(road: TopicRoad, position: int = 20, anew: bool = True) -> str:
    """Stage a further row of both tables, publish twice, and return why the orders do not go on; the notes do."""
    count = len(road.messages("shop.notes"))
    road.stage(batch(comes(ORDERS, position, [str(position), "ink"])), batch(comes(NOTES, position, [str(position), "b"])))
    road.publish(anew=anew)
    road.publish()
    road.publish()
    assert len(road.messages("shop.notes")) == count + 1 and road.report("shop.notes") == ("merged", "")
    return road.report()[1]


def wait(asked: Any) -> None:
    """Wait for what an admin was asked for."""
    for answer in asked.values():
        answer.result(20)


def produce(server: str, topic: str, transaction: str = "", *, commits: bool = True) -> Producer:
    """Send a message that is not the publisher's, in a transaction if one is named."""
    producer = Producer({"bootstrap.servers": server, **({"transactional.id": transaction} if transaction else {}), "log_level": 0})
    if transaction:
        producer.init_transactions(20)
        producer.begin_transaction()
    producer.produce(topic, b"{}", b"foreign", partition=0)
    producer.flush(20)
    if transaction and commits:
        producer.commit_transaction(20)
    return producer


@pytest.mark.quick_for("running")
@pytest.mark.parametrize("anew", [True, False], ids=["restart", "running"])
def test_partitions_that_were_added_stop_the_table(road: TopicRoad, anew: bool) -> None:
    admin = begin(road)
    wait(admin.create_partitions([NewPartitions(f"{road.prefix}.shop.orders", 3)]))
    assert "has 3 partitions now, and had 1" in go_on(road, anew=anew)
    assert len(road.messages()) == 1


@pytest.mark.quick_for("running")
@pytest.mark.parametrize("anew", [True, False], ids=["restart", "running"])
def test_a_topic_that_was_deleted_and_made_again_stops_the_table(road: TopicRoad, anew: bool) -> None:
    admin, name = begin(road), f"{road.prefix}.shop.orders"
    wait(admin.delete_topics([name]))
    wait(admin.create_topics([NewTopic(name, 1, config={"cleanup.policy": "compact"})]))
    assert "was deleted and made again" in go_on(road, anew=anew)
    assert road.messages() == []


def test_a_topic_that_is_gone_stops_the_table_and_is_not_made_again(road: TopicRoad) -> None:
    admin, name = begin(road), f"{road.prefix}.shop.orders"
    wait(admin.delete_topics([name]))
    assert "is gone" in go_on(road)
    assert name not in admin.list_topics(timeout=10).topics


def test_messages_of_others_stop_the_table_and_those_that_were_aborted_do_not(road: TopicRoad) -> None:
    begin(road)
    aborted = produce(road.server, f"{road.prefix}.shop.orders", f"{road.prefix}-other", commits=False)
    aborted.abort_transaction(20)
    assert go_on(road) == ""
    produce(road.server, f"{road.prefix}.shop.orders", f"{road.prefix}-other")
    assert "has messages that this pipeline did not write" in go_on(road, 30)
    assert [message.key() for message in road.messages()] == [b'{"id":1}', b'{"id":20}', b"foreign"]


def test_a_topic_that_had_messages_is_refused(road: TopicRoad) -> None:
    admin, name = AdminClient({"bootstrap.servers": road.server}), f"{road.prefix}.shop.orders"
    wait(admin.create_topics([NewTopic(name, 1, config={"cleanup.policy": "compact"})]))
    produce(road.server, name)
    begin(road)
    assert "has messages, and shop.orders was never published into it" in go_on(road)
    assert [message.key() for message in road.messages()] == [b"foreign"]


def test_a_topic_of_an_earlier_time_stops_the_table(road: TopicRoad) -> None:
    begin(road)
    [record] = [message for message in road.messages("positions") if message.key() == b'{"table":"shop.orders"}']
    said = json.loads(record.value() or b"")
    producer = Producer({"bootstrap.servers": road.server})
    producer.produce(f"{road.prefix}.positions", json.dumps({**said, "ends": [1000]}), record.key())
    producer.flush(20)
    assert "ends at offset 2, and messages up to 1000 were written" in go_on(road)


def test_what_cleanup_deletes_is_not_missed(made: Made) -> None:
    road = made.road(cleanup="delete")
    admin = begin(road)
    wait(admin.delete_records([TopicPartition(f"{road.prefix}.shop.orders", 0, -1)]))
    assert go_on(road) == "" and [value["after"]["id"] for value in road.values()] == [20]


def test_a_killed_producers_transaction_is_invisible_and_stops_nothing(road: TopicRoad) -> None:
    def end() -> None:
        raise KeyboardInterrupt

    begin(road)
    road.stage(batch(comes(ORDERS, 15, ["15", "ink"])))
    with armed("publish.commit", end), pytest.raises(KeyboardInterrupt):
        road.publish()
    road.publishers[-1]._writer = None  # as when its process was killed: it says no word to the broker
    assert go_on(road) == "" and [value["after"]["id"] for value in road.values()] == [1, 15, 20]


def test_two_producers_at_once_write_nothing_twice(road: TopicRoad) -> None:
    begin(road)
    first, second = road.publishers[-1], road.publisher()
    for position in range(20, 26):
        road.stage(batch(comes(ORDERS, position, [str(position), "ink"])))
        (second if position % 2 else first).publish_all()
        (first if position % 2 else second).publish_all()
    second.publish_all()
    assert [value["after"]["id"] for value in road.values()] == [1, 20, 21, 22, 23, 24, 25]


def test_tables_with_one_topic_name_are_refused(made: Made) -> None:
    road = made.road(topic=f"{made.folder.name}.{{table}}")
    other = TableSchema("mall", "orders", ORDERS.columns, ORDERS.key)
    rows = [{**one, "database": "mall"} for one in comes(other, 11, ["1", "pen"])]
    changes = table("changes", id="int")
    road.configure(schema_changes=f"{made.folder.name}.changes")
    road.stage(batch(comes(ORDERS, 10, ["1", "pen"])), batch(rows), batch(comes(changes, 12, ["1"])))
    road.publish()
    assert {road.report("mall.orders")[0], road.report()[0]} == {"merged", "stopped"}
    assert "shop.orders and mall.orders would both be topic" in road.report()[1]
    assert "is the target's schema_changes" in road.report("shop.changes")[1]


def test_targets_with_the_same_topics_are_refused(road: TopicRoad) -> None:
    values = json.loads(road.config_file.read_text())
    targets = values["pipelines"][PIPELINE]["targets"]
    targets["again"] = {**targets[TARGET], "positions": "others", "schema_changes": None}
    road.config_file.write_text(json.dumps(values))
    with pytest.raises(ConfigError, match=r"target feed\.events publishes into the same topics"):
        load(road.config_file)


def test_a_table_without_a_key_is_refused_by_topics_that_are_compacted(made: Made) -> None:
    keyless = table("log", (), line="text")
    rows = [[str(number)] for number in range(50)]
    road = made.road()
    road.stage(batch(comes(keyless, 10, *rows)), batch(comes(NOTES, 10, ["1", "a"])))
    road.publish()
    assert "has no primary key" in road.report("shop.log")[1] and len(road.messages("shop.notes")) == 1
    road = made.road(cleanup="delete", partitions=3)
    road.stage(batch(comes(keyless, 10, *rows)))
    road.publish()
    found = read(road.server, f"{road.prefix}.shop.log")
    assert {(message.partition(), message.key()) for message in found} == {(0, None)}
    assert [value["after"]["line"] for value in road.values("shop.log")] == [line for [line] in rows]


def test_a_positions_topic_that_was_deleted_is_refused_until_the_target_is_reset(road: TopicRoad) -> None:
    admin = begin(road)
    wait(admin.delete_topics([f"{road.prefix}.positions"]))
    road.stage(batch(comes(ORDERS, 20, ["20", "ink"])))
    road.publish(anew=True)
    state, why = road.report()
    assert state == "stopped" and "the positions topic says nothing, and tables were published before" in why
    assert len(road.messages()) == 1
    road.publishers[-1].close()
    service.reset_target(road.settings, road.store, PIPELINE, TARGET)
    road.configure(topic=f"{road.prefix}-anew.{{database}}.{{table}}")
    road.publish(anew=True)
    found = read(road.server, f"{road.prefix}-anew.shop.orders")
    assert [json.loads(message.value() or b"")["after"]["id"] for message in found] == [1, 20] and road.report() == ("merged", "")


def test_a_reset_target_begins_anew_in_new_topics(road: TopicRoad) -> None:
    begin(road)
    road.publishers[-1].close()
    service.reset_target(road.settings, road.store, PIPELINE, TARGET)
    road.configure(topic=f"{road.prefix}-anew.{{database}}.{{table}}")
    assert road.publish(anew=True) == 2 and len(read(road.server, f"{road.prefix}-anew.shop.orders")) == 1


def test_a_store_of_an_earlier_time_is_refused(road: TopicRoad) -> None:
    begin(road)
    with closing(sqlite3.connect(road.folder / "auditor.db")) as now, closing(sqlite3.connect(road.folder / "earlier.db")) as copy:
        now.backup(copy)
    road.stage(batch(comes(ORDERS, 20, ["20", "ink"])))
    road.publish()
    road.publishers[-1].close()
    road.store.close()
    for name in ("auditor.db-wal", "auditor.db-shm"):
        (road.folder / name).unlink(missing_ok=True)
    shutil.copy(road.folder / "earlier.db", road.folder / "auditor.db")
    assert road.settings.store
    road.store = open_store(road.settings.store.url)
    road.publish(anew=True)
    assert "the store is older" in road.report()[1] and len(road.messages()) == 2


def test_topics_of_another_life_of_the_pipeline_are_refused(road: TopicRoad) -> None:
    begin(road)
    road.publishers[-1].close()
    pipelines.forget(road.store, PIPELINE)
    parts.forget(road.store, PIPELINE)
    road.stage(batch(comes(ORDERS, 20, ["20", "ink"])))
    road.publish(anew=True)
    assert "was filled by incarnation" in road.report()[1] and len(road.messages()) == 1


def prune(road: TopicRoad, position: int) -> Sequence[Part]:
    """Delete the parts up to a position, as if another target held them."""
    pipelines.report_merges(road.store, PIPELINE, "other", {"shop.orders": pipelines.MergeNews(position, "merged")})
    deleted = parts.delete_passed(road.store, PIPELINE, -1, targets=["other"])
    assert deleted
    return deleted


def test_a_late_target_begins_with_a_table_once_all_its_rows_were_sent_again(road: TopicRoad) -> None:
    road.stage(batch(comes(ORDERS, 10, ["1", "a"], ["2", "b"])))
    road.stage(batch(comes(ORDERS, 20, ["3", "c"])), batch(comes(NOTES, 11, ["1", "a"])))
    prune(road, 20)
    road.publish()
    state, why = road.report()
    assert state == "stopped" and "auditor pipeline refresh feed --table shop.orders" in why and len(road.messages("shop.notes")) == 1
    nothing = [None, None]
    road.stage(batch(refresh(ORDERS, 30, ["1", "A"], ["2", "b"], bounds=(nothing, ["2", None]))))
    road.stage(batch(update(ORDERS, 35, (["1", "A"], ["1", "AA"]))), batch(comes(NOTES, 36, ["2", "b"])))
    road.stage(batch(refresh(ORDERS, 40, ["3", "c"], bounds=(["2", None], nothing))))
    asked = refreshes.request_refresh(road.store, PIPELINE, "shop.orders", RefreshScope(), "ada")
    progress = {"begin": ["binlog.000000", 22, "server", 0], "end": ["binlog.000000", 40, "server", 0]}
    refreshes.save_progress(road.store, asked.refresh, "done", progress)
    parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": 0, "file": "binlog.000000", "position": 41, "server": "server"})
    road.publish()
    assert road.report() == ("merged", ""), "the same publisher goes on by itself"
    assert sorted(row["item"] for row in road.table().values()) == ["AA", "b", "c"]
    assert road.whole()["apart"] == [] and road.whole()["position"] == 40
