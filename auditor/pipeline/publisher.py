"""Publish a pipeline's stream into the topics of one target, exactly once.

A transaction of the broker has whole transactions of the source, of all tables up to one position, and says so in the positions topic as
its last message. A producer that begins reads only there what is already published.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

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
    ProducerFenced,
    StagingFailed,
    StoreError,
    TableStopped,
    TopicRefused,
    ValuesChanged,
)
from auditor.escaping import shell_word
from auditor.model import TableNote
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.incarnation import packed, ways_out
from auditor.pipeline.kafka.broker import open_admin
from auditor.pipeline.kafka.own_statements import CHANGES, changes_header
from auditor.pipeline.kafka.position_record import WHOLE, Published, TablePosition, read_published, read_records
from auditor.pipeline.kafka.table_messages import COLUMNS, PLACE, TableMessages, names_of
from auditor.pipeline.kafka.target_topics import TargetTopics
from auditor.pipeline.kafka.topic_writer import SendRefused, TopicWriter
from auditor.pipeline.kafka.topics import Topic, describe_topics
from auditor.pipeline.merge.late_start import find_late
from auditor.pipeline.merge.merge_together import Pending, look
from auditor.pipeline.merge.pending_parts import PendingParts
from auditor.pipeline.merge.poison_search import describe_statement
from auditor.pipeline.merge.positions import Held, describe, get_schema, see
from auditor.pipeline.merge.table_changes import is_move, loses_rows
from auditor.pipeline.merge.table_merge import Merged, refuse_gone
from auditor.pipeline.merge.target_reports import TargetReports
from auditor.pipeline.messages.other_topics import ChangeType, SchemaChangeMessages, TransactionMessages
from auditor.pipeline.messages.source_block import Names
from auditor.pipeline.poison import report_poison
from auditor.pipeline.restaging import restage
from auditor.pipeline.step_sender import Step, Transactions, concerns_all, describe_refused, send_step
from auditor.points import reach
from auditor.store import Store, parts, pipelines, schema_changes, table_notes, topic_states
from auditor.store.parts import StagedTable
from auditor.store.pipelines import MergeNews

log = logging.getLogger(__name__)

NO_TOPIC = Topic("", "", 0)
"""That of a table of which nothing was published."""


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
    clock: Callable[[], float] = time.monotonic
    schemas_met: dict[str, TableSchema] = field(default_factory=dict)
    """The schemas of tables that were read from the store, by their ids."""
    _reports: TargetReports = field(init=False)
    _topics: TargetTopics = field(init=False)
    _writer: TopicWriter | None = None
    _said: Published = field(default_factory=Published)
    _refused: set[str] = field(default_factory=set)
    """Tables whose topics were not those that were written into: they are looked at before anything is published there."""
    _messages: dict[str, TableMessages] = field(default_factory=dict)
    """By the ids of schemas."""
    _unreported: _Unreported = field(default_factory=_Unreported)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._reports = TargetReports(self.store, self.pipeline, self.target, self._now)
        self._topics = TargetTopics(self.settings, self.pipeline, self.target)

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
                least, now = durations().pipeline_first_retry, self.clock()
                stopped.wait(min([every, *(max(least, failure.until - now) for failure in self._reports.failures.values())]))
            else:
                staged.wait(durations().staged_poll)

        backoff = Backoff(durations().pipeline_first_retry, durations().pipeline_longest_retry)
        return Service(f"publisher {self.target}", publish, backoff=backoff, at_end=self.close, stopping=stopped)

    def close(self) -> None:
        """Leave the broker."""
        writer, self._writer = self._writer, None
        self._topics.forget()
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
        is_begin = self._writer is None
        if is_begin:
            self._open(tables)
        self._reports.failures.pop("", None)
        self._check_topics(self._said.tables if is_begin else self._refused - self._reports.waiting)
        if is_begin:
            self._report_positions(tables)
        total = 0
        while not self._stopped.is_set():
            waiting = self._reports.waiting
            lacking = self._kept({table: held for table, held in self._lacking(tables).items() if table not in waiting}, tables)
            if not lacking:
                break
            group = {table: held for table, held in lacking.items() if self._joins(table, held)}
            behind = {table: held for table, held in lacking.items() if table not in group}
            if group:
                total += self._publish_group(group, tables, behind)
            for table, held in behind.items():
                total += self._guarded(table, held, partial(self._catch_up, table, held, tables))
            tables = parts.list_tables(self.store, self.pipeline)
            self._report_topics()
        return total

    def _report_topics(self) -> None:
        """Tell the store up to where topics have messages, and how many transactions there were, from time to time."""
        news, now = self._unreported, self.clock()
        if (news.committed or news.aborted) and now >= news.at + durations().topics_report:
            topic_states.report(self.store, self.pipeline, self.target, news.topics, news.committed, news.aborted)
            self._unreported = _Unreported(at=now)

    def _check_topics(self, tables: Collection[str]) -> None:
        """Let tables wait whose topics are not those that were written into. Raises BrokerError."""
        written = {table: one for table in tables if (one := self._said.tables.get(table))}
        refused = self._topics.check_written(written)
        self._refused = (self._refused - {*tables}) | refused.keys()
        for table, error in refused.items():
            self._reports.fail(table, error, written[table].position)

    def _report_positions(self, tables: Mapping[str, StagedTable]) -> None:
        """Report where the topics say that they stand: an earlier process may have ended before it could, or the broker was away.

        Of a table that lacks nothing, no reason of before holds any more. Raises StoreError.
        """
        reports = pipelines.list_merges(self.store, self.pipeline, self.target).get(self.target, {})
        lacking, stands = self._lacking(tables), dict[str, MergeNews]()
        for table, one in self._said.tables.items():
            if table in self._reports.failures:
                continue
            report = reports.get(table)
            is_past = report is not None and report.state != "merged" and table not in lacking
            if report is None or report.position != one.position or is_past:
                stands[table] = MergeNews(one.position, "merged")
        pipelines.report_merges(self.store, self.pipeline, self.target, stands)

    def _lacking(self, tables: Mapping[str, StagedTable]) -> dict[str, Held]:
        """Return what is published of the tables of which something lacks."""
        return {table: self._held(table) for table, staged in sorted(tables.items()) if staged.staged_through > self._said.through(table)}

    def _held(self, table: str) -> Held:
        one = self._said.tables.get(table, TablePosition())
        return Held(one.position, one.schema_id)

    def _kept(self, lacking: dict[str, Held], tables: Mapping[str, StagedTable]) -> dict[str, Held]:
        """Return the tables of which no part was deleted that the topic lacks, or all rows were sent again behind that; the others fail."""
        gone = {table: held for table, held in lacking.items() if self._said.through(table) < tables[table].pruned_through}
        if not gone:
            return lacking
        late = find_late(self, gone, tables, lambda: self.settings)
        begun = {table: TablePosition(position) for table, position in late.items()}
        self._said = replace(self._said, tables={**self._said.tables, **begun})
        for table in gone.keys() - late.keys():
            self._reports.fail(table, refuse_gone(self.pipeline, table, gone[table], tables[table]), gone[table].position)
        return {table: self._held(table) for table in lacking if table not in gone or table in late}

    def _counts(self, table: str) -> tuple[int, ...]:
        """Return how many messages each partition of a table's topic has; nothing if none was published yet."""
        return self._said.tables.get(table, TablePosition()).counts

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

    def _publish_group(self, group: Mapping[str, Held], tables: Mapping[str, StagedTable], behind: Collection[str]) -> int:
        """Publish the next events of tables that are equally far, up to one position, and return their number.

        Where there is none before something that tables have to do by themselves, these do it.
        """
        outlook = look(self, group, self._said.position, tables, self.chosen.max_transaction)
        for table, error in outlook.failed.items():
            self._guarded(table, group[table], partial(_raise, error))
        due = [one for one in outlook.pending.values() if one.ahead.begins is not None and one.ahead.begins <= outlook.through]
        steps: list[Step] = []
        for one in due:
            self._guarded(one.table, one.held, partial(self._plan, one.table, one.held, one.ahead, steps))
        # Whatever is in neither of these has nothing up to there that is not published, or published now.
        apart = {*behind, *outlook.failed, *(self._said.apart - tables.keys())}
        total = 0
        if steps or outlook.through > self._said.position or {*apart, *self._reports.waiting} != self._said.apart:
            total = self._send_steps(steps, outlook.through, apart)
        for one in outlook.stopping() if not due else ():
            self._guarded(one.table, one.held, partial(self._follow, one))
        return total

    def _catch_up(self, table: str, held: Held, tables: Mapping[str, StagedTable]) -> int:
        """Publish the next events of a table that is behind the others, up to where these are, and return their number."""
        outlook = look(self, {table: held}, held.position, tables, self.chosen.max_transaction)
        for error in outlook.failed.values():
            raise error
        pending = outlook.pending.get(table)
        if pending is None:
            return 0
        through = min(outlook.through, self._said.position)
        if pending.ahead.begins is not None and pending.ahead.begins <= through:
            steps: list[Step] = []
            self._plan(table, held, pending.ahead, steps)
            arrives = through >= self._said.position
            return self._send_steps(steps, through, self._said.apart - ({table} if arrives else set()))
        for one in outlook.stopping():
            self._follow(one)
        return 0

    def _guarded(self, table: str, held: Held, work: Callable[[], int]) -> int:
        """Return what work on one table returns, or 0 and report why it does not go on.

        Raises AuditorError of what concerns all tables.
        """
        try:
            return work()
        except SendRefused as refused:
            if self._topics.is_own(refused.topic):
                raise BrokerError(str(refused.error)) from refused
            self._fail(table, held.position, refused.error)
        except AuditorError as error:
            self._fail(table, held.position, error)
        return 0

    def _fail(self, table: str, position: int, error: AuditorError) -> None:
        """Let a table wait, and report why, or stage its damaged parts again. Raises the error if it concerns all tables."""
        if concerns_all(error):
            raise error
        if isinstance(error, PartDamaged):
            self._reports.waiting.add(table)
            self._restage(table, position, error)
            return
        if isinstance(error, TopicRefused):
            self._topics.forget_table(table)
            self._refused.add(table)
        self._reports.fail(table, error, position)

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
        steps.append(Step(table, held, ahead, self._topic(table, schema), self._messages_of(table, schema)))
        return 0

    def _send_steps(self, steps: Sequence[Step], through: int, apart: Collection[str]) -> int:
        """Publish the events of steps up to a position, without those that fail, and return their number.

        The positions topic then says that every table is published up to there, but for those ``apart``, and those that fail.
        """
        while True:
            try:
                return self._transact(steps, through, {*apart, *self._reports.waiting})
            except SendRefused as refused:
                failed = next((step for step in steps if step.topic.name == refused.topic), None)
                if failed is None:  # one of the target's own topics
                    raise BrokerError(str(refused.error)) from refused
                if refused.place:
                    note = describe_refused(failed, refused, self.target)
                    table_notes.record_poison(self.store, self.pipeline, note)
                    report_poison(self.pipeline, [note])
                self._fail(failed.table, failed.held.position, refused.error)
                steps = [step for step in steps if step is not failed]

    def _transact(self, steps: Sequence[Step], through: int, apart: Collection[str]) -> int:
        began, merged, root = self.clock(), dict[str, Merged](), folder_at(self.root)
        transactions = Transactions(self._names()) if self.chosen.transactions else None
        with self._transaction() as writer:
            for step in steps:
                if not step.held.schema_id:
                    first = step.ahead.parts[0]
                    self._send_schema(writer, step.messages.schema, (), first.first, first.time, is_new=True)
                writer.number(step.topic, self._counts(step.table))
                merged[step.table] = send_step(root, writer, step, through, transactions)
            if transactions:
                topic = self._topics.own("transactions")
                transactions.send(writer, topic, TransactionMessages(self.chosen.messages, self._topics.registering(topic.name)))
            self._commit(writer, {step.table: (step.topic, merged[step.table].held) for step in steps}, through, apart)
        if merged:
            self._tell(merged, self.clock() - began)
        return sum(one.events for one in merged.values())

    @contextmanager
    def _transaction(self) -> Iterator[TopicWriter]:
        """Begin a transaction, which an error of one table undoes; after one that concerns all tables the producer is left."""
        writer = self._open_writer()
        reach("publish.begin")
        writer.begin()
        began = time.monotonic()
        try:
            yield writer
        except SendRefused as refused:
            if concerns_all(refused.error):
                raise self._explain(refused.error, time.monotonic() - began) from refused
            self._abort(writer)
            raise
        except AuditorError as error:
            if not concerns_all(error):
                self._abort(writer)
            if (explained := self._explain(error, time.monotonic() - began)) is error:
                raise
            raise explained from error

    def _explain(self, error: AuditorError, seconds: float) -> AuditorError:
        """Return an error of a transaction that stood open for so long; a producer is fenced, too, whose transaction took too long."""
        if not isinstance(error, ProducerFenced) or seconds < self.chosen.timeout:
            return error
        return ProducerFenced(
            f"a transaction stood open for {seconds:.0f} s, and the broker ends one after {self.chosen.timeout:g} s; raise timeout of the"
            f" target {self.target} (transaction.max.timeout.ms of the brokers must allow it), or lower its max_transaction: {error}"
        )

    def _commit(self, writer: TopicWriter, changed: Mapping[str, tuple[Topic, Held]], through: int, apart: Collection[str]) -> None:
        """Write where tables stand now as the last messages of a transaction, and commit it."""
        writer.flush()
        reach("publish.sent")
        positions = self._topics.own("positions")
        if found := self._topics.find_changed([positions, *(topic for topic, _ in changed.values() if topic.name)]):
            raise SendRefused(found[0], b"", found[1])
        ends = self._topics.list_ends(topic for topic, _ in changed.values())
        tables = {
            table: TablePosition(
                held.position, held.schema_id, topic.name, topic.id, ends[topic.name], writer.counts(topic) or self._counts(table)
            )
            for table, (topic, held) in changed.items()
        }
        said = replace(
            self._said,
            batch=self._said.batch + 1,
            position=max(self._said.position, through),
            apart=frozenset(apart),
            tables={**self._said.tables, **tables},
        )
        keys, values = zip(*said.records(tables), strict=True)
        writer.send(positions, keys, values, [[] for _ in keys])
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

    # what statements of the source did

    def _follow(self, pending: Pending) -> int:
        """Publish what a statement did to a table before its next event. Raises AuditorError and SendRefused."""
        table, held, ahead = pending.table, pending.held, pending.ahead
        if ahead.note:
            self._pass(table, held, ahead, ahead.note)
        elif ahead.parts:
            first, schema = ahead.begins or ahead.parts[0].first, get_schema(self, ahead.parts[0].schema_id)
            topic = self._topic(table, schema)
            self._messages_of(table, schema)  # which a registry may refuse, before anything of it is published
            now = Held(max([held.position, *(note.position for note in ahead.changes)]), schema.id)
            with self._transaction() as writer:
                self._send_schema(writer, schema, ahead.changes, first, ahead.parts[0].time)
                self._commit(writer, {table: (topic, now)}, self._said.position, {*self._said.apart, *self._reports.waiting})
        elif ahead.through is not None:  # what could not be published there is gone
            topic = self._topic(table, get_schema(self, held.schema_id)) if held.schema_id else NO_TOPIC
            with self._transaction() as writer:
                now = Held(ahead.through, held.schema_id)
                self._commit(writer, {table: (topic, now)}, self._said.position, {*self._said.apart, *self._reports.waiting})
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
                    f" another; send all rows of its new name again (auditor pipeline refresh {shell_word(self.pipeline)} --apply), then"
                    " skip this"
                ),
            )
        now = Held(note.position, held.schema_id)
        if not held.schema_id:  # nothing is in its topic
            self._commit_alone(table, NO_TOPIC, now, note)
            return
        schema = get_schema(self, held.schema_id)
        topic, emptied = self._topic(table, schema), None
        if not is_move(note) and not is_skipped and loses_rows(self, table, held, note):
            emptied = self._messages_of(table, schema).truncation(None, note.position, int(note.time.timestamp() * 1_000_000))
            if emptied is None or "compact" in self.chosen.cleanup:
                why = "a topic that is compacted takes no message without a key" if emptied else "its messages have no form for that"
                self._stop(
                    note,
                    TableStopped(
                        f"the source emptied {table}, or made it anew, and {why}; delete its rows in what reads the topic, and skip this;"
                        " or publish messages of the form debezium into topics with cleanup: delete"
                    ),
                )
        self._commit_alone(table, topic, now, note, emptied, is_skipped=is_skipped)

    def _commit_alone(
        self, table: str, topic: Topic, now: Held, note: TableNote, emptied: bytes | None = None, *, is_skipped: bool = False
    ) -> None:
        """Publish in a transaction what a statement did to one table, and that it stands behind it."""
        began = self.clock()
        with self._transaction() as writer:
            if topic.name:
                schema = get_schema(self, now.schema_id)
                if emptied:
                    writer.number(topic, self._counts(table))
                    writer.send_to_all(topic, emptied, [(PLACE, f"{note.position}.{note.row}.{schema.id}".encode())])
                self._send_schema(writer, schema, () if is_skipped else [note], note.position, note.time)
            apart = {*self._said.apart, *self._reports.waiting}
            if now.position < self._said.position:  # which it may be although all others are farther
                apart.add(table)
            self._commit(writer, {table: (topic, now)}, self._said.position, apart)
        self._tell({table: Merged(now.position, 0, note.time, now)}, self.clock() - began)

    def _stop(self, note: TableNote, error: AuditorError) -> None:
        """Record that a statement stops the table in this target alone, so that somebody can skip it. Raises the error."""
        recorded = describe_statement(note, self.target, str(error))
        table_notes.record_poison(self.store, self.pipeline, recorded)
        report_poison(self.pipeline, [recorded])
        raise error

    def _send_schema(
        self,
        writer: TopicWriter,
        schema: TableSchema,
        notes: Sequence[TableNote],
        position: int,
        moment: dt.datetime,
        *,
        is_new: bool = False,
    ) -> None:
        """Send what a table's columns are from a position on, and by which statements, if there is a topic of such statements."""
        if self.chosen.schema_changes is None:
            return
        topic = self._topics.own("schema_changes")
        messages = SchemaChangeMessages(self.chosen.messages, self._names(), self._topics.registering(topic.name))
        changes: list[tuple[ChangeType, str, TableSchema | None]] = [("CREATE" if is_new else "ALTER", schema.table, schema)]
        ddl, micros = _statement(notes), int(moment.timestamp() * 1_000_000)
        key, value = messages.write(schema.database, ddl, changes, gtid=None, position=position, micros=micros, now_ns=time.time_ns())
        place, columns = f"{position}.-1.{schema.id}".encode(), schema.to_json().encode()
        writer.send(topic, [key], [value], [[(PLACE, place), (COLUMNS, columns), (CHANGES, changes_header(notes))]])

    # where it begins

    def _open(self, tables: Mapping[str, StagedTable]) -> None:
        """Begin as the only producer, and read what is published. Raises BrokerError and IncarnationsDiffer."""
        incarnation = pipelines.begin(self.store, self.pipeline)
        positions = self._topics.own("positions")
        self._open_writer()  # which ends what a producer before it had under way
        self._said = read_published(self._topics.broker, positions.name)
        self._check_incarnation(incarnation, tables)
        self._said = replace(self._said, incarnation=incarnation)

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
            self._writer = TopicWriter(self._topics.broker, _producer_name(self.pipeline, self.target), self.chosen.timeout)
        return self._writer

    def _topic(self, table: str, schema: TableSchema) -> Topic:
        return self._topics.of_table(table, schema, self._said.tables)

    def _names(self) -> Names:
        return names_of(self.pipeline, pipelines.get_pipeline(self.store, self.pipeline).source_offset)

    def _messages_of(self, table: str, schema: TableSchema) -> TableMessages:
        """Return what writes a table's events as messages; a registry has their schemas then. Raises AuditorError."""
        if schema.id not in self._messages:
            known, topic = self._lasting_columns(table, schema), self._topics.name_of(table)
            register = self._topics.registering(topic)
            self._messages[schema.id] = TableMessages(schema, known, self.chosen.messages, self._names(), register)
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
