"""The events of one table in the order of the stream, from the staged parts that are kept, and what happened to the table between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import ConfigError, IncarnationsDiffer, PartsGone, TableStopped
from auditor.model import Part, TableNote
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import Folder
from auditor.pipeline.staged_parts import read_part
from auditor.pipeline.stream_positions import is_place, iterate_parts, parse_position, place_in_stream, staged_through
from auditor.pipeline.table_ops import ops_of
from auditor.store import Store, parts, pipelines, table_notes


class EventPlace(NamedTuple):
    """A place behind which events are read: a position, and the last event of the transaction there that was read; None for all of it."""

    position: int
    row: int | None = None

    def is_before(self, position: int, row: int) -> bool:
        """Return whether an event, or a note, stands behind this place."""
        return position > self.position or (position == self.position and self.row is not None and row > self.row)


@dataclass(frozen=True, slots=True)
class Events:
    """Some events of one part, and none of what the stream says of the table itself."""

    part: Part
    batch: pa.RecordBatch


@dataclass(slots=True)
class TableEvents:
    """Reads the events of a table of a pipeline behind a place, which moves on."""

    store: Store
    pipeline: str
    root: Folder
    table: str
    """Database and table, with a point between."""
    place: EventPlace
    _life: str | None = None
    """The pipeline's incarnation when events were read first; None before."""

    def check(self) -> None:
        """Raise PartsGone if events behind the place were deleted, IncarnationsDiffer if the pipeline was reset since, and StoreError."""
        self._check_life()
        pruned = parts.get_table(self.store, self.pipeline, self.table).pruned_through
        if self.place.position < pruned:
            raise PartsGone(
                f"{self.table}: events up to {self._text(pruned)} were deleted, and {self._text(self.place.position)} is before that; read"
                " from there on, or from earliest"
            )

    def read(self) -> Iterator[Events | TableNote]:
        """Yield what is staged behind the place now, in order; the place is then that of what was yielded last.

        Notes are of statements that emptied the table, and of events that somebody let the table go on without. Raises TableStopped where
        events cannot be had, PartsGone where they were deleted, IncarnationsDiffer where the pipeline was reset, PartDamaged, StagingFailed
        and StoreError.
        """
        self.check()
        through = staged_through(self.store, self.pipeline)  # before the notes, so that none is missed of the parts that are read
        notes = self._list_notes(through)
        for part in iterate_parts(self.store, self.pipeline, self.table, self._listed_after):
            if part.last > through:
                break
            self._check_chain(part)
            after = self.place
            for batch in read_part(self.root, part, self._listed_after):
                for piece in _between(_behind(batch, after), notes):
                    if isinstance(piece, TableNote):
                        yield self._pass(piece)
                        continue
                    self.place = EventPlace(piece["position"][-1].as_py(), piece["row"][-1].as_py())
                    yield Events(part, piece)
            self.place = EventPlace(max(part.last, self.place.position))  # its last events may have been read before
        for note in notes:
            yield self._pass(note)
        self._check_life()  # else nothing would be left of what was listed

    def _check_life(self) -> None:
        now = pipelines.get_pipeline(self.store, self.pipeline).incarnation
        if self._life not in (None, now):
            raise IncarnationsDiffer(f"the pipeline {self.pipeline} was reset while events were read; begin again, with --from earliest")
        self._life = now

    @property
    def _listed_after(self) -> int:
        return self.place.position if self.place.row is None else self.place.position - 1

    def _list_notes(self, through: int) -> list[TableNote]:
        """Return what happened to the table behind the place, up to a position, that a reader of its events has to know, in order."""
        found = table_notes.list_notes(self.store, self.pipeline, [self.table], after=self._listed_after)
        found = [note for note in found if note.position <= through and not note.target]
        notes = [note for note in found if self.place.is_before(note.position, note.row)]
        return [note for note in notes if note.stops or note.skip or _clears(note)]

    def _pass(self, note: TableNote) -> TableNote:
        if note.stops:
            raise TableStopped(f"{self.table}: the events at {self._text(note.position)} cannot be had: {note.reason}")
        if note.position > self.place.position:
            self.place = EventPlace(note.position, note.row)
        return note

    def _check_chain(self, part: Part) -> None:
        """Raise PartsGone if events between the place and a part are not listed any more."""
        if part.previous <= self.place.position:
            return
        changes = table_notes.list_notes(self.store, self.pipeline, [self.table], kind="change", after=self.place.position)
        passed = [note.position for note in changes if note.body.get("advances") and note.position < part.first]
        if part.previous > max(passed, default=0):
            raise PartsGone(
                f"{self.table}: events between {self._text(self.place.position)} and {self._text(part.previous)} were staged, and no part"
                " of them is listed any more; read from there on"
            )

    def _text(self, position: int) -> str:
        return place_in_stream(self.store, self.pipeline, position)


