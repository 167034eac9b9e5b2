"""Two zones that read one topic cut its partitions alike, whatever was killed; what one of them lost is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from auditor.cli import main
from auditor.model import Verdict
from auditor.pipeline.kafka.offsets import Range
from auditor.pipeline.kafka.topic_reading import Gap, read_range
from auditor.service import segment_files
from auditor.store import parts, pipelines
from tests.pipeline.read_topics.topics import Topics, plain
from tests.pipeline.read_topics.zones import AUDIT, EAST, Zones, configure
from tests.staged_files import Rows

pytestmark = pytest.mark.kafka

COLUMNS = {"id": "bigint", "tenant_id": "varchar(20)", "item": "varchar(40)"}
HOUR = 3_600_000
BEGAN = 1_700_000_400_000 // HOUR * HOUR
"""Milliseconds since 1970 of the first message."""


@pytest.fixture
def make_zones(tmp_path: Path, topics: Topics, empty_store: Path) -> Iterator[Callable[..., Zones]]:
    made: list[Zones] = []

    def make(source: str = "", **settings: Any) -> Zones:
        made.append(Zones(configure(tmp_path, topics, source or plain(topics, "shop.orders", **COLUMNS), **settings), empty_store))
        return made[-1]

    yield make
    for one in made:
        one.close()


def send(topics: Topics, topic: str, first: int, count: int, *, seconds: int = 10, partitions: int = 4) -> None:
    """Send rows of 7 tenants, each so many seconds after the one before, to partitions in turn."""
    with topics.producing() as producer:
        for number in range(first, first + count):
            value = f'{{"id": {number}, "tenant_id": "t{number % 7}", "item": "item {number}"}}'
            moment = BEGAN + number * seconds * 1000
            producer.produce(topic, key=f'{{"id": {number}}}', value=value, partition=number % partitions, timestamp=moment)


def of(number: int, rows: Rows) -> int:
    """The place of a row's event among some; -1 if it is not there."""
    return next(
        (place for place, one in enumerate(rows) if one["after"] and one["kind"] != "schema" and one["after"][0] == str(number)), -1
    )


def drop(rows: Rows) -> Rows:
    return [one for place, one in enumerate(rows) if place != of(214, rows)]


def change(rows: Rows) -> Rows:
    place = of(214, rows)
    return [{**one, "after": [*one["after"][:2], "ITEM"]} if number == place else one for number, one in enumerate(rows)]


def double(rows: Rows) -> Rows:
    place = of(214, rows)
    return rows[: place + 1] + rows[place:] if place >= 0 else rows


def drop_at_a_cut(rows: Rows) -> Rows:
    """Lose the first message of a segment, of row 162, and the last one before it, of row 158."""
    return [one for place, one in enumerate(rows) if place not in (of(162, rows), of(158, rows))]


DAMAGES: dict[Callable[[Rows], Rows], tuple[tuple[str, str, str], ...]] = {
    drop: (("offset 40 to offset 79", "'t4': west lacks 1 event", "event 14, at offset 53: west lacks this refresh"),),
    change: (
        ("offset 40 to offset 79", "'t4': 1 event differs", "event 14, at offset 53: column item, after: 'item 214' in east, 'ITEM'"),
    ),
    double: (("offset 40 to offset 79", "'t4': east lacks 1 event", "event 15, at offset 54: "),),
    drop_at_a_cut: (
        ("offset 0 to offset 39", "'t4': west lacks 1 event", "event 40, at offset 39: west lacks this refresh"),
        ("offset 40 to offset 79", "'t1': west lacks 1 event", "event 1, at offset 40: west lacks this refresh"),
    ),
}


@pytest.mark.slow
def test_two_zones_cut_each_partition_alike(topics: Topics, make_zones: Callable[..., Zones]) -> None:
    """Whatever their batches are; the files are the same bytes."""
    topic = topics.make("shop.orders", partitions=4, retention_ms="-1")
    zones = make_zones(by="tenant_id")
    for first in range(0, 800, 200):
        send(topics, topic, first, 200)
        zones.east.work()
    zones.west.work()
    assert zones.east.files() == zones.west.files() and len(zones.east.files()) == 24
    report = zones.run()
    assert (report.verdict, report.reasons) == (Verdict.MATCH, ("24 segments with 720 events of 4 partitions are equal",))
    cuts = [(one.first, one.last) for one in zones.east.listed("shop.orders partition 1")]
    assert cuts == [(0, 39), (40, 79), (80, 89), (90, 129), (130, 169), (170, 179)], "by 40 offsets, and where an hour passes"
    assert [(one.problems, one.findings) for one in zones.verify()] == [((), ())] * 4


