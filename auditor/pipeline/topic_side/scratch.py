"""The scratch file of a topic that is a side of a run: its messages, and the table of the latest one of each key.

Keys are equal if their texts are. A key's latest message is the last one of its partition; of a key in several partitions, which have no
order, the one that was written last by its producer's clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import TOPIC_SCHEMA, Audit, ConnectionSettings, WriteSettings
from auditor.connections.writer import open_writer
from auditor.errors import ColumnRefused, MessageRefused, NoKey, TopicRefused
from auditor.model import TopicFault, TopicFaultKind, TopicPartition, TopicSide
from auditor.pipeline.events import TableSchema
from auditor.pipeline.kafka.table_columns import widen
from auditor.pipeline.merge.staged_rows import COMES, inserted_rows
from auditor.pipeline.merge.target_table import make_statement, native_types
from auditor.pipeline.topic_side.fixed_topic import OFFSET_BITS, OUR_LOG, FixedTopic
from auditor.quantities import plural
from auditor.sql.merge import Positions
from dialects import Session
from dialects.duckdb.session import DuckDBSession

MOST_MEMORY = "512MiB"
"""What DuckDB holds in memory of messages and of sorting them; the rest is in the scratch folder."""

ROWS_AT_ONCE = 100_000
"""Rows that are written into the table at once."""

NAMED = 3
"""Places of a topic that a fault names."""

MESSAGES = 'partition INTEGER, "offset" BIGINT, written BIGINT, number BIGINT, log VARCHAR, position BIGINT, "row" BIGINT, clears BOOLEAN'
"""The columns of the table of messages: where each is, when it was written (milliseconds since 1970), and what it says of its place."""

CHANGES = 'partition INTEGER, "offset" BIGINT, comes BOOLEAN, schema_id VARCHAR, key VARCHAR[], image VARCHAR[]'
"""The columns of the table of changes: of each key that comes or goes by a message its texts, and those of its row."""


@contextmanager
def open_scratch(connection: ConnectionSettings, spilled: str) -> Iterator[Scratch]:
    """Yield what keeps the messages of a topic in the file of a connection; only their table is there behind the block."""
    settings = connection.model_copy(update={"write": WriteSettings(url=connection.url)})
    with open_writer("topics", settings) as session:
        session.execute(f"SET memory_limit = '{MOST_MEMORY}'")
        session.execute(f"SET temp_directory = {session.dialect.names.string_literal(spilled)}")
        session.execute("SET preserve_insertion_order = false")
        session.execute("CREATE SCHEMA read")
        session.execute(f"CREATE TABLE read.messages ({MESSAGES})")
        session.execute(f"CREATE TABLE read.changes ({CHANGES})")
        yield Scratch(session)
        session.execute("DROP SCHEMA read CASCADE")
        session.execute("CHECKPOINT")


@dataclass(frozen=True, slots=True)
class Through:
    """Up to where a table is to hold the changes of a topic."""

    position: int
    """The position in the stream of the pipeline that publishes it."""
    pipeline: str
    table: str
    """What that stream calls the table."""


@dataclass(slots=True)
class Scratch:
    """What was read of a topic so far: a sink of `read_topic`."""

    session: Session
    asks_when: bool = False
    _schemas: dict[str, TableSchema] = field(default_factory=dict)
    """The schemas of its messages by their ids, in the order in which they came."""

    def add_schema(self, schema: TableSchema) -> None:
        """Take a schema that messages have. Raises NoKey if it has no key, so that no message replaces another."""
        if not schema.key:
            raise NoKey(f"topic {schema.database}.{schema.table}: its messages have no key, so it holds no rows, only changes of them")
        self._schemas.setdefault(schema.id, schema)

    def add_messages(self, columns: Mapping[str, pa.Array]) -> None:
        """Take messages as the columns of MESSAGES."""
        self._insert("read.messages", "SELECT * FROM taken", pa.table(dict(columns)))

    def add_events(self, schema: TableSchema, events: pa.RecordBatch) -> None:
        """Take the events of messages, whose positions are the messages' partitions and offsets. Raises NoKey."""
        self.add_schema(schema)
        names = [column.name for column in schema.columns]
        places = [names.index(name) + 1 for name in schema.key]
        after, before = (f"[{', '.join(f'{side}[{place}]' for place in places)}]" for side in ('"after"', '"before"'))
        place = f"CAST(position >> {OFFSET_BITS} AS INTEGER), position & {(1 << OFFSET_BITS) - 1}"
        come = ", ".join(f"'{kind}'" for kind in COMES)
        taken = pa.Table.from_batches([events]).select(["kind", "schema_id", "position", "before", "after"])
        self._insert("read.changes", f'SELECT {place}, true, schema_id, {after}, "after" FROM taken WHERE kind IN ({come})', taken)
        moved = pc.any(pc.is_valid(events["before"])).as_py()
        if moved:
            gone = f"kind NOT IN ({come}) OR (kind = 'update' AND {before} IS DISTINCT FROM {after})"
            self._insert("read.changes", f"SELECT {place}, false, schema_id, {before}, NULL FROM taken WHERE {gone}", taken)

    def _insert(self, table: str, sql: str, taken: pa.Table) -> None:
        session = _opened(self.session)
        with session.translated():
            session.connection.register("taken", taken)
            try:
                session.connection.execute(f"INSERT INTO {table} {sql}")
            finally:
                session.connection.unregister("taken")

    # the table

    def finish(self, fixed: FixedTopic, audit: Audit, through: Through | None = None) -> TopicSide:
        """Make the table of the latest messages, or of those ``through`` a position, and return what was found of the topic.

        Raises TopicRefused if no message says the columns, MessageRefused if they do not go together, ColumnRefused and ValueRefused.
        """
        if not self._schemas:
            raise TopicRefused(f"topic {fixed.ref.label} has no message that says its columns; declare them (columns: and key:)")
        if through:
            self._cut(through)
        schema = self._final_schema(fixed)
        in_two = self._find_latest()
        rows, lacking = self._fill(schema, fixed, audit)
        numbers = _Numbers(self.session, fixed)
        disorder = self._find_disorder(in_two)
        counted = dict(self.session.query("SELECT partition, count(*) FROM read.messages GROUP BY 1"))
        return TopicSide(
            label=fixed.ref.label,
            id=fixed.topic.id,
            partitions=tuple(
                TopicPartition(partition=number, begin=fixed.begins[number], end=end, messages=counted.get(number, 0))
                for number, end in fixed.ends.items()
            ),
            messages=sum(counted.values()),
            rows=rows,
            faults=(*numbers.faults, *disorder),
            removed=describe_removed(fixed),
            notes=(*numbers.notes, *self._notes(fixed), *lacking),
        )

    def _cut(self, through: Through) -> None:
        """Leave out the changes behind a position, and say that the table is there."""
        behind = f'SELECT partition, "offset" FROM read.messages WHERE position > {through.position}'
        self.session.execute(f'DELETE FROM read.changes WHERE (partition, "offset") IN ({behind})')
        self.session.execute(f"UPDATE read.messages SET clears = false WHERE position > {through.position}")
        positions = Positions(self.session.dialect, TOPIC_SCHEMA, through.pipeline)
        self.session.execute_all([positions.create(), *positions.write({through.table: (through.position, "")})])

    def _final_schema(self, fixed: FixedTopic) -> TableSchema:
        """Return the columns of the table: those of the latest change, where places say which that is, else all that any message had."""
        schemas = list(self._schemas.values())
        if len(keys := {schema.key for schema in schemas}) > 1:
            named = " and ".join(f"({', '.join(key)})" for key in sorted(keys))
            raise MessageRefused(
                f"topic {fixed.ref.label}: its messages have several keys, {named}, so that later ones replace no earlier ones"
            )
        if len(schemas) > 1 and not self.session.query(f"SELECT 1 FROM read.messages WHERE log IS DISTINCT FROM '{OUR_LOG}' LIMIT 1"):
            placed = 'read.changes JOIN read.messages USING (partition, "offset")'
            latest = f'SELECT schema_id FROM {placed} ORDER BY position DESC, "row" DESC LIMIT 1'
            [(id,)] = self.session.query(latest)
            return self._schemas[str(id)]
        found = schemas[0]
        for schema in schemas[1:]:
            try:
                found = widen(found, schema)
            except MessageRefused as error:
                raise MessageRefused(f"topic {fixed.ref.label}: its messages do not go together: {error}") from error
        return found

    def _find_latest(self) -> int:
        """Make the table of the latest change of each key, and return how many keys are in several partitions."""
        self.session.execute(
            'CREATE TABLE read.cleared AS SELECT partition, max("offset") AS cleared FROM read.messages WHERE clears GROUP BY 1'
        )
        self.session.execute('CREATE TABLE read.last AS SELECT key, partition, max("offset") AS "offset" FROM read.changes GROUP BY 1, 2')
        [(several,)] = self.session.query("SELECT count(*) FROM (SELECT key FROM read.last GROUP BY 1 HAVING count(*) > 1)")
        kept = 'FROM read.last LEFT JOIN read.cleared USING (partition) WHERE "offset" > coalesce(cleared, -1)'
        chosen = f'SELECT key, partition, "offset" {kept}'
        if several:
            chosen = (
                f'SELECT key, partition, "offset" FROM ({chosen}) JOIN read.messages USING (partition, "offset")'
                " QUALIFY row_number() OVER (PARTITION BY key ORDER BY written DESC, partition DESC) = 1"
            )
        self.session.execute(f"CREATE TABLE read.latest AS {chosen}")
        return int(several)

    def _fill(self, schema: TableSchema, fixed: FixedTopic, audit: Audit) -> tuple[int, list[str]]:
        """Make the table, and return how many rows it has, and a sentence on each column that some of them do not have."""
        session = _opened(self.session)
        schema = _without_excluded(session, schema, audit)
        table, statement = make_statement(session.dialect, (TOPIC_SCHEMA, fixed.ref.topic), "", schema)
        session.execute(statement)
        written, lacking = 0, list[str]()
        for id, own in self._schemas.items():
            places = {column.name: place for place, column in enumerate(own.columns, 1)}
            values = [f"image[{places[column.name]}]" if column.name in places else "NULL::VARCHAR" for column in schema.columns]
            columns = ", ".join(f"{value} AS c{number}" for number, value in enumerate(values))
            chosen = f"comes AND schema_id = {session.dialect.names.string_literal(id)}"
            rows = f'SELECT {columns} FROM read.latest JOIN read.changes USING (key, partition, "offset") WHERE {chosen}'
            session.execute(f"CREATE OR REPLACE TABLE read.rows AS {rows}")
            [(count,)] = session.query("SELECT count(*) FROM read.rows")
            for start in range(0, count, ROWS_AT_ONCE):
                texts = self._texts(schema, start)
                session.loading.load(table.statements.target, table.columns, inserted_rows(texts, table, "", 0))
            written += count
            missing = [column.name for column in schema.columns if column.name not in places]
            if count and missing:
                lacking.append(f"{plural(count, 'row')} came with messages that have no {', '.join(missing)}, and NULL there")
        return written, lacking

    def _texts(self, schema: TableSchema, start: int) -> pa.Table:
        """Return rows as texts, from the one with a number on."""
        session = _opened(self.session)
        with session.translated():
            page = session.connection.sql(f"SELECT * FROM read.rows WHERE rowid >= {start} AND rowid < {start + ROWS_AT_ONCE}")
            return page.to_arrow_table().rename_columns([column.name for column in schema.columns])

    # what only a topic can have wrong

    def _find_disorder(self, in_two: int) -> Iterator[TopicFault]:
        """Yield that keys are in several partitions, and that the latest message of keys is not the latest change."""
        if in_two:
            places = (
                "SELECT list(partition || ':' || \"offset\" ORDER BY partition) FROM read.last GROUP BY key HAVING count(*) > 1"
                f' ORDER BY min(partition), min("offset") LIMIT {NAMED}'
            )
            named = "; ".join(" and ".join(map(str, found)) for (found,) in self.session.query(places))
            what = "1 key is" if in_two == 1 else f"{in_two:,} keys are"
            yield _fault("two partitions", in_two, f"{what} in several partitions, which have no order (last messages at {named})")
        placed = (
            'SELECT key, partition, log, max("offset") AS "offset", arg_max(ROW(position, "row"), "offset") AS last,'
            ' max(ROW(position, "row")) AS most, arg_max("offset", ROW(position, "row")) AS earlier'
            ' FROM read.changes JOIN read.messages USING (partition, "offset") WHERE log IS NOT NULL GROUP BY 1, 2, 3'
        )
        stale = f'FROM ({placed}) JOIN read.last USING (key, partition, "offset") WHERE last < most'
        [(count,)] = self.session.query(f"SELECT count(*) {stale}")
        if count:
            found = self.session.query(f'SELECT partition, "offset", earlier {stale} ORDER BY 1, 2 LIMIT {NAMED}')
            named = "; ".join(
                f"{partition}:{offset} is of an earlier change than {partition}:{earlier}" for partition, offset, earlier in found
            )
            what = "1 key has a latest message that is" if count == 1 else f"{count:,} keys have latest messages that are"
            yield _fault("not the latest", int(count), f"{what} not the latest change of the row ({named})")

    def _notes(self, fixed: FixedTopic) -> Iterator[str]:
        for number, offset in fixed.hidden.items():
            yield f"partition {number} has messages from offset {offset} on whose transaction was not decided, and which were not read"
        [(messages, placed)] = self.session.query(
            'SELECT count(*), count(log) FROM read.messages JOIN read.changes USING (partition, "offset")'
        )
        if messages and not placed:
            yield "its messages do not say where the source's log has their changes, so that their order was not checked"


