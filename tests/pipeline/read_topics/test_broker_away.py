"""A broker that goes away while topics are read is an error that passes, and nothing is lost or read twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.durations import durations
from auditor.errors import BrokerUnreachable
from auditor.pipeline.watch import check_once
from auditor.store import parts, pipelines
from tests.pipeline.read_topics.topics import PIPELINE, TopicRoad, Topics, plain
from tests.servers import kafka
from tests.servers.process import Unavailable

pytestmark = pytest.mark.kafka


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kafka.Broker]:
    """A broker of the test's own."""
    try:
        made = kafka.start_private(tmp_path)
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield made
    made.stop()


def is_staged(road: TopicRoad) -> bool:
    """Stage what there is, as a pipeline tries again: the partitions of a broker that was just started have no leader yet."""
    road.begin()
    try:
        road.stage()
    except BrokerUnreachable:
        return False
    return True


@pytest.mark.slow
@pytest.mark.clock
def test_a_broker_that_is_killed_and_comes_back(broker: kafka.Broker, tmp_path: Path, empty_store: Path) -> None:
    topics = Topics(broker.server)
    topic = topics.make("shop.orders")
    url = f"duckdb:///{tmp_path}/warehouse.duckdb"
    road = TopicRoad(tmp_path, topics, url, empty_store, plain(topics, "shop.orders", id="bigint"), brokers=", timeout: 2s")
    topics.send(topic, *(({"id": number}, {"id": number}) for number in range(10)))
    topics.wait(lambda: is_staged(road))
    road.merge()
    topics.send(topic, *(({"id": number}, {"id": number}) for number in range(10, 20)))
    driver = road.begin()
    broker.kill()
    with durations.overridden(source_absence=2.0), pytest.raises(BrokerUnreachable):
        driver._stage_next()
    seen = check_once(road.settings, PIPELINE, pipelines.get_pipeline(road.store, PIPELINE))
    assert any("the source cannot be checked" in warning for warning in seen.warnings)
    broker.start()
    topics.wait(lambda: is_staged(road))
    road.merge()
    assert [number for (number,) in road.rows("orders")] == [*range(20)]
    assert sum(part.rows for part in parts.list_parts(road.store, PIPELINE, "shop.orders", 0)) == 20
    road.close()
