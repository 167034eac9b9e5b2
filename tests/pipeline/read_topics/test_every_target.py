"""Topics into every kind of target: the same rows, whatever form their messages have."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from tests.live import engine_params
from tests.pipeline.kafka.topic_road import Made
from tests.pipeline.read_topics.conftest import MakeRoad
from tests.pipeline.read_topics.topics import Topics, plain
from tests.pipeline_events import announce, batch, delete, insert, table, update

pytestmark = pytest.mark.kafka

ENGINES = ("duckdb", "postgres", "mysql", "mariadb", "redshift", "delta")
TYPES = {"id": "bigint", "item": "varchar(40)", "price": "decimal(12,2)", "at": "datetime(3)", "qty": "int unsigned"}
SCHEMA = table("orders", ["id"], id="bigint", **{name: f"{kind} null" for name, kind in TYPES.items() if name != "id"})

Texts = tuple[str | None, ...]
"""A row, as the source prints its values."""


def change_rows(rows: dict[int, Texts], numbers: random.Random, count: int) -> list[tuple[Texts | None, Texts | None]]:
    """Change some rows by chance, and return each as it was and as it is."""
    changes: list[tuple[Texts | None, Texts | None]] = []
    for step in range(count):
        key = numbers.randrange(20)
        before = rows.pop(key, None)
        if before is None or numbers.random() < 0.7:
            price, moment = f"{numbers.randrange(-(10**9), 10**9) / 100:.2f}", f"2026-02-{1 + step % 28:02d} 23:59:59.{step:03d}"
            rows[key] = (str(key), numbers.choice(["é 'q' \\", "", None]), price, numbers.choice([moment, None]), str(4_000_000_000 + step))
        changes.append((before, rows.get(key)))
    return changes


def as_json(row: Texts | None) -> dict[str, Any] | None:
    """A row as a producer without schemas writes it, with the values that Debezium's settings give them."""
    if row is None:
        return None
    key, item, price, at, qty = row
    assert key and price and qty
    return {"id": int(key), "item": item, "price": price, "at": at and at.replace(" ", "T") + "Z", "qty": int(qty)}


def expected(rows: dict[int, Texts]) -> list[tuple[Any, ...]]:
    return [(key, row[1], Decimal(row[2] or ""), row[3], int(row[4] or "")) for key, row in sorted(rows.items())]


def shown(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of a target, of which each client has a time as a value of its own."""
    return [
        (int(key), item, Decimal(str(price)), at and str(at)[:23].ljust(20, ".").ljust(23, "0"), int(qty))
        for key, item, price, at, qty in rows
    ]


@pytest.mark.quick_for("own")
@pytest.mark.parametrize("form", ["declared", "own"])
@pytest.mark.parametrize("engine", engine_params(*ENGINES, slow=ENGINES[1:]), indirect=True)
def test_the_same_rows_in_each_target(form: str, topics: Topics, made: Made, make_road: MakeRoad, loaded_url: str) -> None:
    rows, numbers = dict[int, Texts](), random.Random(11)
    own = {"positions": f"{topics.prefix}.positions", "schema_changes": f"{topics.prefix}.changes"}
    feed = made.road(topic=f"{topics.prefix}.{{database}}.{{table}}", partitions=2, **own)
    publisher, position = feed.publisher(), 0
    topic = topics.make("shop.orders", partitions=2) if form == "declared" else ""

    def send(count: int) -> None:
        nonlocal position
        changes = change_rows(rows, numbers, count)
        if form == "declared":
            topics.send(topic, *(({"id": int((after or before or ())[0] or "")}, as_json(after)) for before, after in changes))
            return
        for before, after in changes:
            position += 10
            if before and after:
                event = update(SCHEMA, position, (before, after))
            else:
                event = insert(SCHEMA, position, after) if after else delete(SCHEMA, position, before or ())
            feed.stage(batch(announce(SCHEMA, position), event))
        publisher.publish_all()

    send(30)
    if form == "own":
        listed = ", ".join(f"{name}: {value}" for name, value in own.items())
        source = f"topics: ['{topics.prefix}.shop.*']\npublished_by: {{pipeline: feed, target: events, {listed}}}"
    else:
        source = plain(topics, "shop.orders", **{name: f"'{kind}'" for name, kind in TYPES.items()})
        source = source.replace("{values: plain}", "{values: plain, decimals: string, times: isostring}")
    road = make_road(source, url=loaded_url)
    road.load()
    assert shown(road.rows("orders")) == expected(rows)
    send(60)
    road.begin()
    road.load()
    assert shown(road.rows("orders")) == expected(rows) and not road.notes()