def test_a_partition_of_which_no_segment_ended_is_not_said_to_be_equal(topics: Topics, make_zones: Callable[..., Zones]) -> None:
    topic = topics.make("shop.orders", partitions=2, retention_ms="-1")
    zones = make_zones(segment="rows: 20, offsets: 10, age: 1h")
    send(topics, topic, 0, 60, seconds=1, partitions=1)
    zones.work()
    report = zones.run()
    assert report.verdict is Verdict.MATCH and report.verified_through, "a partition without messages is none of these"
    zones.west.staging.change = lambda found: [one for one in found if not one["after"] or one["after"][0] != "103"]
    with topics.producing() as producer:
        for number in range(100, 108):
            producer.produce(topic, key=f'{{"id": {number}}}', value=f'{{"id": {number}}}', partition=1, timestamp=BEGAN + number)
    zones.work()
    report = zones.run()
    assert report.verdict is Verdict.UNKNOWN and report.verified_through is None
    assert report.reasons[0].startswith(
        "shop.orders partition 1: it has messages and no finished segment, so that none of them was compared"
    )
    assert "a multiple of 10 offsets" in report.reasons[0] and "of 1 partition are equal" in report.reasons[1]
    with topics.producing() as producer:
        for number in range(108, 131):
            producer.produce(topic, key=f'{{"id": {number}}}', value=f'{{"id": {number}}}', partition=1, timestamp=BEGAN + number)
    zones.work()
    report = zones.run()
    assert report.verdict is Verdict.MISMATCH and report.reasons[0].startswith("shop.orders partition 1, offset 0 to offset 19")


@pytest.mark.parametrize("damage", [one if one is change else pytest.param(one, marks=pytest.mark.slow) for one in DAMAGES])
def test_what_one_zone_staged_otherwise_is_named(topics: Topics, make_zones: Callable[..., Zones], damage: Callable[[Rows], Rows]) -> None:
    topic = topics.make("shop.orders", partitions=4, retention_ms="-1")
    zones = make_zones(by="tenant_id")
    zones.west.staging.change = damage
    send(topics, topic, 0, 400)
    zones.work()
    report = zones.run()
    assert report.verdict is Verdict.MISMATCH and len(report.reasons) == len(DAMAGES[damage]) + 1, report.reasons
    [verified] = [one for one in zones.verify("orders") if one.findings]
    for (stretch, whose, event), reason, (_, text) in zip(DAMAGES[damage], report.reasons, verified.findings, strict=False):
        assert reason.startswith(f"shop.orders partition 2, {stretch}: ") and reason.endswith(f"; by tenant_id: {whose}")
        assert text.startswith(event)
    mended = segment_files.copy(zones.settings, zones.store, AUDIT, EAST, "shop.orders", by="ada")
    assert not any(one.refused for one in mended) and zones.run().verdict is Verdict.MATCH
    send(topics, topic, 400, 400)
    zones.work()
    assert zones.run().verdict is Verdict.MATCH


@pytest.mark.slow
def test_columns_that_came_in_another_order_are_no_difference(topics: Topics, make_zones: Callable[..., Zones]) -> None:
    """One zone sees a column in an early batch that the other sees in all of its batches, or in none."""
    topic = topics.make("shop.orders", partitions=2, retention_ms="-1")
    source = f"messages: {{values: plain}}\ntopics:\n  {topic}: {{table: shop.orders}}"
    zones = make_zones(source, by="tenant_id", segment="rows: 20, offsets: 5, age: 1h")
    for first in range(0, 100, 25):
        with topics.producing() as producer:
            for number in range(first, first + 25):
                more = {"item": f"item {number}"} if number % 2 and first >= 50 else {}
                row = {"tenant_id": f"t{number % 3}", "id": number, **more}
                producer.produce(topic, key=embedded({"id": number}), value=embedded(row), partition=number % 2, timestamp=BEGAN)
        zones.east.work()
    zones.west.work()
    report = zones.run()
    assert (report.verdict, report.reasons) == (Verdict.MATCH, ("4 segments with 80 events of 2 partitions are equal",))
    assert zones.east.files() == zones.west.files()


