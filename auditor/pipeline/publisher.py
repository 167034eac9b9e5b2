"""Publish a pipeline's stream into the topics of one target, exactly once.

A transaction of the broker has whole transactions of the source, of all tables up to one position, and says so in the positions topic as
its last message. What is published is read there, and nowhere else, whenever a producer begins.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.api_models.pipeline import PublishedTopic
from auditor.background import Backoff, Service
from auditor.config import Settings, TopicTarget
from auditor.durations import durations
from auditor.errors import (
    AuditorError,
    BrokerError,
    IncarnationsDiffer,
    MergeFailed,
    PartDamaged,
    StagingFailed,
    StoreError,
    TableStopped,
    TopicRefused,
    ValueRefused,
    ValuesChanged,
)
from auditor.escaping import shell_word
from auditor.model import TableNote
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.incarnation import packed, ways_out
from auditor.pipeline.kafka.broker import open_admin
from auditor.pipeline.kafka.position_record import WHOLE, Published, TablePosition, read_published, read_records
from auditor.pipeline.kafka.table_messages import COLUMNS, PLACE, Batch, OrderInTransactions, TableMessages, names_of, refuse_registry
from auditor.pipeline.kafka.topic_writer import SendRefused, TopicWriter, ends_of
from auditor.pipeline.kafka.topics import FOR_EVER, LONGEST_MESSAGE, Topic, describe_topics, make_topic, read_settings, refuse_settings
from auditor.pipeline.kafka.written_topics import check_written, has_messages
from auditor.pipeline.merge.late_start import find_late
from auditor.pipeline.merge.merge_together import Pending, look
from auditor.pipeline.merge.pending_parts import PendingParts
from auditor.pipeline.merge.poison_search import describe_statement
from auditor.pipeline.merge.positions import Held, describe, get_schema, see
from auditor.pipeline.merge.table_changes import is_move, loses_rows
from auditor.pipeline.merge.table_merge import Merged, refuse_gone
from auditor.pipeline.merge.target_reports import TargetReports
from auditor.pipeline.messages.envelope import transaction_ids
from auditor.pipeline.messages.other_topics import ChangeType, SchemaChangeMessages, TransactionMessages
from auditor.pipeline.messages.payloads import Register
from auditor.pipeline.messages.registry import shared_registry
from auditor.pipeline.messages.source_block import Names
from auditor.pipeline.poison import report_poison
from auditor.pipeline.restaging import restage
from auditor.pipeline.staged_parts import read_part
from auditor.points import reach
from auditor.store import Store, parts, pipelines, schema_changes, table_notes, topic_states
from auditor.store.parts import StagedTable

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

log = logging.getLogger(__name__)

POSITIONS = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}
"""Settings of the positions topic: what later records replace is deleted within hours."""

POISONING = (ValueRefused, TopicRefused, TableStopped, ValuesChanged)
"""Errors that may be the fault of one event, or of one statement of the source."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction publishes of one table."""

    table: str
    held: Held
    ahead: PendingParts
    topic: Topic
    messages: TableMessages


