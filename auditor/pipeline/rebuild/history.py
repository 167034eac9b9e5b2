"""From where the kept parts of a table tell all its rows at a position of the stream.

A table's rows are known from a statement that made or emptied it, from a refresh of all its rows, and, where it was renamed, from the
rows that it had under its earlier name. Of what follows no part may have been deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from auditor.config import Pipeline
from auditor.errors import RebuildRefused
from auditor.escaping import command
from auditor.model import TableNote
from auditor.pipeline.events import Place
from auditor.pipeline.staged_refreshes import is_staged
from auditor.pipeline.stream_positions import place_in_stream
from auditor.pipeline.table_ops import Op, ops_of
from auditor.store import Store, parts, pipelines, refreshes, table_notes

BeginsBy = Literal["create", "clear", "refresh", "rename"]
"""What made all rows of a table known: the statement that made it, one that emptied it, a refresh, or the rename of a table whose rows
were."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """A place of the stream from which on a table's rows are known, under one name."""

    by: BeginsBy
    start: int
    """The position behind which its events are read, into an empty table."""
    known: int
    """The position from which on the rows are all there: the end of a refresh, else ``start``."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The time for which a table had one name."""

    table: str
    """Database and table, with a point between."""
    through: int
    """The last position of it that is read."""
    beginning: Beginning


@dataclass(frozen=True, slots=True)
class History:
    """The notes of one pipeline's tables, and what is kept of their parts."""

    store: Store
    name: str
    pipeline: Pipeline
    _notes: dict[str, list[TableNote]] = field(default_factory=dict)

    def find_stages(self, table: str, at: int) -> list[Stage]:
        """Return under which names, and from where, the rows of a table at a position are read: the earliest name first.

        Raises RebuildRefused where that is not possible, with the first position where it is, and StoreError.
        """
        stages = self._find_stages(table, at)
        if isinstance(stages, str):
            first = self._find_first(table)
            where = f"it can be rebuilt from {self._place(first)} on" if first else "no position of it can be rebuilt yet"
            send = command("auditor", "pipeline", "refresh", self.name, "--table", table, "--apply")
            raise RebuildRefused(
                f"{table} cannot be rebuilt as of {self._place(at)}: {stages}; {where}; for later positions send all its rows again, with:"
                f" {send}"
            )
        return stages

    def _find_stages(self, table: str, at: int) -> list[Stage] | str:
        """Return the same, or why it is not possible."""
        lower, origin = self._named_since(table, at)
        if gone := self._gone(table, at):
            return gone
        usable = [one for one in self.list_beginnings(table, lower, at) if one.start >= self._pruned(table)]
        if usable:
            return [Stage(table, at, max(usable, key=lambda one: one.start))]
        if origin is None:
            return self._why_unknown(table)
        if self._pruned(table) > lower:
            return f"parts of it up to {self._place(self._pruned(table))} were deleted"
        earlier = self._find_stages(origin, lower - 1)
        return earlier if isinstance(earlier, str) else [*earlier, Stage(table, at, Beginning("rename", lower, lower))]

    def list_beginnings(self, table: str, lower: int, upper: int) -> list[Beginning]:
        """Return from where a table's rows are known between two positions, without regard to which parts are kept. Raises StoreError."""
        found, is_gone = list[Beginning](), False
        for note in self._changes(table):
            if not lower <= note.position <= upper:
                continue
            for op in ops_of(note.body):
                if op["op"] == "clear" and not note.reason:
                    found.append(Beginning("clear", note.position, note.position))
                elif op["op"] == "create" and (op["sure"] or is_gone) and not note.reason:  # else it brought rows that nobody has
                    found.append(Beginning("create", note.position, note.position))
                is_gone = op["op"] == "gone" or (is_gone and op["op"] not in ("create", "moved"))
        offset = pipelines.get_pipeline(self.store, self.name).source_offset
        for refresh in refreshes.list_done(self.store, self.name, [self.pipeline.origin_of(table)]):
            if not refresh.scope.is_all or not is_staged(refresh.progress, offset):
                continue
            begin, end = refresh.progress.get("begin"), refresh.progress.get("end")
            if begin and end and begin[2:] == end[2:]:  # of the same server, and epoch of the stream
                one = Beginning("refresh", _position(begin), _position(end))
                found += [one] if lower <= one.start and one.known <= upper else []
        return found

    def _named_since(self, table: str, at: int) -> tuple[int, str | None]:
        """Return since which position a table has its name, and the name it had before; 0 and None if it was never renamed."""
        for note in reversed(self._changes(table)):
            if note.position <= at:
                for op in ops_of(note.body):
                    if op["op"] == "moved":
                        return note.position, str(op["from"])
        return 0, None

    def _gone(self, table: str, at: int) -> str:
        """Return why there is no table of this name at a position; '' if there may be one."""
        last: tuple[TableNote, Op] | None = None
        for note in self._changes(table):
            for op in ops_of(note.body) if note.position <= at else ():
                if op["op"] in ("gone", "create", "moved"):
                    last = note, op
        if last is None or last[1]["op"] != "gone":
            return ""
        how = f"renamed to {last[1]['to']}" if "to" in last[1] else "dropped, or renamed to a name that the pipeline does not read,"
        return f"there was no such table, which was {how} at {self._place(last[0].position)}"

    def _why_unknown(self, table: str) -> str:
        """Return why no rows of a table are known from a beginning on."""
        if pruned := self._pruned(table):
            return f"parts of it up to {self._place(pruned)} were deleted, and no refresh of all its rows followed before that position"
        return "it may have had rows before the pipeline read it, and no refresh of all of them had ended by then"

    def _find_first(self, table: str) -> int | None:
        """Return the first position at which a table can be rebuilt; None if there is none yet."""
        through = parts.get_table(self.store, self.name, table).staged_through
        known = (one.known for one in self.list_beginnings(table, 0, max(through, 1 << 62)))
        moves = (note.position for note in self._changes(table) for op in ops_of(note.body) if op["op"] == "moved")
        for position in sorted({*known, *moves}):
            if not isinstance(self._find_stages(table, position), str):
                return position
        return None

    def _changes(self, table: str) -> Sequence[TableNote]:
        if table not in self._notes:
            self._notes[table] = table_notes.list_notes(self.store, self.name, [table], kind="change")
        return self._notes[table]

    def _pruned(self, table: str) -> int:
        return parts.get_table(self.store, self.name, table).pruned_through

    def _place(self, position: int) -> str:
        return place_in_stream(self.store, self.name, position)


def _position(place: Sequence[Any]) -> int:
    """Return the position of a place that a refresh noted: file, offset, server and epoch."""
    file, offset, _, epoch = place
    return Place(str(file), int(offset)).position(int(epoch)).pack()
