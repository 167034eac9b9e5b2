"""What the statements of a source did to tables, as the topic says in which a pipeline of the auditor publishes them.

A message there has in its headers the columns of a table from a position on, and what statements did to the table before it. So rows of a
topic are read with the exact types of the source, rows that were there get a new column's default, and a table that was emptied is empty.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from auditor.config import Broker
from auditor.errors import BrokerUnreachable, TopicRefused
from auditor.model import TableNote
from auditor.pipeline.events import ARROW_SCHEMA, TableSchema, message_number, place_text
from auditor.pipeline.kafka.broker import error_of, open_consumer, take, translated
from auditor.pipeline.kafka.position_record import MOMENT
from auditor.pipeline.kafka.table_messages import COLUMNS, PLACE
from auditor.pipeline.kafka.topic_reading import CONSUMER, offset_of
from auditor.pipeline.table_ops import Op, ops_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

CHANGES = "auditor.changes"
"""The header of a message in the topic of statements with what they did to the table, as JSON: a list of ``position``, ``time`` and
``body`` of the notes on them."""


class TopicTail:
    """Reads the committed messages of a topic of one partition, further and further."""

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        self._broker, self._topic, self._group = broker, topic, group
        self._consumer: Consumer | None = None
        self._at = -1
        """The offset up to which it has read; -1 before it was at the topic's end for the first time."""

    def advance(self, through: int = 0) -> list[Message]:
        """Return the messages since the last call up to the topic's end, and up to an offset: until transactions before it are decided.

        Raises BrokerError.
        """
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        if self._consumer is None:
            self._consumer = open_consumer(self._broker, self._group, CONSUMER)
            with translated(f"topic {self._topic}"):
                self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
        found: list[Message] = []
        heard, is_at_end = time.monotonic(), False
        while not is_at_end or self._at < through:
            with translated(f"topic {self._topic}"):
                messages = take(self._consumer, 10_000, MOMENT)
            if messages:
                heard = time.monotonic()
            elif self._at >= through:
                return found  # a partition's end is said once
            elif time.monotonic() > heard + self._broker.timeout:
                what = "says nothing" if self._at < 0 else f"shows no decided message behind offset {self._at}"
                raise BrokerUnreachable(f"topic {self._topic} cannot be read: the broker {what} for {self._broker.timeout:g} s")
            for message in messages:
                if error := message.error():
                    if error.name() != "_PARTITION_EOF":
                        raise error_of(f"topic {self._topic}", error)
                    is_at_end = True  # and what follows it in the list has come meanwhile
                    self._at = max(self._at, message.offset() or 0)
                else:
                    found.append(message)
        return found

    def close(self) -> None:
        """Close the client."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


@dataclass(frozen=True, slots=True)
class Change:
    """What a statement did to a table: the note on it, as the source writes one."""

    position: int
    row: int
    time: dt.datetime
    body: Mapping[str, Any]

    def event(self, table: str) -> dict[str, Any]:
        """Return it as an event of a table."""
        database, _, name = table.partition(".")
        about = {"kind": "change", "database": database, "table": name, "schema_id": "", "gtid": None}
        content = json.dumps({"last": self.position, "events": 0, "body": self.body})
        place = {"position": self.position, "row": self.row, "time": self.time}
        return dict.fromkeys(ARROW_SCHEMA.names) | about | place | {"after": [content]}


@dataclass(frozen=True, slots=True)
class Statement:
    """What one message says of a table."""

    position: int
    """From which position on the table has these columns."""
    schema: TableSchema
    id: str
    """The one that the messages of rows name."""
    computed: frozenset[str]
    """Which of them the pipeline computes that publishes."""
    time: dt.datetime
    changes: tuple[Change, ...] | None
    """What statements did since the message before; None where that is not said."""


@dataclass(slots=True)
class Statements:
    """What the messages of such a topic say, by table."""

    topic: str
    _by_table: dict[str, dict[tuple[int, str], Statement]] = field(default_factory=dict)

    def take(self, message: Message) -> None:
        """Take one more message. Raises TopicRefused for one that no publisher wrote."""
        headers: Mapping[str, Any] = dict(message.headers() or ())
        try:
            place, _, id = headers[PLACE].decode().split(".")
            schema = TableSchema.from_json(headers[COLUMNS].decode())
            said = json.loads(headers[CHANGES]) if CHANGES in headers else None
            moment = dt.datetime.fromtimestamp(max(message.timestamp()[1], 0) / 1000, dt.UTC)
            changes = None if said is None else tuple(_read_change(one) for one in said)
            computed = frozenset(column.name for column in schema.columns if column.computed)
            columns = tuple(replace(column, computed=None, inputs=()) for column in schema.columns)
            statement = Statement(int(place), replace(schema, columns=columns), id, computed, moment, changes)
        except (KeyError, ValueError, TypeError) as error:
            raise TopicRefused(
                f"the message {offset_of(message)} of the topic {self.topic} has not the headers that a publisher writes"
                f" ({type(error).__name__}: {error}); give that topic to the pipeline that publishes alone"
            ) from error
        self._by_table.setdefault(f"{schema.database}.{schema.table}", {})[statement.position, id] = statement

    def tables(self) -> list[str]:
        """Return the tables of which it says something."""
        return sorted(self._by_table)

    def columns(self, table: str, after: int, through: int) -> dict[str, TableSchema]:
        """Return, by their ids, the columns that events of a table between two positions can have."""
        known = self._in_order(table)
        begun = max((place for place, one in enumerate(known) if one.position <= after), default=0)
        return {one.id: one.schema for one in known[begun:] if one.position <= through}

    def changes(self, table: str, after: int, through: int) -> list[Change]:
        """Return what statements did to a table that says so between two positions. Raises TopicRefused if no place is left for one.

        A column of which nobody says what older rows have in it comes with that it is not known, so that the target's table stops.
        """
        found: list[Change] = []
        before: Statement | None = None
        for one in self._in_order(table):
            if after < one.position <= through:
                found += self._placed(table, before, one, after)
            before = one
        return found

    def _in_order(self, table: str) -> list[Statement]:
        return sorted(self._by_table.get(table, {}).values(), key=lambda one: one.position)

    def _placed(self, table: str, before: Statement | None, one: Statement, after: int) -> Iterator[Change]:
        changes = list(one.changes or ())
        if before and (unknown := self._unknown(before, one)):
            changes.append(Change(one.position - 1, -1, one.time, {"ops": unknown}))
        late = [change for change in changes if change.position <= after]
        if (late and one.position - 1 <= after) or (changes and message_number(one.position) is not None):
            raise TopicRefused(
                f"the columns of {table} changed at {place_text(one.position)}, right behind what was read, so that there is no place for"
                f" what the topic {self.topic} says of it, or does not say; reset the pipeline, and copy the table again"
            )
        for number, change in enumerate(late):  # of a table without events for long: the stream has passed them
            yield replace(change, position=one.position - 1, row=number - len(late))
        yield from changes[len(late) :]

    def _unknown(self, before: Statement, one: Statement) -> list[Op]:
        """Return the columns that came of which it is not said what rows have in them that were there."""
        ops = [op for change in one.changes or () for op in ops_of(change.body)]
        is_told = one.changes is not None and not any(op["op"] == "swapped" for op in ops)
        known = {column.name.lower() for column in before.schema.columns}
        known |= {str(op.get("to", op.get("column"))).lower() for op in ops if op["op"] in ("add", "rename")}
        came = [column.name for column in one.schema.columns if column.name.lower() not in known]
        why = f"the topic {self.topic} does not say what older rows have in it"
        return [{"op": "add", "column": name, "value": {"unknown": why}} for name in came if not is_told or name in one.computed]


def _read_change(said: Mapping[str, Any]) -> Change:
    return Change(int(said["position"]), -1, dt.datetime.fromisoformat(said["time"]), said["body"])


def changes_header(notes: Sequence[TableNote]) -> bytes:
    """Return the value of the header CHANGES for what statements did to a table."""
    said = [{"position": note.position, "time": note.time.isoformat(), "body": note.body} for note in notes]
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
