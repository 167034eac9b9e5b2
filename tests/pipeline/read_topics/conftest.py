"""Fixtures: topics of a test's own, and roads from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from auditor.service import pipelines
from tests.live import Engines
from tests.pipeline.kafka.topic_road import Made
from tests.pipeline.read_topics.topics import TopicRoad, Topics


@pytest.fixture
def topics(engines: Engines) -> Iterator[Topics]:
    """Topics on the broker of the run."""
    made = Topics(urlsplit(engines.live("kafka").url).netloc)
    yield made
    made.close()


@pytest.fixture
def made(topics: Topics, tmp_path: Path, empty_store: Path) -> Iterator[Made]:
    """What makes roads into topics."""
    (tmp_path / "feed").mkdir()
    making = Made(tmp_path / "feed", topics.server, "", empty_store)
    yield making
    for one in making.roads:
        one.close()


@pytest.fixture(autouse=True)
def no_spark_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out of a check whether executors have what they need: another worker has Spark, which tests/pipeline/test_executors.py asks."""
    monkeypatch.setattr(pipelines, "check_executors", lambda *_: [])


MakeRoad = Callable[..., TopicRoad]


@pytest.fixture
def make_road(tmp_path: Path, topics: Topics, empty_store: Path) -> Iterator[MakeRoad]:
    """Makes the road of a test, into DuckDB unless ``url`` says otherwise."""
    made: list[TopicRoad] = []

    def make(source: str, more: str = "", url: str = "", brokers: str = "", **target: str) -> TopicRoad:
        url = url or f"duckdb:///{tmp_path}/warehouse.duckdb"
        made.append(TopicRoad(tmp_path, topics, url, empty_store, source, more, brokers, **target))
        return made[-1]

    yield make
    for road in made:
        road.close()
