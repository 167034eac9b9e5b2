"""The consumers that docs/kafka.md shows do what it says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.pipeline.kafka.test_publisher import ORDERS, order
from tests.pipeline.kafka.topic_road import TopicRoad
from tests.pipeline_events import announce, batch, delete, insert, update
from tests.servers.process import Unavailable
from tests.servers.spark_connector import run_program

PAGE = Path(__file__).parents[3] / "docs" / "kafka.md"

pytestmark = pytest.mark.kafka


def publish(road: TopicRoad) -> None:
    """Publish three orders, of which one is deleted and one gets another key."""
    road.stage(
        batch(
            announce(ORDERS, 10),
            insert(ORDERS, 10, order(1, "pen"), order(2, "ink")),
            update(ORDERS, 11, (order(1, "pen"), order(3, "pen"))),
            delete(ORDERS, 12, order(2, "ink")),
        )
    )
    road.publisher().publish_all()


def documented(road: TopicRoad, word: str) -> str:
    """Return the code of the page that has a word, for this broker and topic."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [text] = [block for block in blocks if word in block]
    return text.replace("broker1:9092", road.server).replace("shop.shop.orders", f"{road.prefix}.shop.orders")


@pytest.mark.slow
def test_the_plain_consumer_keeps_the_rows(road: TopicRoad) -> None:
    publish(road)
    names: dict[str, object] = {}
    exec(documented(road, "consumer.poll").replace('"mine"', f'"{road.prefix}"'), names)
    names["consumer"].close()  # type: ignore[attr-defined]
    assert names["rows"] == {b'{"id":3}': {"id": 3, "item": "pen"}}


@pytest.mark.slow
def test_spark_reads_the_rows_by_its_own_connector(road: TopicRoad, tmp_path: Path) -> None:
    publish(road)
    program = documented(road, "spark.read") + "\nfor one in orders.collect():\n    print(one.row)\n"
    try:
        written = run_program(program, tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    assert [json.loads(line) for line in written.splitlines()] == [{"id": 3, "item": "pen"}]
