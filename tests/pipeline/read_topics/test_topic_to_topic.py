"""From topics of one broker into topics of another one: each row once, with the pipeline's rules, whatever ends its processes."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, cast

import pytest
from confluent_kafka import Message

from auditor.pipeline.publisher import Publisher
from auditor.points import armed
from auditor.store import parts
from tests.pipeline.kafka.topic_road import Made, read, rebuild
from tests.pipeline.read_topics.conftest import MakeRoad
from tests.pipeline.read_topics.test_debezium_topics import change, messages_key
from tests.pipeline.read_topics.topics import EVENTS, PIPELINE, TopicRoad, Topics, plain
from tests.pipeline_events import announce, batch, delete, insert, table, update
from tests.servers import kafka
from tests.servers.process import Unavailable

pytestmark = pytest.mark.kafka

RULES = """\
columns:
  orders:
    exclude: [secret]
    mask: [mail]
    where: "qty > 0"
    compute: {doubled: {kind: integer, expr: "qty + qty"}}
    table: [{name: orders_eu, when: "land = 'de'"}]
"""
COLUMNS = {"id": "bigint", "qty": "int", "land": "varchar(2)", "mail": "varchar(40)", "secret": "varchar(9)"}
SCHEMA = table("orders", ["id"], id="bigint", qty="int null", land="varchar(2) null", mail="varchar(40) null", secret="varchar(9) null")
CONNECT = [("id", "int64", None, False), ("qty", "int32", None, True), *((name, "string", None, True) for name in [*COLUMNS][2:])]

Row = Mapping[str, Any]
Change = tuple[Row | None, Row | None]
Send = Callable[[list[Change]], None]
"""Sends changes of rows, each with the row before and after it."""


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    """The broker of the topics that are written."""
    try:
        made = kafka.start_private(tmp_path_factory.mktemp("another"))
    except Unavailable as reason:
        pytest.skip(f"kafka: {reason}")
    yield made
    made.stop()


def send_plain(topics: Topics, topic: str) -> Send:
    return lambda changes: topics.send(topic, *(({"id": (after or before or {})["id"]}, after) for before, after in changes))


def send_debezium(topics: Topics, topic: str) -> Send:
    def send(changes: list[Change]) -> None:
        messages: list[tuple[Any, Any]] = []
        for before, after in changes:
            messages.append(change("c" if before is None else "u" if after else "d", before, after, CONNECT))
            messages += [] if after else [(messages_key((before or {})["id"]), None)]
        topics.send(topic, *messages)

    return send


class Published:
    """A pipeline before this one, which publishes the changes of a database."""

    def __init__(self, made: Made, prefix: str) -> None:
        own = {"topic": f"{prefix}.{{database}}.{{table}}", "positions": f"{prefix}.positions", "schema_changes": f"{prefix}.changes"}
        self.feed = made.road(**own, partitions=3)
        self.publisher = self.feed.publisher()
        self.position = 0

    def __call__(self, changes: list[Change]) -> None:
        for before, after in changes:
            self.position += 1
            old, new = as_texts(before), as_texts(after)
            if before and after:
                event = update(SCHEMA, self.position, (old, new))
            else:
                event = insert(SCHEMA, self.position, new) if after else delete(SCHEMA, self.position, old)
            self.feed.stage(batch(announce(SCHEMA, self.position), event))
        self.publisher.publish_all()


def as_texts(row: Row | None) -> list[str | None]:
    """A row as events have it."""
    return [None if row is None or row[name] is None else str(row[name]) for name in COLUMNS]


def change_rows(rows: dict[int, Row], numbers: random.Random, count: int) -> list[Change]:
    """Change some rows by chance, and return how."""
    changes: list[Change] = []
    for _ in range(count):
        key, mail = numbers.randrange(15), numbers.choice(["a@b", "ü@b", None])
        before = rows.pop(key, None)
        if before is None or numbers.random() < 0.7:
            rows[key] = {"id": key, "qty": numbers.randrange(-2, 9), "land": numbers.choice(["de", "fr"]), "mail": mail, "secret": "x"}
        changes.append((before, rows.get(key)))
    return changes


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "debezium", "own"])
def test_each_row_once_with_the_rules_applied(form: str, topics: Topics, made: Made, make_road: MakeRoad, another: kafka.Broker) -> None:
    send: Send
    if form == "own":
        send = Published(made, topics.prefix)
        own = f"positions: {topics.prefix}.positions, schema_changes: {topics.prefix}.changes"
        source = f"topics: ['{topics.prefix}.shop.*']\npublished_by: {{pipeline: feed, target: events, {own}}}"
    else:
        topic = topics.make("shop.orders", partitions=3)
        send = (send_plain if form == "plain" else send_debezium)(topics, topic)
        source = plain(topics, "shop.orders", **COLUMNS) if form == "plain" else f"topics: [{topic}]"
    rows, numbers = dict[int, Row](), random.Random(5)
    send(change_rows(rows, numbers, 10))
    road = make_road(source + "\nmax_messages: 17", RULES, another=another.server)
    publisher = Publisher(road.settings, road.store, PIPELINE, EVENTS)
    for step in ("sent", "commit", "committed"):
        send(change_rows(rows, numbers, 30))
        stage_with_a_crash(road, numbers.randrange(3))

        def end() -> None:
            raise KeyboardInterrupt

        with armed(f"publish.{step}", end), pytest.raises(KeyboardInterrupt):
            publisher._publish()
        publisher.close()
        publisher = Publisher(road.settings, road.store, PIPELINE, EVENTS)
        publisher.publish_all()
        assert not publisher._reports.failures
        assert found_rows(road, another, "orders") == expected(rows, lambda row: row["land"] != "de")
        assert found_rows(road, another, "orders_eu") == expected(rows, lambda row: row["land"] == "de")
    publisher.close()
    assert not road.notes()
    assert publisher.publish_all() == 0
    publisher.close()


def stage_with_a_crash(road: TopicRoad, fails: int) -> None:
    """Stage what there is, with a driver that ends before its tasks, or behind them, or not at all, and another one after it."""

    def crash(function: Any, tasks: Any) -> Any:
        if fails == 0:
            raise KeyboardInterrupt
        done = [function(task) for task in tasks]
        if fails == 1:
            raise KeyboardInterrupt  # with files that no store lists
        return done

    driver = road.begin(crash)
    with pytest.raises(KeyboardInterrupt) if fails < 2 else nullcontext():
        driver._stage_next()
    road.begin()
    road.stage()


def found_rows(road: TopicRoad, broker: kafka.Broker, name: str) -> dict[int, Any]:
    """The rows that a consumer has of a topic, without the digests, of which it is seen that they are such; each event is there once."""
    messages = read(broker.server, f"{road.topics.prefix}.shop.{name}")
    bodies = [json.loads(value) for message in messages if (value := message.value())]
    placed = [place_of(message) for message in messages if message.value()]
    places = Counter(zip(placed, (body["op"] for body in bodies), strict=True))
    assert places and set(places.values()) == {1}
    staged = sum(part.rows for part in parts.list_parts(road.store, PIPELINE, f"shop.{name}", 0))
    assert len({place for place, _ in places}) == staged
    assert not any("secret" in (body[side] or {}) for body in bodies for side in ("before", "after"))
    assert {body["source"]["file"] for body in bodies} == {"log.000000" if road.offset["file"].startswith("log") else "messages.000000"}
    assert [body["source"]["pos"] for body in bodies] == [int(place.partition(".")[0]) & 0xFFFFFFFF for place in placed]
    rows = rebuild(messages)
    assert all(row["mail"] is None or len(row["mail"]) == 32 for row in rows.values())
    return {row["id"]: (row["qty"], row["land"], row["mail"] is None, row["doubled"]) for row in rows.values()}


def place_of(message: Message) -> str:
    """Where the event of a message stands in the pipeline's stream."""
    headers = dict(cast(list[tuple[str, bytes]], message.headers()))
    return headers["auditor"].decode().rpartition(".")[0]


def expected(rows: Mapping[int, Row], goes: Callable[[Row], bool]) -> dict[int, Any]:
    return {
        key: (row["qty"], row["land"], row["mail"] is None, 2 * row["qty"]) for key, row in rows.items() if row["qty"] > 0 and goes(row)
    }