def find_place(store: Store, pipeline: str, table: str, text: str) -> EventPlace:
    """Return the place behind which ``earliest``, ``latest``, ``FILE:POS`` or ``FILE:POS:ROW`` begins. Raises ConfigError and StoreError.

    Of topics it is ``message NUMBER`` instead of ``FILE:POS``. ``earliest`` is the first event that is kept, ``latest`` the end of what is
    staged now.
    """
    if text == "earliest":
        return EventPlace(parts.get_table(store, pipeline, table).pruned_through)
    if text == "latest":
        return EventPlace(staged_through(store, pipeline))
    place, _, row = text.rpartition(":")
    if not is_place(place):
        return EventPlace(parse_position(store, pipeline, text))
    if not row.isdecimal() or len(row) > 18:
        raise ConfigError(f"{text!r} is no event of a stream; write it as it was printed: binlog.000012:4567:0")
    return EventPlace(parse_position(store, pipeline, place), int(row))


def _behind(batch: pa.RecordBatch, place: EventPlace) -> pa.RecordBatch:
    """Return the events of a batch that stand behind a place."""
    if place.row is None or not batch.num_rows or batch["position"][0].as_py() > place.position:
        return batch
    later = pc.greater(batch["position"], place.position)
    return batch.filter(pc.or_(later, pc.and_(pc.equal(batch["position"], place.position), pc.greater(batch["row"], place.row))))


def _between(batch: pa.RecordBatch, notes: list[TableNote]) -> Iterator[pa.RecordBatch | TableNote]:
    """Yield the events of a batch, and where notes stand between them these, which are taken from the list."""
    positions, rows = (batch[name].to_numpy() for name in ("position", "row"))
    begun = 0
    while notes and len(positions) and (positions[-1], rows[-1]) > _place_of(notes[0]):
        note = notes.pop(0)
        position, row = _place_of(note)
        count = int(np.count_nonzero((positions < position) | ((positions == position) & (rows <= row))))
        if count > begun:
            yield batch.slice(begun, count - begun)
            begun = count
        yield note
    if begun < batch.num_rows:
        yield batch.slice(begun)


def _place_of(note: TableNote) -> tuple[int, int]:
    return note.position, note.row


def without(schema: TableSchema, hidden: Sequence[str]) -> TableSchema:
    """Return a schema without some columns."""
    columns = tuple(column for column in schema.columns if column.name not in hidden)
    return replace(schema, columns=columns, key=tuple(name for name in schema.key if name not in hidden))


def leave_out(schema: TableSchema, batch: pa.RecordBatch, hidden: Sequence[str]) -> pa.RecordBatch:
    """Return events of a schema without some columns."""
    if not hidden:
        return batch
    width, keep = len(schema.columns), [index for index, column in enumerate(schema.columns) if column.name not in hidden]
    sides = {name: _choose(batch[name], width, keep) for name in ("before", "after")}
    return pa.RecordBatch.from_arrays([sides[name] if name in sides else batch[name] for name in batch.schema.names], schema=batch.schema)


def _choose(rows: pa.ListArray, width: int, keep: Sequence[int]) -> pa.ListArray:
    present = rows.is_valid().to_numpy(zero_copy_only=False)
    count = int(present.sum())
    taken = rows.flatten().take(pa.array((np.arange(count)[:, None] * width + np.array(keep, np.int64)[None, :]).ravel()))
    offsets = np.concatenate([[0], np.cumsum(present)]) * len(keep)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), taken, type=rows.type, mask=pa.array(~present))


def _clears(note: TableNote) -> bool:
    return "ops" in note.body and any(op["op"] == "clear" for op in ops_of(note.body))
