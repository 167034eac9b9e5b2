"""Topics that a pipeline publishes as the source of another one, whose targets are only ever at ends of its transactions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from auditor.errors import SourceReplaced, TopicRefused
from auditor.model import Verdict
from auditor.pipeline.events import Position
from auditor.pipeline.incarnation import NOTE
from auditor.pipeline.kafka.topic_sources import OwnTopics
from auditor.pipeline.restaging import restage
from auditor.pipeline.segments.registering import stream_identity
from auditor.pipeline.source import EVENT_TYPE
from auditor.service import pipelines as service
from auditor.store import parts, pipelines
from tests.live import Engines
from tests.pipeline.kafka.topic_road import Made
from tests.pipeline.kafka.topic_road import TopicRoad as Feed
from tests.pipeline.read_topics.conftest import MakeRoad
from tests.pipeline.read_topics.topics import PIPELINE, TopicRoad, Topics
from tests.pipeline.read_topics.zones import Zones, configure
from tests.pipeline_events import announce, batch, delete, insert, note, table, update

ORDERS = table("orders", ["id"], id="bigint", item="varchar(20) null", price="decimal(10,2) null")
LINES = table("lines", ["id"], id="bigint", orders="bigint")
WIDER = table("orders", ["id"], id="bigint", item="varchar(20) null", price="decimal(10,2) null", note="varchar(9) null")

pytestmark = pytest.mark.kafka


@pytest.fixture
def feed(topics: Topics, made: Made) -> Feed:
    """A pipeline that publishes into topics of several partitions, without schemas beside its messages."""
    return made.road(
        partitions=3,
        topic=f"{topics.prefix}.{{database}}.{{table}}",
        positions=f"{topics.prefix}.positions",
        schema_changes=f"{topics.prefix}.changes",
    )


def road_of(topics: Topics, make_road: MakeRoad, more: str = "") -> TopicRoad:
    """A pipeline that reads them."""
    own = f"positions: {topics.prefix}.positions, schema_changes: {topics.prefix}.changes"
    published = f"published_by: {{pipeline: feed, target: events, {own}}}"
    return make_road(f"topics: ['{topics.prefix}.shop.*']\n{published}\n{more}")


def write(feed: Feed, position: int, numbers: range) -> None:
    """Stage a transaction that writes an order and its line for each number."""
    feed.stage(
        batch(announce(ORDERS, position), insert(ORDERS, position, *([str(one), f"a{one}", "1.50"] for one in numbers))),
        batch(announce(LINES, position), insert(LINES, position, *([str(one), str(one)] for one in numbers))),
    )


def test_batches_end_where_transactions_do(topics: Topics, made: Made, feed: Feed, make_road: MakeRoad) -> None:
    road = road_of(topics, make_road)
    with pytest.raises(TopicRefused, match="the pipeline feed has not published anything"):
        road.begin()
    publisher = feed.publisher()
    first, second = (Position(0, 7, offset).pack() for offset in (100, 200))
    write(feed, first, range(5))
    publisher.publish_all()
    road.load()
    assert (road.offset["file"], road.offset["position"], road.offset["published"]["batch"]) == ("log.000007", 100, 1)
    write(feed, second, range(5, 9))
    publisher.publish_all()
    feed.stage(batch(announce(ORDERS, second + 1), update(ORDERS, second + 1, (["3", "a3", "1.50"], ["30", None, "-2.00"]))))
    feed.stage(batch(announce(ORDERS, second + 2), delete(ORDERS, second + 2, ["4", "a4", "1.50"])))
    publisher.publish_all()
    road.load()
    kept = [*range(3), *range(5, 9)]
    assert [(int(number), item, str(price)) for number, item, price in road.rows("orders")] == [
        *((number, f"a{number}", "1.50") for number in kept),
        (30, None, "-2.00"),
    ]
    assert len(road.rows("lines")) == 9 and not road.notes()
    held = {table: one.position for table, one in pipelines.list_merges(road.store, PIPELINE)["wh"].items()}
    assert held == {"shop.orders": second + 2, "shop.lines": second}
    assert parts.list_parts(road.store, PIPELINE, "shop.orders", 0)[0].first == first


@pytest.mark.slow
def test_tables_are_always_at_one_moment_of_the_source(topics: Topics, feed: Feed, make_road: MakeRoad) -> None:
    publisher, road = feed.publisher(), road_of(topics, make_road)
    numbers = random.Random(3)
    position, orders = 1, 0
    for _ in range(12):
        for _ in range(numbers.randrange(1, 4)):
            count = numbers.randrange(1, 5)
            write(feed, position, range(orders, orders + count))
            position, orders = position + 1, orders + count
            publisher.publish_all()
        if numbers.random() < 0.4:
            road.begin()  # as a new process
        road.load()
        assert len(road.rows("orders")) == len(road.rows("lines")) == orders
    assert sum(part.rows for part in parts.list_parts(road.store, PIPELINE, "shop.orders", 0)) == orders


@pytest.mark.slow
def test_a_column_that_the_source_added_and_dropped(topics: Topics, feed: Feed, make_road: MakeRoad) -> None:
    publisher, road = feed.publisher(), road_of(topics, make_road)
    feed.stage(batch(announce(ORDERS, 1), insert(ORDERS, 1, ["1", "a", None])))
    feed.stage(batch(announce(WIDER, 2), insert(WIDER, 2, ["2", "b", None, "new"])))
    publisher.publish_all()
    road.load()
    assert [(row[0], row[-1]) for row in road.rows("orders")] == [(1, None), (2, "new")]
    feed.stage(batch(announce(ORDERS, 3), insert(ORDERS, 3, ["3", "c", None])))
    publisher.publish_all()
    road.load()
    assert road.rows("orders") == [(1, "a", None), (2, "b", None), (3, "c", None)]


def test_a_publisher_that_was_reset_stops_the_reader(topics: Topics, feed: Feed, make_road: MakeRoad) -> None:
    publisher, road = feed.publisher(), road_of(topics, make_road)
    write(feed, 1, range(3))
    publisher.publish_all()
    road.load()
    known = road.offset
    parts.record_batch(road.store, PIPELINE, [], {}, {**known, "published": {"incarnation": "another", "batch": 1}})
    write(feed, 2, range(3, 5))
    publisher.publish_all()
    with pytest.raises(SourceReplaced, match="the pipeline that publishes these topics was reset"):
        road.begin()._stage_next()


def test_what_others_wrote_into_such_a_topic_stops_the_table(topics: Topics, feed: Feed, make_road: MakeRoad) -> None:
    publisher, road = feed.publisher(), road_of(topics, make_road)
    write(feed, 1, range(3))
    publisher.publish_all()
    topic = f"{topics.prefix}.shop.orders"
    topics.send(topic, ({"id": 99}, {"id": 99}))
    write(feed, 2, range(3, 40))  # into each partition
    publisher.publish_all()
    road.load()
    [stopped] = road.notes()
    assert stopped.body["place"].startswith(f"{topic}:") and "has no header 'auditor'" in stopped.reason


@pytest.mark.parametrize("format", ["avro", pytest.param("json_schema", marks=pytest.mark.slow)])
def test_schemas_of_a_registry(topics: Topics, made: Made, make_road: MakeRoad, engines: Engines, format: str) -> None:
    made.registry = engines.live("registry").url
    own = {"topic": f"{topics.prefix}.{{database}}.{{table}}", "positions": f"{topics.prefix}.positions"}
    feed = made.road(messages={"format": format, "source_types": True}, **own)
    road = make_road(
        f"topics: ['{topics.prefix}.shop.*']\nmessages: {{format: {format}}}", brokers=f', registry: {{url: "{made.registry}"}}'
    )
    write(feed, 1, range(3))
    feed.stage(batch(announce(WIDER, 2), insert(WIDER, 2, ["7", "é", None, "new"]), delete(WIDER, 2, ["1", "a1", "1.50", None])))
    feed.publisher().publish_all()
    road.load()
    assert [(row[0], row[1], row[2] and str(row[2]), row[3]) for row in road.rows("orders")] == [
        (0, "a0", "1.50", None),
        (2, "a2", "1.50", None),
        (7, "é", None, "new"),
    ]
    assert len(road.rows("lines")) == 3 and not road.notes()
    subjects = [one for one in service.check(road.settings, road.config_file, road.store, PIPELINE) if one.severity == "error"]
    assert not subjects, subjects


def test_what_is_published_while_a_batch_is_planned_comes_in_the_next_one(topics: Topics, feed: Feed, make_road: MakeRoad) -> None:
    publisher, road = feed.publisher(), road_of(topics, make_road)
    write(feed, 10, range(3))
    publisher.publish_all()
    road.begin()
    reader = OwnTopics({"config": str(road.config_file), "pipeline": PIPELINE}).streamReader(EVENT_TYPE)
    start = road.offset
    end = reader.latestOffset(start)
    write(feed, 20, range(3, 5))
    publisher.publish_all()
    tasks = reader.partitions(start, end)
    assert sum(one.end - one.start for task in tasks for one in task.ranges) and end["position"] == 10
    assert reader.latestOffset(end)["position"] == 20
    reader.stop()


@pytest.mark.slow
def test_a_damaged_part_is_read_again_from_its_topic(topics: Topics, feed: Feed, make_road: MakeRoad) -> None:
    publisher, road = feed.publisher(), road_of(topics, make_road)
    for position in (10, 20, 30):
        write(feed, position, range(position, position + 5))
        publisher.publish_all()
        road.stage()
    damaged = parts.list_parts(road.store, PIPELINE, "shop.orders", 0)[1]
    (road.folder / "staging" / damaged.path).write_bytes(b"damaged")
    road.root.put(NOTE, pipelines.begin(road.store, PIPELINE).encode())
    assert restage(road.settings, road.store, PIPELINE, road.root, "shop.orders") == 1
    road.merge()
    assert [row[0] for row in road.rows("orders")] == [number for start in (10, 20, 30) for number in range(start, start + 5)]


def added(value: dict[str, object]) -> dict[str, object]:
    """What the source notes of a statement that added the column ``note``."""
    return {"ops": [{"op": "add", "column": "note", "value": value}], "statement": "ALTER TABLE orders ADD note VARCHAR(9)"}


def test_a_new_columns_default_reaches_the_rows_that_were_there(topics: Topics, feed: Feed, make_road: MakeRoad) -> None:
    publisher, road = feed.publisher(), road_of(topics, make_road)
    write(feed, 10, range(3))
    publisher.publish_all()
    road.load()
    feed.stage_task(batch(note("change", "orders", 20, added({"text": "old"}))))
    feed.stage(batch(announce(LINES, 30), insert(LINES, 30, ["7", "7"])))  # the stream goes on, and the table has no event
    publisher.publish_all()
    road.load()
    feed.stage(batch(announce(WIDER, 40), insert(WIDER, 40, ["9", "b", None, "new"])))
    publisher.publish_all()
    road.load()
    assert [(row[0], row[-1]) for row in road.rows("orders")] == [(0, "old"), (1, "old"), (2, "old"), (9, "new")]
    assert len(road.rows("lines")) == 4 and not road.notes()


def test_a_default_that_is_not_known_stops_the_table_by_name(topics: Topics, feed: Feed, make_road: MakeRoad) -> None:
    publisher, road = feed.publisher(), road_of(topics, make_road)
    write(feed, 10, range(3))
    publisher.publish_all()
    road.load()
    feed.stage_task(batch(note("change", "orders", 20, added({"unknown": "its default is an expression"}))))
    feed.stage(batch(announce(WIDER, 40), insert(WIDER, 40, ["9", "b", None, "new"])))
    publisher.publish_all()
    road.load()
    assert len(road.rows("orders")) == 3
    why = pipelines.list_merges(road.store, PIPELINE)["wh"]["shop.orders"].reason
    assert "shop.orders.note (varchar(9)) is new, and its default is an expression" in why


@pytest.mark.slow
def test_a_table_that_the_source_emptied_is_empty(topics: Topics, made: Made, make_road: MakeRoad) -> None:
    own = {name: f"{topics.prefix}.{name}" for name in ("positions", "changes")}
    chosen = {"topic": f"{topics.prefix}.{{database}}.{{table}}", "positions": own["positions"], "schema_changes": own["changes"]}
    feed = made.road(partitions=3, cleanup="delete", **chosen)
    publisher, road = feed.publisher(), road_of(topics, make_road)
    write(feed, 10, range(20))
    publisher.publish_all()
    road.load()
    assert len(road.rows("orders")) == 20
    feed.stage_task(batch(note("change", "orders", 20, {"ops": [{"op": "clear"}], "advances": True})))
    feed.stage(batch(announce(LINES, 30), insert(LINES, 30, ["70", "7"])))
    publisher.publish_all()
    road.load()
    assert not road.rows("orders") and not road.notes() and len(road.rows("lines")) == 21
    feed.stage(batch(announce(ORDERS, 40), insert(ORDERS, 40, ["1", "b", None])))
    publisher.publish_all()
    road.load()
    assert road.rows("orders") == [(1, "b", None)]


@pytest.mark.slow
def test_segments_have_the_positions_of_the_source(topics: Topics, feed: Feed, tmp_path: Path, empty_store: Path) -> None:
    """Two zones are compared by what each message says of its place, table by table, whichever batches they read."""
    own = f"positions: {topics.prefix}.positions, schema_changes: {topics.prefix}.changes"
    source = f"topics: ['{topics.prefix}.shop.*']\npublished_by: {{pipeline: feed, target: events, {own}}}"
    publisher, position = feed.publisher(), 1
    write(feed, position, range(3))
    publisher.publish_all()
    zones = Zones(configure(tmp_path, topics, source, segment="rows: 10, age: 1h", by="id"), empty_store)
    try:
        for start in range(3, 63, 3):
            position += 1
            write(feed, position, range(start, start + 3))
            publisher.publish_all()
            if start % 4 == 0:
                zones.east.work()
        zones.west.staging.change = lambda rows: [one for one in rows if one["kind"] == "schema" or one["after"][:2] != ["31", "a31"]]
        zones.work()
        report = zones.run()
        assert report.verdict is Verdict.MISMATCH and report.reasons[-1].endswith("of 2 tables are equal")
        assert report.reasons[0].startswith("shop.orders, 000000:") and report.reasons[0].endswith("; by id: '31': west lacks 1 event")
        east, west = zones.east.files(), zones.west.files()
        assert len(east) == 12 and sum(east[path] != west.get(path) for path in east) <= 3
        assert "published by incarnation" in stream_identity(pipelines.get_pipeline(zones.store, "west").source_offset)
    finally:
        zones.close()
