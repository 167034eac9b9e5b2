"""What the settings of a source that is topics mean, and what is said of wrong ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from auditor import config
from auditor.errors import ConfigError

GOOD = """\
connections:
  warehouse: {url: "postgresql://reader:r@wh/dwh", write: {url: "postgresql://loader:l@wh/dwh"}}
brokers:
  kafka: {servers: "broker1:9092,broker2:9092"}
audits: {}
pipelines:
  shop:
    source:
      broker: kafka
      topics:
        "shop.public.*":
        events: {table: shop.events, messages: {values: plain}, key: [id], columns: {id: bigint, name: varchar(9) not null, at: date}}
    columns: {events: {exclude: [name]}}
    staging: {path: /var/lib/auditor/shop}
    targets: {warehouse: {connection: warehouse, schema: shop}}
"""


def load(folder: Path, text: str) -> config.Settings:
    path = folder / "auditor.yaml"
    path.write_text(text)
    return config.load(path, {})


def test_settings_of_topics(tmp_path: Path) -> None:
    pipeline = load(tmp_path, GOOD).pipeline("shop")
    source = pipeline.topic_source
    assert source and pipeline.log_source is None and pipeline.source_name == "kafka"
    assert source.tables == ("public.*", "shop.events")
    assert [source.table_of(topic) for topic in ("shop.public.orders", "events")] == ["public.orders", "shop.events"]
    assert source.find("shop.other.orders") is None and source.find("shop.public.orders")
    assert [pipeline.replicates(*table) for table in (("orders", "public"), ("events", "shop"), ("events", "other"))] == [True, True, False]
    said = source.find("events")
    assert said and said.declared == [("id", "bigint", False), ("name", "varchar(9)", False), ("at", "date", True)]
    assert (source.group_of("shop"), source.start, source.max_messages) == ("auditor.shop", "earliest", 100_000)
    assert pipeline.table_targets["warehouse"].consistency == "table"
    with pytest.raises(ConfigError, match="a refresh needs a database as the source, and this pipeline reads topics of the broker kafka"):
        pipeline.of_log("a refresh")


def test_a_list_of_topics_and_places_to_begin_at(tmp_path: Path) -> None:
    text = GOOD.replace('        "shop.public.*":\n', "").replace("      topics:\n", "      topics: [a.b.c]\n")
    text = "\n".join(line for line in text.splitlines() if "events" not in line)
    for start in ("latest", "2026-01-31T12:00:00Z", "{a.b.c: {0: 12, 3: 0}}"):
        source = load(tmp_path, text.replace("topics: [a.b.c]", f"topics: [a.b.c]\n      start: {start}")).pipeline("shop").topic_source
        assert source and source.tables == ("b.c",)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("broker: kafka", "broker: kafke", "shop.source.broker: there is no broker 'kafke'; did you mean 'kafka'?"),
        ("broker: kafka", "broker: kafka\n      group: ''", "shop.source.group: "),
        ("id: bigint", "id: number", "id: 'number' is no type; write it as MySQL does: bigint, decimal"),
        ("key: [id]", "key: [nr]", "key: 'nr' is none of the columns (id, name, at)"),
        (", key: [id]", "", "columns and their key: belong together"),
        ("table: shop.events, ", "", "its name has no database and table; add table: database.table"),
        ('"shop.public.*":', '"shop.public.*": {table: shop.all}', "the tables of a pattern are named by its topics"),
        ('"shop.public.*":', "other: {table: shop.events}", "two topics have the table 'shop.events'"),
        ("topics:\n", "start: 2026-01-31T12:00:00\n      topics:\n", "has no zone; write 2026-01-31T12:00:00Z"),
        ("topics:\n", "start: {nothing: {0: 1}}\n      topics:\n", "start: 'nothing' is none of the topics"),
        ("topics:\n", "start: {events: {0: -1}}\n      topics:\n", "partitions and offsets are numbers from 0 on"),
        ("topics:\n", "published_by: {pipeline: a, target: b}\n      start: latest\n      topics:\n", "remove start"),
        ("values: plain", "values: plain, format: avro", "format: avro needs a registry; add registry: {url: ...} to the broker kafka"),
        ("schema: shop}", "schema: shop, consistency: target}", "which the partitions of topics do not know"),
        ("    staging:", "    tracker: {url: 'mysql://t/t'}\n    staging:", "shop.tracker: it knows the columns of a database's log"),
        ("schema: shop}", 'schema: shop}, out: {broker: kafka, topic: "shop.public.{table}"}', "which it publishes itself"),
        ("broker: kafka", "broker: kafka\n      tables: [orders]", "unknown setting 'tables'"),
    ],
)
def test_what_is_wrong(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert sentence in str(raised.value)
    assert ".topics.topics" not in str(raised.value)


def two_zones(tmp_path: Path, change: Callable[[dict[str, Any]], object], **audit: Any) -> None:
    """Load a configuration of two pipelines with segments, of which the second one is changed, and an audit of both."""
    body = yaml.safe_load(GOOD)
    shop = {**body["pipelines"]["shop"], "segment": {}}
    other = copy.deepcopy({**shop, "staging": {"path": "/other"}})
    change(other)
    body["pipelines"] = {"shop": shop, "other": other}
    load(tmp_path, yaml.safe_dump({**body, "segments": {"zones": {"pipelines": ["shop", "other"], **audit}}}))


def test_two_pipelines_of_topics_can_be_compared(tmp_path: Path) -> None:
    two_zones(tmp_path, lambda other: None)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda other: other["segment"].update(offsets=7), "give both the same segment: offsets"),
        (lambda other: other["source"].update(messages={"values": "flat"}), "read other topics, or read them otherwise"),
        (lambda other: other["source"].update(published_by={"pipeline": "a", "target": "b"}), "give both the same published_by"),
        (
            lambda other: (other["source"].update(published_by={"pipeline": "a", "target": "b"}), other["segment"].update(offsets=7)),
            "segment: offsets are those of topics without published_by",
        ),
    ],
)
def test_pipelines_of_topics_that_cannot_be_compared(tmp_path: Path, change: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        two_zones(tmp_path, change)
    assert sentence in str(raised.value)


def test_topics_are_not_read_again(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only a database's log is read again; name another pipeline beside it"):
        two_zones(tmp_path, lambda other: None, pipelines=["shop"])


def test_topics_of_the_auditor_itself_may_be_at_one_moment(tmp_path: Path) -> None:
    text = GOOD.replace("broker: kafka", "broker: kafka\n      published_by: {pipeline: feed, target: out}", 1)
    text = text.replace("schema: shop}", "schema: shop, consistency: target}")
    pipeline = load(tmp_path, text).pipeline("shop")
    assert pipeline.topic_source and pipeline.topic_source.published_by
    assert pipeline.topic_source.published_by.positions_topic == "auditor.positions.feed.out"
    assert pipeline.table_targets["warehouse"].consistency == "target"
