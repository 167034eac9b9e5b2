"""Audits of topics: of what a road published, and of copies of it in which single messages were changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from auditor.config import Settings, validate_settings
from auditor.model import Report, Side
from auditor.service.running import run_audit
from tests.pipeline.kafka.topic_road import PIPELINE, TARGET, Made, TopicRoad, read

Edit = Callable[[list[Message]], Sequence[Any]]
"""Returns the messages of a copy, of each with another value if there is one."""


Said = Mapping[str, Any]
NOTHING: Said = {}

_numbers = itertools.count()


def published_by(road: TopicRoad) -> dict[str, str]:
    """What says in an audit which pipeline publishes a road's topics."""
    return {"pipeline": PIPELINE, "target": TARGET, "positions": f"{road.prefix}.positions", "schema_changes": f"{road.prefix}.changes"}


def copy_topic(road: TopicRoad, edit: Edit, table: str = "shop.orders", **settings: str) -> str:
    """Copy a topic of a road, with its messages' partitions and headers, and return the name of the copy."""
    messages, copy = road.messages(table), f"{road.prefix}.copy{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": road.server})
    partitions = len(admin.list_topics(f"{road.prefix}.{table}", timeout=10).topics[f"{road.prefix}.{table}"].partitions)
    properties = {one.replace("_", "."): value for one, value in settings.items()}
    admin.create_topics([NewTopic(copy, partitions, config=properties)])[copy].result(20)
    producer = Producer({"bootstrap.servers": road.server})
    for found in edit(messages):
        message, value = found if isinstance(found, tuple) else (found, found.value())
        headers: Any = message.headers() or []
        producer.produce(copy, value, message.key(), message.partition() or 0, headers=headers, timestamp=message.timestamp()[1])
    assert producer.flush(20) == 0
    assert len(read(road.server, copy)) == len(edit(messages))
    return copy


def settings_of(made: Made, topic: str, other: Said, said: Said = NOTHING, side: Side = "target", **audit: Any) -> Settings:
    """The configuration of one audit, ``orders``, of a topic and a table, whose connection is ``other`` with its ``table``."""
    registry = {"registry": {"url": made.registry}} if made.registry else {}
    table = {"connection": "other", "table": other["table"]}
    sides = {side: {"broker": "kafka", "topic": topic, **said}, "source" if side == "target" else "target": table}
    return validate_settings(
        {
            "connections": {"other": {name: value for name, value in other.items() if name != "table"}},
            "brokers": {"kafka": made.cluster or {"servers": made.broker, **registry}},
            "audits": {"orders": {**sides, **audit}},
        }
    )


def audit_topic(made: Made, topic: str, other: Said, said: Said = NOTHING, side: Side = "target", **audit: Any) -> Report:
    """Audit a topic and a table; return the report."""
    return run_audit(settings_of(made, topic, other, said, side, **audit), "orders")


def make_table(folder: Path, columns: str, *rows: Sequence[Any]) -> dict[str, str]:
    """Make a table ``orders`` in a file of DuckDB, and return what an audit says of it."""
    file = folder / "orders.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"CREATE OR REPLACE TABLE orders ({columns})")
        for row in rows:
            connection.execute(f"INSERT INTO orders VALUES ({', '.join('?' * len(row))})", row)
    return {"url": f"duckdb:///{file}", "table": "orders"}


def found(report: Report) -> dict[str, list[str | None]]:
    """The keys of the rows that differ, by how they do."""
    rows: dict[str, list[str | None]] = {}
    for difference in report.differences.named if report.differences else ():
        rows.setdefault(difference.kind, []).append(next(iter(difference.key.values())))
    return {kind: sorted(keys, key=str) for kind, keys in rows.items()}


def faults(report: Report, side: Side = "target") -> dict[str, int]:
    """What is wrong with the topic of a run, by its kind, and how often."""
    return {fault.kind: fault.count for fault in report.topics[side].faults}
