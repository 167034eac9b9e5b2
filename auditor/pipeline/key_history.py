"""What the events of a table made of the rows of a few keys, one version after the other, in the texts that an audit compares."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from auditor.compare.accounting import Key
from auditor.config import Carrier, Settings
from auditor.errors import AuditorError, PartDamaged, PartsGone, TableStopped, TraceRefused
from auditor.model import ColumnPlan, Part, Plan, TableNote
from auditor.pipeline.events import ColumnSchema, TableSchema, source_kind
from auditor.pipeline.folders import folder_at
from auditor.pipeline.live.images import canonical_texts, columns_of
from auditor.pipeline.restaging import read_source_again
from auditor.pipeline.row_expressions import RowFilter
from auditor.pipeline.stream_positions import place_in_stream, staged_through
from auditor.pipeline.table_events import EventPlace, Events, TableEvents
from auditor.pipeline.table_ops import ops_of
from auditor.run.live.plans import why_not_told
from auditor.store import Store, parts, table_notes

Texts = Mapping[str, str | None]
"""Canonical texts of a row's compared columns, by the source's names; of a masked column the SHA-256 of its text."""

COMES, GOES = pa.array(["insert", "update", "refresh"]), pa.array(["update", "delete", "absent"])


@dataclass(frozen=True, slots=True)
class Version:
    """What an event made of a key's row."""

    position: int
    row: int
    """Its number in the transaction at ``position``; -1 of a statement that emptied the table."""
    kind: str
    """The event's kind; ``clear`` where the table was emptied, made or dropped, and ``move`` where the row got another key."""
    texts: Texts | None
    """None where no row of the key is left, or none that the audit's filter takes."""
    time: dt.datetime
    part: Part | None = None
    """The part that has the event; None of what was read from the log again, and of a statement."""
    is_known: bool = True
    """False of an interval of a refresh of which it is not known whether the key lies in it."""

    @property
    def place(self) -> tuple[int, int]:
        """Position and row."""
        return self.position, self.row