class _Transactions:
    """The transactions of the source of which something is published together, and how many events of which table each has."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[str, int, Counter[str]]] = {}
        """By position: the name, the time in milliseconds, and the events by table."""

    def take(self, table: str, events: pa.RecordBatch, names: Names) -> None:
        """Count the events of a table, in their order."""
        positions = events["position"].to_numpy()
        firsts = np.flatnonzero(np.r_[True, positions[1:] != positions[:-1]])
        counts = np.diff(np.r_[firsts, len(positions)]).tolist()
        some = events.take(pa.array(firsts))
        moments = some["time"].cast(pa.int64()).to_pylist()
        for position, name, micros, count in zip(positions[firsts].tolist(), transaction_ids(some, names), moments, counts, strict=True):
            self._found.setdefault(position, (name, micros // 1000, Counter()))[2][table] += count

    def send(self, writer: TopicWriter, topic: Topic, messages: TransactionMessages) -> None:
        """Send the beginning and the end of each, in the order of the stream."""
        for _, (name, milliseconds, counts) in sorted(self._found.items()):
            for key, value in (messages.begin(name, milliseconds), messages.end(name, counts, milliseconds)):
                writer.send(topic, [key], [value], [[]])


@dataclass(slots=True)
class _Unreported:
    """What the store is not told yet of topics."""

    topics: dict[str, PublishedTopic] = field(default_factory=dict)
    committed: int = 0
    aborted: int = 0
    at: float = float("-inf")
    """When (seconds of the clock) it was told last."""


@dataclass(slots=True)
class Publisher:
    """Publishes the parts of a pipeline into the topics of one target."""

    settings: Settings
    store: Store
    pipeline: str
    target: str
    config_file: str = ""
    clock: Callable[[], float] = time.monotonic
    schemas_met: dict[str, TableSchema] = field(default_factory=dict)
    """The schemas of tables that were read from the store, by their ids."""
    _reports: TargetReports = field(init=False)
    _writer: TopicWriter | None = None
    _admin: AdminClient | None = None
    _said: Published = field(default_factory=Published)
    _topics: dict[str, Topic] = field(default_factory=dict)
    """By table, those that were described since the producer began, and held against the configuration."""
    _own: dict[str, Topic] = field(default_factory=dict)
    """The target's own topics, by their names."""
    _messages: dict[str, TableMessages] = field(default_factory=dict)
    """By the ids of schemas."""
    _unreported: _Unreported = field(default_factory=_Unreported)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._reports = TargetReports(self.store, self.pipeline, self.target, self._now)

    def _now(self) -> float:
        return self.clock()

    @property
    def chosen(self) -> TopicTarget:
        """What the configuration says of the target."""
        return self.settings.pipeline(self.pipeline).topic_targets[self.target]

    @property
    def root(self) -> str:
        """The folder of the staging."""
        return self.settings.pipeline(self.pipeline).staging.path

    # the loop

    def service(self, every: float, stopped: threading.Event, staged: threading.Event, paused: threading.Event) -> Service:
        """Return what publishes every so many seconds until ``stopped`` is set, but not while ``paused`` is.

        With 0, it does so whenever ``staged`` is set.
        """
        self._stopped = stopped

        def publish() -> None:
            staged.clear()
            if not paused.is_set():
                self.publish_all()
            if every:
                least, now = durations().first_retry, self.clock()
                stopped.wait(min([every, *(max(least, failure.until - now) for failure in self._reports.failures.values())]))
            else:
                staged.wait(durations().staged_poll)

        backoff = Backoff(durations().first_retry, durations().longest_retry)
        return Service(f"publisher {self.target}", publish, backoff=backoff, at_end=self.close, stopping=stopped)

    def close(self) -> None:
        """Leave the broker."""
        writer, self._writer, self._topics, self._own = self._writer, None, {}, {}
        if writer:
            writer.close()

    def publish_all(self) -> int:
        """Publish everything that the topics lack, and return the number of events; a table that fails stops no other.

        What fails is reported and waits; so does the whole target if the broker, or the store, cannot be reached.
        """
        if not self._reports.begin():
            return 0
        try:
            return self._publish()
        except AuditorError as error:
            self.close()
            self._reports.fail("", error)
        except Exception as error:  # a bug, or an error that nobody knows: it must not end the publisher in silence
            log.error("%s: an unexpected error", self.target, exc_info=True, extra={"action": "publish_unexpected"})
            self.close()
            self._reports.fail("", MergeFailed(f"an unexpected {type(error).__name__}; the log has its traceback"))
        finally:
            self._reports.tell_failures()
        return 0

    def _publish(self) -> int:
        tables = parts.list_tables(self.store, self.pipeline)
        if self._writer is not None and "" not in self._reports.failures and not self._lacking(tables):
            self._report_topics()
            return 0
        if self._writer is None:
            self._open(tables)
        self._reports.failures.pop("", None)
        total, settled = 0, set[tuple[str, int]]()
        while not self._stopped.is_set():
            waiting = self._reports.waiting
            lacking = self._kept({table: held for table, held in self._lacking(tables).items() if table not in waiting}, tables)
            if not lacking:
                break
            group = {table: held for table, held in lacking.items() if self._joins(table, held)}
            behind = {table: held for table, held in lacking.items() if table not in group}
            if group:
                total += self._publish_group(group, tables, settled, behind)
            for table, held in behind.items():
                total += self._guarded(table, held, partial(self._catch_up, table, held, tables, settled))
            tables = parts.list_tables(self.store, self.pipeline)
            self._report_topics()
        return total

    def _report_topics(self) -> None:
        """Tell the store up to where topics have messages, and how many transactions there were, from time to time."""
        news, now = self._unreported, self.clock()
        if (news.committed or news.aborted) and now >= news.at + durations().topics_report:
            topic_states.report(self.store, self.pipeline, self.target, news.topics, news.committed, news.aborted)
            self._unreported = _Unreported(at=now)

    def _lacking(self, tables: Mapping[str, StagedTable]) -> dict[str, Held]:
        """Return what is published of the tables of which something lacks."""
        return {table: self._held(table) for table, staged in sorted(tables.items()) if staged.staged_through > self._said.through(table)}

    def _held(self, table: str) -> Held:
        one = self._said.tables.get(table, TablePosition())
        return Held(one.position, one.schema_id)

    def _kept(self, lacking: Mapping[str, Held], tables: Mapping[str, StagedTable]) -> dict[str, Held]:
        """Return the tables of which no part was deleted that the topic lacks; the others fail."""
        kept: dict[str, Held] = {}
        for table, held in lacking.items():
            if self._said.through(table) < tables[table].pruned_through:
                self._reports.fail(table, refuse_gone(self.pipeline, table, held, tables[table]), held.position)
            else:
                kept[table] = held
        return kept

    def _joins(self, table: str, held: Held) -> bool:
        """Return whether a table is published as far as those that are published together."""
        if self._said.through(table) >= self._said.position:
            return True
        try:
            ahead = see(self, table, held)
        except (StoreError, StagingFailed):
            raise
        except AuditorError:
            return False  # it is said when the table catches up
        nearest = ahead.note.position if ahead.note else ahead.begins
        return nearest is None or nearest > self._said.position

    def _publish_group(
        self, group: Mapping[str, Held], tables: Mapping[str, StagedTable], settled: set[tuple[str, int]], behind: Collection[str]
    ) -> int:
        """Publish the next events of tables that are equally far, up to one position, and return their number.

        Where there is none before something that tables have to do by themselves, these do it.
        """
        outlook = look(self, group, self._said.position, tables, self.chosen.max_transaction, settled)
        for table, error in outlook.failed.items():
            self._guarded(table, group[table], partial(_raise, error))
        due = [one for one in outlook.pending.values() if one.ahead.begins is not None and one.ahead.begins <= outlook.through]
        steps: list[Step] = []
        for one in due:
            self._guarded(one.table, one.held, partial(self._plan, one.table, one.held, one.ahead, steps))
        total = self._send_steps(steps, outlook.through, {*behind, *outlook.failed, *(one.table for one in due)})
        for one in outlook.stopping() if not due else ():
            self._guarded(one.table, one.held, partial(self._follow, one, settled))
        return total

    def _catch_up(self, table: str, held: Held, tables: Mapping[str, StagedTable], settled: set[tuple[str, int]]) -> int:
        """Publish the next events of a table that is behind the others, up to where these are, and return their number."""
        outlook = look(self, {table: held}, held.position, tables, self.chosen.max_transaction, settled)
        for error in outlook.failed.values():
            raise error
        pending = outlook.pending.get(table)
        if pending is None:
            return 0
        through = min(outlook.through, self._said.position)
        if pending.ahead.begins is not None and pending.ahead.begins <= through:
            steps: list[Step] = []
            self._plan(table, held, pending.ahead, steps)
            return self._send_steps(steps, through, ())
        for one in outlook.stopping():
            self._follow(one, settled)
        return 0

    def _guarded(self, table: str, held: Held, work: Callable[[], int]) -> int:
        """Return what work on one table returns, or 0 and report why it does not go on.

        Raises StoreError, and BrokerError of all topics.
        """
        try:
            return work()
        except StoreError:
            raise
        except PartDamaged as error:
            self._reports.waiting.add(table)
            self._restage(table, held.position, error)
        except AuditorError as error:
            if isinstance(error, BrokerError) and not isinstance(error, TopicRefused):
                raise
            self._reports.fail(table, error, held.position)
        return 0

    def _restage(self, table: str, position: int, damage: PartDamaged) -> None:
        """Stage the damaged parts of a table again from the source, so that it goes on; where that fails, report why it does not."""
        try:
            if not restage(self.settings, self.store, self.pipeline, folder_at(self.root), table, position):
                self._reports.fail(table, damage, position)
        except AuditorError as error:
            self._reports.fail(table, error, position)

    # transactions

    def _plan(self, table: str, held: Held, ahead: PendingParts, steps: list[Step]) -> int:
        """Make a table's topic, and its messages, ready for its next events. Raises AuditorError."""
        schema = get_schema(self, ahead.parts[0].schema_id)
        steps.append(Step(table, held, ahead, self._topic(table), self._messages_of(table, schema)))
        return 0

    def _send_steps(self, steps: Sequence[Step], through: int, apart: Collection[str]) -> int:
        """Publish the events of steps up to a position, without those that fail, and return their number.

        The positions topic then says that every table is published up to there, but for those ``apart`` that are in no step.
        """
        while True:
            try:
                return self._transact(steps, through, {*apart, *self._apart()} - {step.table for step in steps})
            except SendRefused as refused:
                failed = next((step for step in steps if step.topic.name == refused.topic), None)
                if failed is None:  # one of the target's own topics
                    raise refused.error from refused
                if refused.place:
                    note = _poison(failed, refused, self.target)
                    table_notes.record_poison(self.store, self.pipeline, note)
                    report_poison(self.pipeline, [note])
                self._reports.fail(failed.table, refused.error, failed.held.position)
                apart = {*apart, failed.table}
                steps = [step for step in steps if step is not failed]

    def _apart(self) -> set[str]:
        """Return the tables that are not published as far as the others, or fail."""
        return {*self._said.apart, *self._reports.waiting}

    def _transact(self, steps: Sequence[Step], through: int, apart: Collection[str]) -> int:
        began, writer = self.clock(), self._open_writer()
        reach("publish.begin")
        writer.begin()
        merged, transactions = dict[str, Merged](), _Transactions()
        try:
            for step in steps:
                merged[step.table] = self._send(writer, step, through, transactions)
            if self.chosen.transactions:
                topic = self._own_topic("transactions")
                transactions.send(writer, topic, TransactionMessages(self.chosen.messages, self._register(topic.name)))
            self._commit(writer, {step.table: (step.topic, merged[step.table].held) for step in steps}, through, apart)
        except SendRefused:
            self._abort(writer)
            raise
        if merged:
            self._tell(merged, self.clock() - began)
        return sum(one.events for one in merged.values())

    def _commit(self, writer: TopicWriter, changed: Mapping[str, tuple[Topic, Held]], through: int, apart: Collection[str]) -> None:
        """Write where tables stand now as the last messages of a transaction, and commit it."""
        ends = writer.flush()
        reach("publish.sent")
        tables: dict[str, TablePosition] = {}
        for table, (topic, held) in changed.items():
            before = self._said.tables.get(table, TablePosition())
            now = ends_of(topic, before.ends if before.topic == topic.name else (), ends.get(topic.name, {}))
            tables[table] = TablePosition(held.position, held.schema_id, topic.name, topic.id, now)
        said = replace(
            self._said,
            batch=self._said.batch + 1,
            position=max(self._said.position, through),
            apart=frozenset(apart),
            tables={**self._said.tables, **tables},
        )
        keys, values = zip(*said.records(tables), strict=True)
        writer.send(self._own_topic("positions"), keys, values, [[] for _ in keys])
        writer.flush()
        reach("publish.commit")
        writer.commit()
        reach("publish.committed")
        self._said = said
        self._unreported.committed += 1
        placed = {table: one for table, one in tables.items() if one.topic}
        self._unreported.topics |= {table: PublishedTopic(topic=one.topic, ends=list(one.ends)) for table, one in placed.items()}

    def _abort(self, writer: TopicWriter) -> None:
        writer.abort()
        self._unreported.aborted += 1

    def _tell(self, merged: Mapping[str, Merged], seconds: float) -> None:
        reach("publish.report")
        self._reports.tell_merged(merged, seconds)

    def _send(self, writer: TopicWriter, step: Step, through: int, transactions: _Transactions) -> Merged:
        """Send the events of a step up to a position; return what they were. Raises SendRefused."""
        chosen = [part for part in step.ahead.parts if part.first <= through]
        if not step.held.schema_id:
            self._send_schema(writer, step.messages.schema, None, chosen[0].first, chosen[0].time, is_new=True)
        sent, names, orders = 0, self._names(), OrderInTransactions()
        for events in self._events(step, through):
            numbers = orders.number(events) if self.chosen.transactions else None
            for batch in self._encoded(step, events, numbers):
                writer.send(step.topic, batch.keys, batch.values, batch.headers)
            if self.chosen.transactions:
                transactions.take(step.table, events, names)
            sent += events.num_rows
        position = min(through, max(part.last for part in chosen))
        return Merged(position, sent, max(part.time for part in chosen), Held(position, chosen[-1].schema_id))

    def _events(self, step: Step, through: int) -> Iterator[pa.RecordBatch]:
        """Yield the events of a step up to a position, without those that somebody let it go on without."""
        root, bound = folder_at(self.root), through if step.ahead.through is None else min(through, step.ahead.through)
        for part in step.ahead.parts:
            if part.first > bound:
                break
            for events in read_part(root, part, step.held.position):
                found = events if part.last <= bound else events.filter(pc.less_equal(events["position"], bound))
                for position, row in step.ahead.skipped:
                    at = pc.equal(found["position"], position)
                    found = found.filter(pc.invert(at if row < 0 else pc.and_(at, pc.equal(found["row"], row))))
                if found.num_rows:
                    yield found

    def _encoded(self, step: Step, events: pa.RecordBatch, orders: pa.Array | None) -> Iterator[Batch]:
        """Yield the messages of events; where one cannot be written, say which. Raises SendRefused."""
        try:
            yield step.messages.encode(events, orders)
        except ValueRefused as error:
            if events.num_rows == 1:
                place = f"{events['position'][0]}.{events['row'][0]}".encode()
                raise SendRefused(step.topic.name, place, error) from error
            half = events.num_rows // 2
            for start, size in ((0, half), (half, events.num_rows - half)):
                yield from self._encoded(step, events.slice(start, size), None if orders is None else orders.slice(start, size))

    # what statements of the source did

    def _follow(self, pending: Pending, settled: set[tuple[str, int]]) -> int:
        """Publish what a statement did to a table before its next event. Raises AuditorError."""
        table, held, ahead = pending.table, pending.held, pending.ahead
        if ahead.note:
            self._pass(table, held, ahead, ahead.note)
        elif ahead.parts:
            first, schema_id = ahead.begins or ahead.parts[0].first, ahead.parts[0].schema_id
            schema = get_schema(self, schema_id)
            self._messages_of(table, schema)  # which a registry may refuse, before anything of it is published
            topic, writer = self._topic(table), self._open_writer()
            writer.begin()
            self._send_schema(writer, schema, _statement(ahead.changes), first, ahead.parts[0].time)
            now = Held(held.position, schema_id)
            self._commit(writer, {table: (topic, now)}, self._said.position, self._apart())
            settled.add((table, first))
        return 0

    def _pass(self, table: str, held: Held, ahead: PendingParts, note: TableNote) -> None:
        """Publish a statement that is not about columns alone. Raises TableStopped and ValuesChanged."""
        if note.stops:
            raise TableStopped(note.reason)
        is_skipped = (note.position, note.row) in ahead.skipped
        if ahead.why:
            self._stop(note, ValuesChanged(f"{ahead.why}, without a word of them in the log; send all rows again, or skip this"))
        if is_move(note) and not is_skipped:
            self._stop(
                note,
                TableStopped(
                    f"{table} was renamed in the source, or got the place of another table, and rows that are in one topic do not move into"
                    f" another; send all rows of its new name again (auditor pipeline refresh {shell_word(self.pipeline)}), then skip this"
                ),
            )
        clears = not is_move(note) and not is_skipped and loses_rows(self, table, held, note)
        now = Held(note.position, held.schema_id)
        if not held.schema_id:  # nothing is in its topic
            self._commit_alone(table, Topic("", "", 0), now, note)
            return
        topic = self._topic(table)
        if clears and "compact" in self.chosen.cleanup:
            self._stop(
                note,
                TableStopped(
                    f"the source emptied {table}, or made it anew, and a topic that is compacted takes no message without a key; delete its"
                    " rows in what reads the topic, and skip this; or publish into topics with cleanup: delete"
                ),
            )
        self._commit_alone(table, topic, now, note, clears)

    def _commit_alone(self, table: str, topic: Topic, now: Held, note: TableNote, clears: bool = False) -> None:
        """Publish in a transaction what a statement did to one table, and that it stands behind it."""
        began, writer = self.clock(), self._open_writer()
        writer.begin()
        try:
            if topic.name:
                schema = get_schema(self, now.schema_id)
                micros = int(note.time.timestamp() * 1_000_000)
                if clears and (emptied := self._messages_of(table, schema).truncation(None, note.position, micros)):
                    writer.send_to_all(topic, emptied)
                self._send_schema(writer, schema, _statement([note]), note.position, note.time)
            self._commit(writer, {table: (topic, now)}, self._said.position, {*self._apart(), table})
        except SendRefused as refused:
            self._abort(writer)
            raise refused.error from refused
        self._tell({table: Merged(now.position, 0, note.time, now)}, self.clock() - began)

    def _stop(self, note: TableNote, error: AuditorError) -> None:
        """Record that a statement stops the table in this target alone, so that somebody can skip it. Raises the error."""
        recorded = describe_statement(note, self.target, str(error))
        table_notes.record_poison(self.store, self.pipeline, recorded)
        report_poison(self.pipeline, [recorded])
        raise error

    def _send_schema(
        self, writer: TopicWriter, schema: TableSchema, ddl: str | None, position: int, moment: dt.datetime, *, is_new: bool = False
    ) -> None:
        """Send what a table's columns are from a position on, and by which statement, if there is a topic of such statements."""
        if self.chosen.schema_changes is None:
            return
        topic = self._own_topic("schema_changes")
        messages = SchemaChangeMessages(self.chosen.messages, self._names(), self._register(topic.name))
        changes: list[tuple[ChangeType, str, TableSchema | None]] = [("CREATE" if is_new else "ALTER", schema.table, schema)]
        micros = int(moment.timestamp() * 1_000_000)
        key, value = messages.write(schema.database, ddl, changes, gtid=None, position=position, micros=micros, now_ns=time.time_ns())
        writer.send(topic, [key], [value], [[(PLACE, f"{position}.-1.{schema.id}".encode()), (COLUMNS, schema.to_json().encode())]])

    def _register(self, topic: str) -> Register | None:
        """Return what registers schemas of one of the target's own topics; None if its messages need none."""
        broker = self.settings.brokers[self.chosen.broker]
        if not self.chosen.messages.has_registry:
            return None
        if broker.registry is None:
            raise TopicRefused(refuse_registry(self.chosen))
        return shared_registry(broker.registry).registering(topic, self.chosen.messages)

    # topics

    def _open(self, tables: Mapping[str, StagedTable]) -> None:
        """Begin as the only producer, read what is published, and hold the topics against it. Raises BrokerError and IncarnationsDiffer."""
        incarnation = pipelines.begin(self.store, self.pipeline)
        positions, writer = self._own_topic("positions"), self._open_writer()  # which ends what a producer before it had under way
        del writer
        self._said = read_published(self.settings.brokers[self.chosen.broker], positions.name)
        self._check_incarnation(incarnation, tables)
        self._said = replace(self._said, incarnation=incarnation)
        for table, error in check_written(self.settings.brokers[self.chosen.broker], self._open_admin(), self._said.tables).items():
            self._reports.fail(table, error, self._said.tables[table].position)
        late = find_late(self, {table: self._held(table) for table in tables}, tables, lambda: self.settings)
        if late:
            begun = {table: TablePosition(position) for table, position in late.items()}
            self._said = replace(self._said, tables={**self._said.tables, **begun})

    def _check_incarnation(self, incarnation: str, tables: Mapping[str, StagedTable]) -> None:
        """Check that the topics were filled by this life of the pipeline, and not beyond what the store knows.

        Raises IncarnationsDiffer.
        """
        said, reset = self._said, f"auditor pipeline reset {shell_word(self.pipeline)} --target {shell_word(self.target)}"
        reported = pipelines.list_merges(self.store, self.pipeline, self.target).get(self.target, {})
        if not said.incarnation:
            if any(report.position for report in reported.values()):
                raise IncarnationsDiffer(
                    f"target {self.target}: the positions topic says nothing, and tables were published before: it was deleted, or the"
                    f" broker was restored from an earlier time; restore it, or let the target begin anew in other topics ({reset})"
                )
            return
        if said.incarnation != incarnation:
            raise IncarnationsDiffer(
                f"target {self.target} was filled by incarnation {said.incarnation} of pipeline {self.pipeline}, and the store has"
                f" {incarnation}: one of them was lost or restored, and messages would be missing, or sent twice;"
                f" {ways_out(self.pipeline)}; for topics that begin anew: {reset}"
            )
        offset = pipelines.get_pipeline(self.store, self.pipeline).source_offset
        known = max([packed(offset), *(staged.staged_through for staged in tables.values())])
        there = max([said.position, *(one.position for one in said.tables.values())])
        if there > known:
            raise IncarnationsDiffer(
                f"target {self.target} holds the stream up to {describe(there)}, and the store of pipeline {self.pipeline} knows it up to"
                f" {describe(known)}: the store is older; {ways_out(self.pipeline)}"
            )

    def _open_writer(self) -> TopicWriter:
        if self._writer is None:
            name = _producer_name(self.pipeline, self.target)
            self._writer = TopicWriter(self.settings.brokers[self.chosen.broker], name, self.chosen.timeout)
        return self._writer

    def _open_admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = open_admin(self.settings.brokers[self.chosen.broker])
        return self._admin

    def _own_topic(self, name: str) -> Topic:
        """Return one of the target's own topics, which is made if it is missing. Raises BrokerError."""
        topic = self.chosen.own_topic(name, self.pipeline, self.target)  # type: ignore[arg-type]
        assert topic
        if topic not in self._own:
            wanted = POSITIONS if name == "positions" else FOR_EVER
            self._own[topic] = self._described(topic, 1, wanted, ("cleanup.policy",))
        return self._own[topic]

    def _topic(self, table: str) -> Topic:
        """Return the topic of a table, which is made if it is missing, or else as the configuration says. Raises BrokerError."""
        if table not in self._topics:
            chosen = self.chosen
            name = chosen.topic_of(self.pipeline, self.target, table)
            known = self._said.tables
            if other := next((other for other in {*self._topics, *known} - {table} if self._topic_name(other) == name), ""):
                raise TopicRefused(f"{table} and {other} would both be topic {name}; give one of them a name of its own (tables: name)")
            one = known.get(table)
            if one and one.topic not in ("", name):
                raise TopicRefused(
                    f"{table} was published into topic {one.topic}, and the configuration says {name}; write the old name (tables: name),"
                    " or let the target begin anew"
                )
            topic = self._described(name, chosen.partitions_of(table), chosen.made_with, tuple(chosen.made_with))
            if (one is None or not one.topic) and has_messages(self.settings.brokers[chosen.broker], topic):
                raise TopicRefused(
                    f"topic {name} has messages, and {table} was never published into it, as far as the positions topic says; delete the"
                    " topic, or write another name (tables: name)"
                )
            self._topics[table] = topic
        return self._topics[table]

    def _topic_name(self, table: str) -> str:
        return self.chosen.topic_of(self.pipeline, self.target, table)

    def _described(self, name: str, partitions: int, settings: Mapping[str, str], checked: Sequence[str]) -> Topic:
        admin, timeout = self._open_admin(), self.settings.brokers[self.chosen.broker].timeout
        topic = describe_topics(admin, [name], timeout).get(name)
        if topic is None:
            if not self.chosen.make:
                raise TopicRefused(f"there is no topic {name}, and make is false; make it with {partitions} partitions, or let it be made")
            topic = make_topic(admin, name, partitions, self.chosen.replication, settings, timeout)
        found = read_settings(admin, [name], timeout).get(name, {})
        if why := refuse_settings(topic, found, partitions, {name: settings[name] for name in checked}):
            raise TopicRefused(why)
        return replace(topic, longest_message=int(found.get(LONGEST_MESSAGE, topic.longest_message)))

    def _names(self) -> Names:
        return names_of(self.pipeline, pipelines.get_pipeline(self.store, self.pipeline).source_offset)

    def _messages_of(self, table: str, schema: TableSchema) -> TableMessages:
        """Return what writes a table's events as messages; a registry has their schemas then. Raises AuditorError."""
        if schema.id not in self._messages:
            broker, known = self.settings.brokers[self.chosen.broker], self._lasting_columns(table, schema)
            self._messages[schema.id] = TableMessages(schema, known, self._topic_name(table), self.chosen, broker, self._names())
        return self._messages[schema.id]

    def _lasting_columns(self, table: str, schema: TableSchema) -> list[str]:
        """Return the columns that a table had in all its schemas until this one: only these can be required in every message."""
        lasting = [column.name for column in schema.columns]
        for one in schema_changes.list_history(self.store, self.pipeline, table):
            if one.schema_id == schema.id:
                break
            there = {column.name for column in get_schema(self, one.schema_id).columns}
            lasting = [name for name in lasting if name in there]
        return lasting