def _fault(kind: TopicFaultKind, count: int, sentence: str) -> TopicFault:
    return TopicFault(kind=kind, count=count, sentence=sentence)


def _opened(session: Session) -> DuckDBSession:
    assert isinstance(session, DuckDBSession)
    return session


def _without_excluded(session: Session, schema: TableSchema, audit: Audit) -> TableSchema:
    """Return the columns without those that the audit excludes, and reads for nothing else. Raises ColumnRefused for others of no type."""
    excluded = {name.lower() for name in audit.columns.exclude} - {name.lower() for name in schema.key}
    if audit.where is not None:  # which may name any
        excluded = set()
    excluded -= {name.lower() for name in (audit.settle and audit.settle.column, audit.partition.column) if name}
    kept = TableSchema(schema.database, schema.table, tuple(one for one in schema.columns if one.name.lower() not in excluded), schema.key)
    try:
        native_types(session.dialect, kept)
    except ColumnRefused as error:
        why = str(error).partition("; exclude it")[0]
        raise ColumnRefused(f"{why}; exclude the column (columns: exclude), which needs an audit without where") from error
    return kept


def describe_removed(fixed: FixedTopic) -> str:
    """Return that messages at the beginning of a topic were removed, as a sentence; '' if none were."""
    cut = [f"{number} begins at offset {begin}" for number, begin in fixed.begins.items() if begin]
    if not cut:
        return ""
    by = f" (cleanup.policy: {fixed.policy})" if fixed.policy else ""
    which = ", ".join(cut[:NAMED]) + (f", and {len(cut) - NAMED} more do" if len(cut) > NAMED else "")
    return f"messages at its beginning were removed{by}: partition {which}; rows that did not change since are not in it"