@pytest.mark.slow
@pytest.mark.parametrize("declared", [False, True])
def test_a_tombstone_is_the_same_wherever_batches_begin(topics: Topics, make_zones: Callable[..., Zones], declared: bool) -> None:
    """It is an event unless it follows the delete of its key, whether one batch reads both or the next one reads it."""
    topic = topics.make("shop.orders", partitions=1, retention_ms="-1")
    columns = ", key: [id], columns: {id: bigint, tenant_id: varchar(20)}" if declared else ""
    source = f"topics:\n  {topic}: {{table: shop.orders{columns}}}"
    zones = make_zones(source, by="tenant_id", segment="rows: 20, offsets: 10, age: 1h")
    for number in range(0, 30, 5):
        rows = [{"id": key % 9, "tenant_id": f"t{key}"} for key in range(number, number + 5)]
        topics.send(topic, *((embedded({"id": row["id"]}), envelope("c", None, row)) for row in rows))
        deleted = rows[number % 4]
        if number % 2:
            topics.send(topic, (embedded({"id": deleted["id"]}), envelope("d", deleted, None)))
        zones.east.stage()
        topics.send(topic, (embedded({"id": deleted["id"]}), None))
        zones.east.stage()
    zones.work()
    report = zones.run()
    assert report.verdict is Verdict.MATCH, report.reasons
    assert zones.east.files() == zones.west.files()


