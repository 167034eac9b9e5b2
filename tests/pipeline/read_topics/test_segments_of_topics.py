"""Two zones that read one topic cut its partitions alike, whatever was killed; what one of them lost is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditor.model import Verdict
from tests.pipeline.read_topics.topics import Topics, plain
from tests.pipeline.read_topics.zones import Zones, configure

pytestmark = pytest.mark.kafka

COLUMNS = {"id": "bigint", "tenant_id": "varchar(20)", "item": "varchar(40)"}
HOUR = 3_600_000
BEGAN = 1_700_000_400_000 // HOUR * HOUR
"""Milliseconds since 1970 of the first message."""


@pytest.fixture
def make_zones(tmp_path: Path, topics: Topics, empty_store: Path) -> Iterator[Callable[..., Zones]]:
    made: list[Zones] = []

    def make(source: str = "", **settings: str) -> Zones:
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


def test_two_zones_cut_each_partition_alike(topics: Topics, make_zones: Callable[..., Zones]) -> None:
    topic = topics.make("shop.orders", partitions=4)
    zones = make_zones(by="tenant_id")
    for first in range(0, 800, 100):
        send(topics, topic, first, 100)
        zones.east.work()
    zones.west.work()
    assert zones.east.files() == zones.west.files() and len(zones.east.files()) > 16
    report = zones.run()
    assert report.verdict is Verdict.MATCH, report.reasons
    print(report.reasons, [(one.first, one.last, one.rows) for one in zones.east.listed("shop.orders partition 1")])