@dataclass(slots=True)
class KeyHistory:
    """Collects the versions of keys from batches of events, which have to come in the order of the stream."""

    plan: Plan
    """Its columns have the source's names; their kinds of the source are those of events."""
    names: Mapping[str, str]
    """What the stream calls columns that a pipeline renames."""
    columns: Sequence[ColumnPlan]
    """Those whose texts are computed: the key's, and others that events tell."""
    where: str
    """The audit's filter in the portable language; '' for all rows."""
    keys: Collection[Key]
    versions: dict[Key, list[Version]] = field(default_factory=lambda: defaultdict(list))
    _filters: dict[str, RowFilter] = field(default_factory=dict)

    def take_statements(self, notes: Iterable[TableNote]) -> None:
        """Take the statements that emptied, made or dropped the table; what rows a table had that was renamed to its name is not known."""
        for note in notes:
            ops = {op["op"] for op in ops_of(note.body)} if "ops" in note.body else set()
            for key in self.keys if ops & {"clear", "create", "gone", "moved"} else ():
                of_key = self.versions[key]
                before = [] if "moved" in ops else [version for version in of_key if version.place < (note.position, note.row)]
                emptied = [] if "moved" in ops else [Version(note.position, note.row, "clear", None, note.time)]
                of_key[:] = [*before, *emptied, *(version for version in of_key if version.place >= (note.position, note.row))]

    def take(self, schema: TableSchema, events: pa.RecordBatch, part: Part | None = None) -> None:
        """Take events of one schema. Raises TraceRefused where they do not tell what the audit compares, and ValueRefused."""
        width, names = len(schema.columns), [column.name.lower() for column in schema.columns]
        indexes: dict[str, int] = {}
        for column in self.columns:
            if (name := self._name(column)) in names and self._as_of(column, schema.columns[names.index(name)]):
                indexes[column.name] = names.index(name)
        key = [column.name for column in self.plan.key_columns]
        if lost := next((name for name in key if name not in indexes), ""):
            raise TraceRefused(
                f"the key column {lost} of {schema.database}.{schema.table} had another type, or name, in events that are kept"
            )
        if sorted(self.names.get(name, name).lower() for name in key) != sorted(name.lower() for name in schema.key):
            raise TraceRefused(
                f"the audit compares {schema.database}.{schema.table} by {', '.join(key)}, and its primary key is"
                f" {', '.join(schema.key) or 'missing'}; only rows by their primary key are traced"
            )
        found: list[tuple[tuple[int, int, int], Key, Version]] = []
        for step, (image, kinds) in enumerate((("before", GOES), ("after", COMES))):
            chosen = self._with_keys(events.filter(pc.is_in(events["kind"], kinds)), image, [indexes[name] for name in key], width)
            if not chosen.num_rows:
                continue
            texts = {name: self._texts(chosen[image], schema, index, name) for name, index in indexes.items()}
            passed = self._passed(schema, chosen[image], width) if image == "after" else None
            for number, (position, row, kind, time) in enumerate(zip(*_about(chosen), strict=True)):
                of_key: Key = tuple(texts[name][number] for name in key)
                made = Version(position, row, kind, None, time, part)
                if image == "after" and (passed is None or passed[number]):
                    made = replace(made, texts={name: of_column[number] for name, of_column in texts.items()})
                elif kind == "update" and image == "before":
                    made = replace(made, kind="move")
                found.append(((position, row, step), of_key, made))
        found += self._in_intervals(events, [indexes[name] for name in key], width)
        for _, of_key, made in sorted(found, key=lambda one: one[0]):
            versions = self.versions[of_key]
            if versions and versions[-1].kind == "move" and versions[-1].place == made.place:
                versions[-1] = made  # an update that left the key as it was
            else:
                versions.append(made)

    def _name(self, column: ColumnPlan) -> str:
        return self.names.get(column.name, column.name).lower()

    def _with_keys(self, events: pa.RecordBatch, image: str, indexes: Sequence[int], width: int) -> pa.RecordBatch:
        """Return those of some events whose row has one of the keys."""
        if not events.num_rows:
            return events
        texts = [
            canonical_texts(column, plan)
            for column, plan in zip(columns_of(events[image], width, indexes), self.plan.key_columns, strict=True)
        ]
        some = events
        for number in range(len(texts)):
            chosen = pc.is_in(texts[number], pa.array([key[number] for key in self.keys], pa.string()))
            some, texts = some.filter(chosen), [one.filter(chosen) for one in texts]
        wanted = [one in self.keys for one in zip(*(column.to_pylist() for column in texts), strict=True)]
        return some.filter(pa.array(wanted, pa.bool_()))

    def _as_of(self, plan: ColumnPlan, column: ColumnSchema) -> ColumnPlan | None:
        """Return how a column is compared whose type in the source was this one; None where its texts are not those that are compared."""
        kind = source_kind(column)
        then = replace(plan, native={**plan.native, "source": kind}).unrounded("source") if kind else None
        return None if then is None or why_not_told(then) else then

    def _texts(self, rows: pa.ListArray, schema: TableSchema, index: int, name: str) -> list[str | None]:
        """Return a column's texts in rows that are all there; those of masked ones as their hashes."""
        plan = self._as_of(next(column for column in self.columns if column.name == name), schema.columns[index])
        assert plan
        [column] = columns_of(rows, len(schema.columns), [index])
        texts: list[str | None] = canonical_texts(column, plan).to_pylist()
        if not plan.masked:
            return texts
        return [None if text is None else hashlib.sha256(text.encode()).hexdigest() for text in texts]

    def _passed(self, schema: TableSchema, rows: pa.ListArray, width: int) -> Sequence[bool] | None:
        """Return which rows the audit's filter takes; None for all."""
        if not self.where:
            return None
        if schema.id not in self._filters:
            self._filters[schema.id] = RowFilter(self.where, schema)
        condition = self._filters[schema.id]
        read = dict(zip(condition.indexes, columns_of(rows, width, condition.indexes), strict=True))
        passed: list[bool] = condition.select(read, len(rows)).to_pylist()
        return passed

    def _in_intervals(
        self, events: pa.RecordBatch, indexes: Sequence[int], width: int
    ) -> Iterable[tuple[tuple[int, int, int], Key, Version]]:
        """Yield that a refresh left no row of a key, for each interval in which one lies; the rows that are there follow it."""
        bounds = events.filter(pc.equal(events["kind"], "bounds"))
        if not bounds.num_rows:
            return
        ends = [[one.to_pylist() for one in columns_of(bounds[image], width, indexes)] for image in ("before", "after")]
        lows, highs = (list(zip(*columns, strict=True)) for columns in ends)
        for (position, row, _, time), low, high in zip(zip(*_about(bounds), strict=True), lows, highs, strict=True):
            for key in self.keys:
                if (inside := _lies_within(self.plan, key, low, high)) is not False:
                    yield (position, row, 0), key, Version(position, row, "refresh", None, time, None, is_known=inside is not None)


def _about(events: pa.RecordBatch) -> tuple[list[int], list[int], list[str], list[dt.datetime]]:
    moments = [time if time.tzinfo else time.replace(tzinfo=dt.UTC) for time in events["time"].to_pylist()]
    return events["position"].to_pylist(), events["row"].to_pylist(), events["kind"].to_pylist(), moments


