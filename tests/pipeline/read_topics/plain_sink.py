"""A plain sink of a topic with Debezium's messages, as somebody may write it, which can lose, repeat and reorder what it applies."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
from confluent_kafka import Consumer, Message

Edit = Callable[[list[Message]], Sequence[Message]]
"""Returns which messages of those that came a faulty sink applies."""


class PlainSink:
    """Applies the messages of a topic to a table ``orders`` (id, item, price) in DuckDB, and commits how far it has read."""

    def __init__(self, server: str, topic: str, group: str, file: Path) -> None:
        self.file = file
        self.consumer = Consumer(
            {"bootstrap.servers": server, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        self.consumer.subscribe([topic])
        self.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, item VARCHAR, price DECIMAL(8, 2))")

    def execute(self, *statements: str) -> None:
        with duckdb.connect(str(self.file)) as connection:
            for sql in statements:
                connection.execute(sql)

    def apply(self, count: int, edit: Edit = list, *, commits: bool = True) -> None:
        """Read so many messages, apply what is left of them, and commit."""
        messages, deadline = list[Message](), time.monotonic() + 60
        while len(messages) < count:
            assert time.monotonic() < deadline, f"{len(messages)} of {count} messages came"
            messages += [one for one in self.consumer.consume(count - len(messages), 0.5) if one.error() is None]
        with duckdb.connect(str(self.file)) as connection:
            for one in edit(messages):
                self._apply(connection, one)
        if commits:
            self.consumer.commit(asynchronous=False)

    def _apply(self, connection: duckdb.DuckDBPyConnection, message: Message) -> None:
        key, value = message.key(), message.value()
        assert key is not None
        if value is None:
            return
        row = _payload(value)["after"]
        connection.execute("DELETE FROM orders WHERE id = ?", [_payload(key)["id"]])
        if row is not None:
            connection.execute("INSERT INTO orders VALUES (?, ?, ?)", [row["id"], row["item"], _decimal(row["price"])])

    def close(self) -> None:
        self.consumer.close()


def _payload(data: bytes) -> Any:
    body = json.loads(data)
    return body.get("payload", body)


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(int.from_bytes(base64.b64decode(text), "big", signed=True)).scaleb(-2)