class _Numbers:
    """What the numbers say that our publisher gives the messages of each partition."""

    def __init__(self, session: Session, fixed: FixedTopic) -> None:
        self._session, self._fixed = session, fixed
        self.faults: list[TopicFault] = []
        self.notes: list[str] = []
        [(messages, numbered)] = session.query("SELECT count(*), count(number) FROM read.messages")
        if not messages:
            return
        if not numbered:
            why = "which only those have that a pipeline of auditor publishes"
            self.notes.append(f"its messages have no numbers, {why}: whether some are missing, or doubled, was not checked")
            return
        if numbered < messages:
            self.notes.append(f"{plural(messages - numbered, 'message has', 'messages have')} no number, and were written by somebody else")
        session.execute(
            'CREATE TABLE read.numbers AS SELECT partition, number, min("offset") AS "offset", count(*) AS times FROM read.messages'
            " WHERE number IS NOT NULL GROUP BY 1, 2"
        )
        self._find_doubled()
        self._find_disordered()
        self._find_missing()

    def _find_doubled(self) -> None:
        [(count,)] = self._session.query("SELECT coalesce(sum(times - 1), 0) FROM read.numbers")
        if count:
            again = 'FROM read.messages JOIN read.numbers USING (partition, number) WHERE read.messages."offset" > read.numbers."offset"'
            found = self._session.query(
                f'SELECT partition, read.messages."offset", read.numbers."offset" {again} ORDER BY 1, 2 LIMIT {NAMED}'
            )
            named = "; ".join(f"{partition}:{offset} is {partition}:{first} again" for partition, offset, first in found)
            self._add("doubled", int(count), f"{plural(int(count), 'message is', 'messages are')} there twice ({named})")

    def _find_disordered(self) -> None:
        behind = (
            'FROM (SELECT *, max(number) OVER (PARTITION BY partition ORDER BY "offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)'
            " AS before FROM read.numbers) WHERE number < before"
        )
        [(count,)] = self._session.query(f"SELECT count(*) {behind}")
        if count:
            found = self._session.query(f'SELECT partition, "offset", number, before {behind} ORDER BY 1, 2 LIMIT {NAMED}')
            named = "; ".join(f"{partition}:{offset} is number {number}, behind {before}" for partition, offset, number, before in found)
            self._add("disordered", int(count), f"{plural(int(count), 'message is', 'messages are')} behind later ones ({named})")

    def _find_missing(self) -> None:
        """Count the numbers that no message has: between those that are there, before the first, and behind the last one."""
        short = [f"{number} at {self._fixed.ends.get(number, 0):,} of {end:,}" for number, end in self._fixed.behind.items()]
        if short:
            self.notes.append(
                f"partitions end before what their publisher says it has committed ({', '.join(short[:NAMED])}), so that messages behind"
                " were not looked for; if another run says so, too, the broker lost them"
            )
        gaps = (
            "SELECT partition, before + 1 AS first, number - 1 AS last FROM (SELECT partition, number, lag(number, 1, -1)"
            " OVER (PARTITION BY partition ORDER BY number) AS before FROM read.numbers) WHERE number > before + 1"
        )
        found = [(int(partition), int(first), int(last)) for partition, first, last in self._session.query(f"{gaps} ORDER BY 1, 2")]
        found = [gap for gap in found if gap[1] or not self._fixed.begins[gap[0]]]  # else they were removed
        found += self._at_ends()
        count = sum(last - first + 1 for _, first, last in found)
        if not count:
            return
        ranges = [f"{first}" if first == last else f"{first} to {last}" for _, first, last in found]
        named = "; ".join(f"partition {gap[0]}: number {text}" for gap, text in list(zip(found, ranges, strict=True))[:NAMED])
        if self._fixed.is_compacted:
            why = "which compaction may have removed" if self._fixed.policy else "and it is not known whether the topic is compacted"
            what = f"{plural(count, 'number')} of messages {'is' if count == 1 else 'are'} not there"
            self.notes.append(f"{what}, {why}: whether a message was lost among them was not checked")
            return
        self._add("missing", count, f"{plural(count, 'message is', 'messages are')} missing ({named})")

    def _at_ends(self) -> Iterator[tuple[int, int, int]]:
        """Yield the numbers behind the last ones that are there which the publisher says it has written before the ends."""
        published = self._fixed.published
        if published is None:
            return
        last = dict(self._session.query("SELECT partition, max(number) FROM read.numbers GROUP BY 1"))
        for partition, (end, count) in enumerate(zip(published.ends, published.counts, strict=False)):
            known = int(last.get(partition, -1))
            if self._fixed.ends.get(partition, 0) >= end and known + 1 < count and (known >= 0 or not self._fixed.begins[partition]):
                yield partition, known + 1, count - 1

    def _add(self, kind: TopicFaultKind, count: int, sentence: str) -> None:
        self.faults.append(_fault(kind, count, sentence))
