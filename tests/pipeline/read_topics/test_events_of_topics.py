"""The events of a table that is read in a topic, for people and programs, and the table as it stood at a message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from auditor.errors import ConfigError, RebuildRefused
from auditor.service.event_lines import last_position, open_lines
from auditor.service.rebuilds import rebuild
from tests.pipeline.read_topics.conftest import MakeRoad
from tests.pipeline.read_topics.topics import PIPELINE, TopicRoad, Topics, plain

pytestmark = pytest.mark.kafka


def lines_of(road: TopicRoad, start: str) -> list[Any]:
    """The lines of the events of a table behind a place."""
    found = [line for lines in open_lines(road.settings, road.store, PIPELINE, "orders", start).read() for line in lines]
    assert not found or last_position(found)
    return [json.loads(line) for line in found]


def test_events_of_messages_and_where_one_goes_on(topics: Topics, make_road: MakeRoad) -> None:
    topic = topics.make("shop.orders")
    road = make_road(plain(topics, "shop.orders", id="bigint", item="varchar(9)"))
    topics.send(topic, ({"id": 1}, {"id": 1, "item": "a"}), ({"id": 2}, {"id": 2, "item": "b"}), ({"id": 1}, None))
    road.load()
    found = lines_of(road, "earliest")
    assert [(line["position"], line["value"]["op"], line["value"]["source"]["pos"]) for line in found] == [
        ("message 1:0", "r", 1),
        ("message 2:0", "r", 2),
        ("message 3:0", "d", 3),
    ]
    for start in ("message 1", "message 1:0"):
        assert [line["position"] for line in lines_of(road, start)] == ["message 2:0", "message 3:0"]
    assert lines_of(road, "latest") == []
    with pytest.raises(ConfigError, match="or 'message 4567'"):
        lines_of(road, "message x")


def test_a_table_of_a_topic_is_not_rebuilt_without_a_beginning(topics: Topics, make_road: MakeRoad) -> None:
    topic = topics.make("shop.orders")
    road = make_road(plain(topics, "shop.orders", id="bigint", item="varchar(9)"))
    topics.send(topic, ({"id": 1}, {"id": 1, "item": "a"}), ({"id": 2}, {"id": 2, "item": "b"}))
    road.load()
    with pytest.raises(RebuildRefused, match="it may have had rows before the pipeline read it"):
        rebuild(road.settings, road.config_file, road.store, PIPELINE, "orders", "message 2", output=road.folder / "orders.parquet")
