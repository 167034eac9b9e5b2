"""Roads into topics of a broker that all of these tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import Engines
from tests.pipeline.kafka.topic_road import Made, TopicRoad


@pytest.fixture
def broker(engines: Engines) -> str:
    """Where the broker is: host and port."""
    return engines.live("kafka").url.removeprefix("kafka://")


@pytest.fixture
def made(broker: str, tmp_path: Path, empty_store: Path) -> Iterator[Made]:
    """What makes roads into topics."""
    making = Made(tmp_path, broker, "", empty_store)
    yield making
    for road in making.roads:
        road.close()


@pytest.fixture
def registered(engines: Engines, made: Made) -> Made:
    """The same, with a registry."""
    made.registry = engines.live("registry").url
    return made


@pytest.fixture
def road(made: Made) -> TopicRoad:
    """A pipeline into topics as they are by default."""
    return made.road()
