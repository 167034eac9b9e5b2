"""Debezium's messages as a source, run as a pipeline on Spark into PostgreSQL and DuckDB, and held against what was applied by hand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor import config
from auditor.connections.writer import open_writer
from auditor.errors import ConfigError
from auditor.pipeline.run import Run
from auditor.pipeline.watch import check_once
from auditor.service import pipelines as service
from auditor.service.pipeline_status import status
from auditor.store import open_store, parts, pipelines
from tests.live import Engines
from tests.pipeline.read_topics.conftest import MakeRoad
from tests.pipeline.read_topics.topics import Topics
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

COLUMNS = [("id", "int64", None, False), ("name", "string", None, True), ("price", "bytes", "org.apache.kafka.connect.data.Decimal", True)]
"""The columns of the tables: name, type of Kafka Connect, what it means, and whether it may be NULL."""


def schema(columns: list[tuple[str, str, str | None, bool]]) -> dict[str, Any]:
    """The schema that Debezium puts beside a message."""
    fields = [
        {"field": name, "type": kind, "optional": optional}
        | ({"name": meaning, "version": 1, "parameters": {"scale": "2", "connect.decimal.precision": "10"}} if meaning else {})
        for name, kind, meaning, optional in columns
    ]
    row = {"type": "struct", "optional": True, "fields": fields}
    envelope = [{**row, "field": "before"}, {**row, "field": "after"}, {"field": "op", "type": "string", "optional": False}]
    return {"type": "struct", "optional": False, "name": "shop.Envelope", "fields": envelope}


KEY = {"type": "struct", "optional": False, "fields": [{"field": "id", "type": "int64", "optional": False}]}


def change(op: str, before: Any, after: Any, columns: Any = COLUMNS) -> tuple[Any, Any]:
    """A message: its key and its value."""
    value = {"schema": schema(columns), "payload": {"before": before, "after": after, "op": op, "source": {"db": "shop"}}}
    return {"schema": KEY, "payload": {"id": (after or before)["id"]}}, value


class Producer:
    """Writes changes of a table as Debezium does, and knows the rows that there are."""

    def __init__(self, topics: Topics, topic: str, seed: int) -> None:
        self.topics, self.topic, self.numbers = topics, topic, random.Random(seed)
        self.rows: dict[int, dict[str, Any]] = {}

    def write(self, count: int) -> None:
        """Make so many changes."""
        messages: list[tuple[Any, Any]] = []
        for _ in range(count):
            key = self.numbers.randrange(40)
            before = self.rows.get(key)
            if before is None or self.numbers.random() < 0.6:
                digits = self.numbers.randrange(-(10**9), 10**9)
                after = {"id": key, "name": self.numbers.choice([None, "é", "x" * 9]), "price": encoded(digits)}
                messages.append(change("c" if before is None else "u", before, after))
                self.rows[key] = after
            else:
                messages += [change("d", before, None), (messages_key(key), None)]
                del self.rows[key]
        self.topics.send(self.topic, *messages)

    def expected(self) -> list[tuple[Any, ...]]:
        """The rows of the table."""
        return [(key, row["name"], f"{decoded(row['price']):.2f}") for key, row in sorted(self.rows.items())]


def messages_key(key: int) -> Any:
    return {"schema": KEY, "payload": {"id": key}}


def encoded(digits: int) -> str:
    """A number of hundredths as Connect's Decimal has it in JSON."""
    import base64

    return base64.b64encode(digits.to_bytes(5, "big", signed=True)).decode()


def decoded(text: str) -> Any:
    """The number again."""
    import base64
    from decimal import Decimal

    return Decimal(int.from_bytes(base64.b64decode(text), "big", signed=True)) / 100


@pytest.fixture
def configured(tmp_path: Path, topics: Topics, engines: Engines) -> Iterator[Path]:
    """A configuration of a pipeline from all topics of the test into PostgreSQL and DuckDB."""
    postgres, duckdb = engines.live("postgres").url, f"duckdb:///{tmp_path}/warehouse.duckdb"
    path = tmp_path / "auditor.yaml"
    path.write_text(
        f"""\
connections:
  pg: {{url: "{postgres}", write: {{url: "{postgres}"}}}}
  duck: {{url: "{duckdb}", write: {{url: "{duckdb}"}}}}
brokers: {{kafka: {{servers: "{topics.server}"}}}}
audits: {{}}
pipelines:
  shop:
    source: {{broker: kafka, topics: ["{topics.prefix}.*"], max_messages: 100}}
    staging: {{path: "{tmp_path}/staging"}}
    targets:
      pg: {{connection: pg, schema: {topics.prefix}, every: 0s}}
      duck: {{connection: duck, schema: {topics.prefix}, every: 0s}}
"""
    )
    yield path
    with open_writer("pg", config.load(path).connections["pg"]) as session:
        session.execute(f"DROP SCHEMA IF EXISTS {topics.prefix} CASCADE")