def _statement(notes: Sequence[TableNote]) -> str | None:
    """Return the texts of statements; None where none is kept."""
    return "; ".join(str(note.body["statement"]) for note in notes if note.body.get("statement")) or None


def _poison(step: Step, refused: SendRefused, target: str) -> TableNote:
    """Return the note on an event that cannot be published."""
    position, row = map(int, refused.place.split(b".")[:2])
    moment = next(part.time for part in step.ahead.parts if part.first <= position <= part.last)
    body = {"stage": "merge", "reason": str(refused.error), "of": 1}
    return TableNote(step.table, "poison", position, position, 1, moment, body, target=target, row=row)


def _raise(error: AuditorError) -> int:
    raise error


def forget_published(settings: Settings, pipeline: str, target: str) -> None:
    """Let a target that is topics forget how far it is; its messages stay. Raises BrokerError."""
    chosen = settings.pipeline(pipeline).topic_targets[target]
    broker, name = settings.brokers[chosen.broker], chosen.own_topic("positions", pipeline, target)
    assert name
    found = describe_topics(open_admin(broker), [name], broker.timeout)
    if not found:  # nothing was ever published
        return
    writer = TopicWriter(broker, _producer_name(pipeline, target), chosen.timeout)
    try:
        keys = sorted({key for key, value in read_records(broker, name) if value is not None}, key=lambda key: key == WHOLE)
        writer.begin()
        writer.send(found[name], keys, [None] * len(keys), [[] for _ in keys])
        writer.flush()
        writer.commit()
    finally:
        writer.close()


def _producer_name(pipeline: str, target: str) -> str:
    """Return the transactional id of a target's only producer, the same for ever."""
    return f"auditor.{pipeline}.{target}"
