"""The consumers that docs/kafka.md shows do what it says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pipeline.kafka.test_publisher import ORDERS, order
from tests.pipeline.kafka.topic_road import TopicRoad
from tests.pipeline_events import announce, batch, delete, insert, update

PAGE = Path(__file__).parents[3] / "docs" / "kafka.md"

pytestmark = pytest.mark.kafka


def test_the_plain_consumer_keeps_the_rows(road: TopicRoad) -> None:
    road.stage(
        batch(
            announce(ORDERS, 10),
            insert(ORDERS, 10, order(1, "pen"), order(2, "ink")),
            update(ORDERS, 11, (order(1, "pen"), order(3, "pen"))),
            delete(ORDERS, 12, order(2, "ink")),
        )
    )
    road.publisher().publish_all()
    [text] = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "consumer.poll" in block]
    text = (
        text.replace("broker1:9092", road.server)
        .replace("shop.shop.orders", f"{road.prefix}.shop.orders")
        .replace('"mine"', f'"{road.prefix}"')
    )
    names: dict[str, object] = {}
    exec(text, names)
    names["consumer"].close()  # type: ignore[attr-defined]
    assert names["rows"] == {b'{"id":3}': {"id": 3, "item": "pen"}}