@pytest.mark.slow
@pytest.mark.postgres
def test_topics_into_two_targets_on_spark(configured: Path, topics: Topics) -> None:
    settings = config.load(configured)
    assert settings.store
    store = open_store(settings.store.url)
    producers = [Producer(topics, topics.make(f"shop.{table}", partitions=3), seed) for seed, table in enumerate(("orders", "items"))]
    for producer in producers:
        producer.write(150)
    findings = service.check(settings, configured, store, "shop")
    assert [one.sentence for one in findings if one.severity == "error"] == []

    def is_loaded() -> bool:
        state = pipelines.get_pipeline(store, "shop")
        staged, merges = parts.list_tables(store, "shop"), pipelines.list_merges(store, "shop")
        ends = check_once(settings, "shop", state)
        held = [merges.get(target, {}).get(table) for target in ("pg", "duck") for table in staged]
        through = [staged[table].staged_through for _ in ("pg", "duck") for table in staged]
        is_seen = ends.lag_messages == state.progress.lag_messages == 0  # now, and by the run's last look
        return bool(state.source_offset) and is_seen and all(one and one.position >= end for one, end in zip(held, through, strict=True))

    def rows(target: str, table: str) -> list[tuple[Any, ...]]:
        with open_writer(target, settings.connections[target]) as session:
            found = session.query(f"SELECT id, name, CAST(price AS VARCHAR) FROM {topics.prefix}.{table} ORDER BY id")
        return [tuple(row) for row in found]

    for _ in range(2):  # the second one begins where the first one ended
        with Running(Run(settings, configured, store, "shop", ["pg", "duck"])) as running:
            running.until(is_loaded)
            for producer in producers:
                producer.write(60)
            running.until(is_loaded)
        assert running.error is None
        for producer, table in zip(producers, ("orders", "items"), strict=True):
            assert rows("pg", table) == rows("duck", table) == producer.expected()
    shown = status(settings, store, "shop")
    assert shown.lag_messages == 0 and not shown.partitions and not shown.stopped and not shown.warnings
    offset = pipelines.get_pipeline(store, "shop").source_offset
    read = {(name, number): end for name, body in offset["topics"].items() for number, end in enumerate(body["offsets"])}
    assert topics.committed("auditor.shop") == read
    producers[0].write(10)
    behind = check_once(settings, "shop", pipelines.get_pipeline(store, "shop"))
    assert behind.lag_messages and sum(one.end - one.offset for one in behind.partitions) == behind.lag_messages
    assert service.reset(settings, store, "shop", from_targets=True).startswith("message ")
    store.close()


@pytest.mark.slow
def test_a_delete_whose_tombstone_comes_in_the_next_batch(topics: Topics, make_road: MakeRoad) -> None:
    topic = topics.make("shop.orders")
    road = make_road(f"topics: [{topic}]\nmax_messages: 1")
    row = {"id": 1, "name": "a", "price": encoded(150)}
    topics.send(topic, change("c", None, row), change("d", row, None), (messages_key(1), None), (messages_key(2), None))
    assert road.stage() == 4
    road.merge()
    assert road.rows("orders") == [] and not road.notes()


def test_a_changed_schema_of_messages_changes_the_target(topics: Topics, make_road: MakeRoad) -> None:
    topic = topics.make("shop.orders")
    road = make_road(f"topics: [{topic}]")
    topics.send(topic, change("c", None, {"id": 1, "name": "a", "price": encoded(150)}))
    road.load()
    wider = [*COLUMNS, ("note", "string", None, True)]
    topics.send(topic, change("c", None, {"id": 2, "name": "b", "price": None, "note": "new"}, wider))
    topics.send(topic, change("c", None, {"id": 3, "name": "b", "price": None}))  # of a producer that is not upgraded yet
    topics.send(topic, change("c", None, {"id": 4, "name": "b", "price": None, "note": "newer"}, wider))
    road.load()
    assert [(row[0], row[-1]) for row in road.rows("orders")] == [(1, None), (2, "new"), (3, None), (4, "newer")], road.notes()


@pytest.mark.slow
def test_columns_of_several_partitions_that_change_at_different_times(topics: Topics, make_road: MakeRoad) -> None:
    topic = topics.make("shop.orders", partitions=3)
    road = make_road(f"topics: [{topic}]")
    wider = [("id", "int64", None, False), ("name", "string", None, True), ("count", "int64", None, True)]
    narrow = [wider[0], ("count", "int32", None, True)]
    for partition in range(3):
        topics.send(topic, change("c", None, {"id": partition, "count": 1}, narrow), partition=partition)
        topics.send(topic, change("c", None, {"id": 10 + partition, "name": "n", "count": 1 << 40}, wider), partition=partition)
    road.load()
    expected = [*((number, 1, None) for number in range(3)), *((10 + number, 1 << 40, "n") for number in range(3))]
    assert road.rows("orders") == expected
    topics.send(topic, change("u", {"id": 11, "count": 5}, {"id": 11, "count": 6}, narrow), partition=1)  # before its schema was changed
    topics.send(topic, change("c", None, {"id": 20, "name": "a", "count": "x"}, [*wider[:2], ("count", "string", None, True)]), partition=0)
    topics.send(topic, change("c", None, {"id": 21, "count": 7}, narrow), partition=2)
    road.load()
    [note] = road.notes()
    assert note.body["place"] == f"{topic}:0:2" and "its column count is longtext, and bigint in messages before" in note.reason
    service.skip(road.settings, road.store, "shop", "orders", str(note.body["place"]), "of the test", by="test")
    road.load()
    expected[4] = (11, 6, None)
    assert road.rows("orders") == [*expected, (21, 7, None)]


def test_what_needs_a_database_is_refused_by_name(topics: Topics, make_road: MakeRoad) -> None:
    road = make_road(f"topics: [{topics.make('shop.orders')}]")
    for ask in (
        lambda: service.propose_audits(road.settings, "shop"),
        lambda: service.check(road.settings, road.config_file, road.store, "shop", proves=True),
    ):
        with pytest.raises(ConfigError, match=r"needs a database as the source, and this pipeline reads topics of the broker kafka"):
            ask()
