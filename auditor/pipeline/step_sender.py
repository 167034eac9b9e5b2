"""Send what one transaction of the broker publishes of one table, and count the transactions of the source that it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import AuditorError, BrokerError, PartDamaged, StagingFailed, StoreError, TopicRefused, ValueRefused
from auditor.model import TableNote
from auditor.pipeline.folders import Folder
from auditor.pipeline.kafka.table_messages import Batch, OrderInTransactions, TableMessages
from auditor.pipeline.kafka.topic_writer import SendRefused, TopicWriter
from auditor.pipeline.kafka.topics import Topic
from auditor.pipeline.merge.pending_parts import PendingParts
from auditor.pipeline.merge.positions import Held
from auditor.pipeline.merge.table_merge import Merged
from auditor.pipeline.messages.other_topics import TransactionMessages
from auditor.pipeline.messages.source_block import Names
from auditor.pipeline.messages.writing import transaction_ids
from auditor.pipeline.staged_parts import read_part

Found: TypeAlias = tuple[str, int, Counter[str]]
"""A transaction of the source: its name, its time in milliseconds since 1970, and its messages by table."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction publishes of one table."""

    table: str
    held: Held
    ahead: PendingParts
    topic: Topic
    messages: TableMessages


class Transactions:
    """The transactions of the source of which something is published together, and how many messages of which table each has.

    Tombstones are not counted. A table that was behind the others has its messages in a BEGIN and END of its own.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._found: dict[int, Found] = {}
        """By position."""

    def take(self, table: str, events: pa.RecordBatch) -> None:
        """Note the transactions of a table's events."""
        positions = events["position"].to_numpy()
        firsts = np.flatnonzero(np.r_[True, positions[1:] != positions[:-1]])
        some = events.take(pa.array(firsts))
        moments = some["time"].cast(pa.int64()).to_pylist()
        for position, name, micros in zip(positions[firsts].tolist(), transaction_ids(some, self._names), moments, strict=True):
            self._found.setdefault(position, (name, micros // 1000, Counter()))

    def count(self, table: str, batch: Batch) -> None:
        """Count messages of transactions that were noted."""
        found, counts = np.unique(batch.positions, return_counts=True)
        for position, count in zip(found.tolist(), counts.tolist(), strict=True):
            self._found[position][2][table] += count

    def send(self, writer: TopicWriter, topic: Topic, messages: TransactionMessages) -> None:
        """Send the beginning and the end of each, in the order of the stream."""
        for _, (name, milliseconds, counts) in sorted(self._found.items()):
            for key, value in (messages.begin(name, milliseconds), messages.end(name, counts, milliseconds)):
                writer.send(topic, [key], [value], [[]])


def send_step(root: Folder, writer: TopicWriter, step: Step, through: int, transactions: Transactions | None) -> Merged:
    """Send the events of a step up to a position, and return what they were; with ``transactions`` each message says of which it is.

    Raises SendRefused for what concerns this table alone, and AuditorError for what concerns all.
    """
    chosen = [part for part in step.ahead.parts if part.first <= through]
    sent, orders = 0, OrderInTransactions()
    try:
        for events in _events(root, step, through):
            sent += events.num_rows
            rows = events.filter(pc.not_equal(events["kind"], "bounds"))  # of which there are no messages
            if not rows.num_rows:
                continue
            if transactions:
                transactions.take(step.table, rows)
            for batch in _encoded(step, rows, orders.number(rows) if transactions else None):
                writer.send(step.topic, batch.keys, batch.values, batch.headers)
                if transactions:
                    transactions.count(step.table, batch)
    except AuditorError as error:
        if concerns_all(error):
            raise
        raise SendRefused(step.topic.name, b"", error) from error
    position = min(through, max(part.last for part in chosen))
    return Merged(position, sent, max(part.time for part in chosen), Held(position, chosen[-1].schema_id))


def _events(root: Folder, step: Step, through: int) -> Iterator[pa.RecordBatch]:
    """Yield the events of a step up to a position, without those that somebody let it go on without."""
    for part in step.ahead.parts:
        if part.first > through:
            break
        for events in read_part(root, part, step.held.position):
            found = events if part.last <= through else events.filter(pc.less_equal(events["position"], through))
            for position, row in step.ahead.skipped:
                at = pc.equal(found["position"], position)
                found = found.filter(pc.invert(at if row < 0 else pc.and_(at, pc.equal(found["row"], row))))
            if found.num_rows:
                yield found


def _encoded(step: Step, events: pa.RecordBatch, orders: pa.Array | None) -> Iterator[Batch]:
    """Yield the messages of events; where one cannot be written, say which. Raises SendRefused."""
    try:
        yield step.messages.encode(events, orders)
    except ValueRefused as error:
        if events.num_rows == 1:
            place = f"{events['position'][0]}.{events['row'][0]}".encode()
            raise SendRefused(step.topic.name, place, error) from error
        half = events.num_rows // 2
        for start, size in ((0, half), (half, events.num_rows - half)):
            yield from _encoded(step, events.slice(start, size), None if orders is None else orders.slice(start, size))


def concerns_all(error: AuditorError) -> bool:
    """Return whether an error is of the store, the staging's folder or the broker as a whole, and not of one table."""
    if isinstance(error, StagingFailed):
        return not isinstance(error, PartDamaged)
    return isinstance(error, StoreError) or (isinstance(error, BrokerError) and not isinstance(error, TopicRefused))


def describe_refused(step: Step, refused: SendRefused, target: str) -> TableNote:
    """Return the note on an event that cannot be published."""
    position, row = map(int, refused.place.split(b".")[:2])
    moment = next(part.time for part in step.ahead.parts if part.first <= position <= part.last)
    body = {"stage": "merge", "reason": str(refused.error), "of": 1}
    return TableNote(step.table, "poison", position, position, 1, moment, body, target=target, row=row)