def envelope(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> bytes:
    """A message as Debezium writes it, with its schema."""
    fields = [{"field": "id", "type": "int64", "optional": False}, {"field": "tenant_id", "type": "string", "optional": True}]
    images = [{"field": name, "type": "struct", "fields": fields, "optional": True} for name in ("before", "after")]
    schema = {"type": "struct", "fields": [*images, {"field": "op", "type": "string", "optional": False}]}
    return json.dumps({"schema": schema, "payload": {"before": before, "after": after, "op": op}}, separators=(",", ":")).encode()


def embedded(row: dict[str, Any]) -> bytes:
    """A message in JSON that brings its schema."""
    fields = [
        {"field": name, "type": "int64" if isinstance(value, int) else "string", "optional": name != "id"} for name, value in row.items()
    ]
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": row}).encode()


def remove_before(topics: Topics, topic: str, offset: int) -> None:
    """Delete the messages of partition 0 before an offset, as retention does."""
    [gone] = topics.admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    gone.result()


@pytest.mark.slow
def test_what_retention_removed_before_one_side_read_it_is_said(topics: Topics, make_zones: Callable[..., Zones]) -> None:
    topic = topics.make("shop.orders", partitions=1, retention_ms="-1")
    zones = make_zones(segment="rows: 20, offsets: 10, age: 1h")
    send(topics, topic, 0, 50, seconds=1, partitions=1)
    zones.work()
    send(topics, topic, 50, 50, seconds=1, partitions=1)
    zones.east.work()
    remove_before(topics, topic, 57)
    zones.west.work()
    send(topics, topic, 100, 50, seconds=1, partitions=1)
    zones.work()
    report = zones.run()
    assert report.verdict is Verdict.MISMATCH and len(report.reasons) == 2
    assert report.reasons[0].startswith("shop.orders partition 0, offset 40 to offset 59: other events in east and west (20 and 13)")
    gone = "the messages from offset 50 to 56 were removed, by retention or by hand, before they were read"
    assert f"; west noted of offsets 50 to 56: partition 0 of the topic {topic}: {gone}" in report.reasons[0]


@pytest.mark.slow
def test_what_compaction_removed_before_one_side_read_it_is_said(topics: Topics, make_zones: Callable[..., Zones]) -> None:
    """And what it left is compared as before; a message that the topic still has was lost by the pipeline, and nothing else is said."""
    settings = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.001", "max_compaction_lag_ms": "100"}
    topic = topics.make("shop.orders", partitions=1, **settings)
    zones = make_zones(segment="rows: 20, offsets: 10, age: 1h", by="tenant_id")
    rows = [(f'{{"id": {key}}}'.encode(), f'{{"id": {key}, "tenant_id": "t{key}"}}'.encode()) for key in range(60)]
    topics.send(topic, *rows[:40])
    zones.east.work()
    topics.send(topic, *rows[22:25], *rows[40:])
    zones.west.staging.change = lambda found: [one for one in found if not one["after"] or one["after"][0] != "30"]

    def is_compacted() -> bool:
        topics.send(topic, rows[0])  # which begins another file of the log
        with Consumer({"bootstrap.servers": topics.server, "group.id": topics.prefix, "log_level": 0}) as consumer:
            found = list(read_range(consumer, Range(topic, 0, 0, 40, 0)))
        return {22, 23, 24}.isdisjoint(one.offset() for one in found if not isinstance(one, Gap))

    topics.wait(is_compacted)
    topics.send(topic, *rows[:40])
    zones.work()
    report = zones.run()
    [reason] = [one for one in report.reasons if "offset 20 to offset 39" in one]
    assert "; by tenant_id: 't22': west lacks 1 event; 't23': west lacks 1 event; 't24': west lacks 1 event; 't30': west lacks" in reason
    assert "; the topic no longer has 3 messages that west lacks, at offsets 22 to 24: compaction or retention may have removed" in reason


def test_a_topic_that_was_made_again_ends_the_segments_of_its_table(topics: Topics, make_zones: Callable[..., Zones]) -> None:
    """Offsets are others then; no message is taken for one of before, and the verdict says why."""
    source = plain(topics, "shop.orders", "shop.items", **COLUMNS)
    orders, items = (topics.make(table, partitions=1, retention_ms="-1") for table in ("shop.orders", "shop.items"))
    zones = make_zones(source, segment="rows: 20, offsets: 10, age: 1h")
    for topic in (orders, items):
        send(topics, topic, 0, 50, seconds=1, partitions=1)
    zones.work()
    assert zones.run().verdict is Verdict.MATCH
    topics.remove(orders)
    topics.make("shop.orders", partitions=1, retention_ms="-1")
    for topic in (orders, items):
        send(topics, topic, 50, 50, seconds=1, partitions=1)
    zones.east.work()
    report = zones.run()
    assert (
        report.verdict is Verdict.UNKNOWN and f"segments of shop.orders ended, because the topic {orders} was deleted" in report.reasons[0]
    )
    segment_files.reset(zones.settings, zones.store, AUDIT, by="ada")
    zones.again(EAST).work()
    zones.west.work()
    assert [one.last for one in zones.east.listed("shop.orders partition 0")] == [19, 39]
    assert [one.last for one in zones.east.listed("shop.items partition 0")] == [19, 39, 59, 79]
    assert zones.run().verdict is Verdict.UNKNOWN


@pytest.mark.slow
def test_aborted_transactions_leave_the_same_gaps(
    topics: Topics, make_zones: Callable[..., Zones], capsys: pytest.CaptureFixture[str]
) -> None:
    """In segments that are blocks of the staging's files, by writers that begin again after each batch, with files that no store lists."""
    topic = topics.make("shop.orders", partitions=2, retention_ms="-1")
    zones = make_zones(segment="rows: 20, offsets: 10, age: 1h", is_archived=False)
    producer = Producer({"bootstrap.servers": topics.server, "transactional.id": topics.prefix, "log_level": 0})
    producer.init_transactions(20)
    for number in range(24):
        producer.begin_transaction()
        for key in range(6):
            row = f'{{"id": {key}, "tenant_id": "t{number}", "item": "item {number}"}}'
            producer.produce(topic, key=f'{{"id": {key}}}', value=row, partition=key % 2, timestamp=BEGAN)
        assert producer.flush(20) == 0  # else what is aborted would never be in the topic
        producer.abort_transaction(20) if number % 3 == 1 else producer.commit_transaction(20)
        if number % 5 == 0:
            zones.east.work()
            left = zones.east.root.path / "segments" / f"{number:019d}-0.arrows"  # type: ignore[attr-defined]
            left.parent.mkdir(exist_ok=True)
            left.write_bytes(b"of a writer that was killed")
            zones.again(EAST).work()
            zones.east.cut()
    zones.work()
    assert len(list((zones.east.root.path / "segments").glob("*-0.arrows"))) <= 1  # type: ignore[attr-defined]
    report = zones.run()
    assert (report.verdict, report.reasons) == (Verdict.MATCH, ("8 segments with 78 events of 2 partitions are equal",))
    assert [(one.problems, one.findings) for one in zones.verify("orders")] == [((), ())] * 2
    cuts = [[(one.first, one.last, one.sha256) for one in zone.listed("shop.orders partition 1")] for zone in (zones.east, zones.west)]
    assert cuts[0] == cuts[1]
    assert main(["segments", "status", AUDIT, "--config", str(zones.config_file)]) == 0
    assert "shop.orders partition 1" in capsys.readouterr().out


@pytest.mark.slow
def test_one_zone_of_another_cluster_is_refused(topics: Topics, make_zones: Callable[..., Zones]) -> None:
    topic = topics.make("shop.orders", partitions=1, retention_ms="-1")
    zones = make_zones(segment="rows: 20, offsets: 10, age: 1h")
    send(topics, topic, 0, 50, seconds=1, partitions=1)
    zones.east.work()
    body = {**pipelines.get_pipeline(zones.store, "west").source_offset, "server": "another"}
    parts.record_batch(zones.store, "west", [], {}, body)
    report = zones.run()
    assert (
        report.verdict is Verdict.UNKNOWN and "cluster another in west), whose messages have other offsets even where" in report.reasons[0]
    )