def _lies_within(plan: Plan, key: Key, low: Sequence[str | None], high: Sequence[str | None]) -> bool | None:
    """Return whether a key lies behind ``low`` and not behind ``high``; None where its kinds have an order of the source's own."""
    if low[0] is None and high[0] is None:
        return True
    if any(column.native["source"].name not in ("integer", "year") for column in plan.key_columns):
        return None
    numbers = tuple(int(text or 0) for text in key)
    first, last = (tuple(int(text) for text in end if text is not None) for end in (low, high))
    return (not first or numbers[: len(first)] > first) and (not last or numbers[: len(last)] <= last)


def rename_columns(settings: Settings, names: Mapping[str, str], carrier: Carrier) -> dict[str, str]:
    """Return what columns are called behind a pipeline, by what the source calls them; ``names`` are those before it."""
    rename = settings.pipeline(carrier.pipeline).columns_of(carrier.table).rename
    lowered = {old.lower(): new for old, new in rename.items()}
    return {column: lowered.get(name.lower(), name) for column, name in names.items()}


@dataclass(frozen=True, slots=True)
class StagedHistory:
    """What one pipeline has staged of keys."""

    versions: Mapping[Key, Sequence[Version]]
    through: int
    """Up to where everything of its source is staged."""
    pruned: int
    """Up to where staged events of the table were deleted; 0 if none was."""
    unread: str
    """Why not all staged events could be read, so that what is behind them is not known; '' if all could."""

    def of(self, key: Key) -> Sequence[Version]:
        """Return the versions of a key."""
        return self.versions.get(key, ())


@dataclass(frozen=True, slots=True)
class KeyStream:
    """One pipeline's stream of one table, asked for the versions of keys."""

    settings: Settings
    store: Store
    pipeline: str
    table: str
    """The table as the stream calls it: database and table."""
    new_history: Callable[[], KeyHistory]

    def read_staged(self) -> StagedHistory:
        """Return what is staged now. Raises TraceRefused, StagingFailed, and StoreError."""
        through, pruned = staged_through(self.store, self.pipeline), parts.get_table(self.store, self.pipeline, self.table).pruned_through
        history, unread = self.new_history(), ""
        try:
            for found in self.read_events(pruned):
                history.take(self.get_schema(found.part.schema_id), found.batch, found.part)
        except (PartDamaged, PartsGone, TableStopped) as error:
            unread = str(error)
        notes = table_notes.list_notes(self.store, self.pipeline, [self.table], kind="change", after=pruned)
        history.take_statements(note for note in notes if note.position <= through and not note.reason)
        return StagedHistory(history.versions, through, pruned, unread)

    def read_events(self, after: int) -> Iterator[Events]:
        """Yield the events that are staged behind a position.

        Raises PartDamaged, PartsGone, TableStopped, StagingFailed and StoreError.
        """
        root = folder_at(self.settings.pipeline(self.pipeline).staging.path)
        for found in TableEvents(self.store, self.pipeline, root, self.table, EventPlace(after)).read():
            if not isinstance(found, TableNote):
                yield found

    def read_source(self, first: int, last: int) -> Mapping[Key, Sequence[Version]] | str:
        """Return what the source, a log or topics, has from one position to another, or why it has that no more. Raises TraceRefused."""
        history, announced = self.new_history(), dict[str, TableSchema]()
        try:
            with tempfile.TemporaryDirectory(prefix="auditor-trace-") as scratch:
                for batch in read_source_again(self.settings, self.store, self.pipeline, self.table, (first, last), scratch):
                    for id in pc.unique(batch["schema_id"]).to_pylist():
                        events = batch.filter(pc.equal(batch["schema_id"], id))
                        of_schema = events.filter(pc.equal(events["kind"], "schema"))
                        if of_schema.num_rows:
                            announced[id] = TableSchema.from_json(of_schema["after"][0].as_py()[0])
                        history.take(announced.get(id) or self.get_schema(id), events)
        except TraceRefused:
            raise
        except AuditorError as error:
            return str(error)
        return history.versions

    def find_skips(self, after: int, target: str = "") -> Sequence[TableNote]:
        """Return what somebody let the pipeline, or this target of it, go on without behind a position."""
        notes = table_notes.list_notes(self.store, self.pipeline, [self.table], kind="poison", after=after)
        return [note for note in notes if note.skip and note.target == target]

    def place(self, version: Version) -> str:
        """Return where an event is, for a person: FILE:POS:ROW."""
        text = self.place_of(version.position)
        return text if version.row < 0 else f"{text}:{version.row}"

    def place_of(self, position: int) -> str:
        """Return where a position is, for a person."""
        return place_in_stream(self.store, self.pipeline, position)

    def get_schema(self, schema_id: str) -> TableSchema:
        """Return a schema of the stream's events. Raises PartsGone and StoreError."""
        body = parts.get_schema(self.store, self.pipeline, schema_id)
        if body is None:
            raise PartsGone(f"the schema {schema_id} of a part is not in the store")
        return TableSchema.from_json(json.dumps(body))
