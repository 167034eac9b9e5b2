"""Rename tables that are written by commits as a statement renamed those of the source.

No commit is of two tables, so the rows go from one table to another: each table is brought to what it holds behind the statement by a
commit that carries this position, so that a process that is killed in between goes on with the others. A name that no table has afterwards
keeps an empty table, whose position says that its earlier rows are gone. Where tables exchange their names, copies are made before the
first one is written over.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from auditor.errors import MergeFailed, SerializationConflict, TableStopped
from auditor.model import TableNote
from auditor.pipeline.merge import live_sums, merge_by_commits
from auditor.pipeline.merge.pending_parts import PendingParts
from auditor.pipeline.merge.positions import Held, Where, see
from auditor.pipeline.merge.shared_tables import check_alone
from auditor.pipeline.merge.table_changes import carry_changes, check_names_free, check_schemas, origins_of
from auditor.pipeline.merge.target_table import find_table
from auditor.points import reach
from auditor.sql.merge import STAGE
from auditor.sql.table_definition import TableStatements
from dialects import Session, Table
from dialects.committing import Committing

log = logging.getLogger(__name__)


def move_by_commits(session: Session, where: Where, note: TableNote) -> dict[str, Held] | None:
    """Rename the target's tables as one statement renamed the source's; return what the target holds of each then.

    None while the target does not hold all of them up to that statement. Raises TableStopped where a person has to rename them.
    """
    assert isinstance(session, Committing)
    origins = origins_of(where, note.position)
    names = list(dict.fromkeys([*origins, *origins.values()]))
    held = {name: Held(*merge_by_commits.read_position(session, where.place(name), where.pipeline, name)) for name in names}
    pending: dict[str, PendingParts] = {}
    for name in names:
        if held[name].position < note.position:
            ahead = pending[name] = see(where, name, held[name])
            if ahead.note is None or ahead.note.position != note.position:
                return None
        check_alone(session, where, name, "the source renamed it", "rename it there, then reset the pipelines and fill their tables anew")
    check_schemas(where, origins)
    move = _Move(session, where, note, origins, held, {name: find_table(session, *where.place(name)) for name in names})
    if all(held[name].position < note.position for name in names):  # none is done yet
        check_names_free(where, origins, held, move.tables_with_rows())
        move.check_size()
    carry_changes(where, note, origins, pending)
    live_sums.end(where, {one: reason for name in names for one, reason in live_sums.moved(where, name).items()})
    reach("merge.move")
    copies = move.copy_exchanged()
    reach("merge.copied")
    now = {new: move.fill(new, old, copies) for new, old in origins.items()}
    now |= {name: move.empty(name) for name in names if name not in origins}
    move.drop_copies()
    reach("merge.changed")
    moved = ", ".join(f"{old} to {new}" for new, old in origins.items())
    extra = {"action": "table_changed", "pipeline": where.pipeline, "target": where.target, "table": note.table, "position": note.position}
    log.info("%s: %s: tables were renamed as in the source: %s", where.target, note.table, moved, extra=extra)
    return now


@dataclass(frozen=True, slots=True)
class _Move:
    """What is moved by one statement."""

    session: Session
    where: Where
    note: TableNote
    origins: Mapping[str, str]
    """By name of a table the name that it had before."""
    held: Mapping[str, Held]
    there: Mapping[str, Table | None]

    def tables_with_rows(self) -> dict[str, Table | None]:
        """Return the tables without those that are empty: one may have been made here by a process that ended before it had rows."""
        dialect = self.session.dialect
        return {
            name: table if table and self.session.query(TableStatements(dialect, table.sql).any_row()) else None
            for name, table in self.there.items()
        }

    def check_size(self) -> None:
        """Raise TableStopped if more rows would be written again than the target's settings let a pipeline write."""
        most = self.where.chosen.migrate.auto_rows
        for old in dict.fromkeys(self.origins.values()):
            if table := self.there[old]:
                [(rows,)] = self.session.query(TableStatements(self.session.dialect, table.sql).count_rows())
                if int(rows) > most:
                    raise TableStopped(
                        f"{old} was renamed in the source, its {int(rows):,} rows in {table.sql} would be written again, and migrate:"
                        f" auto_rows of target {self.where.target} is {most:,}; raise that, and start the pipeline again"
                    )

    def copy_exchanged(self) -> dict[str, tuple[str, str]]:
        """Return, by its name before, the copy of each table that is written over, as SQL text, and the id of its rows' schema."""
        assert isinstance(self.session, Committing)
        copies: dict[str, tuple[str, str]] = {}
        for number, old in enumerate(dict.fromkeys(self.origins.values())):
            table = self.there[old]
            if table is None or old not in self.origins:
                continue
            place = self._place_of_copy(number)
            sql = self.session.dialect.names.table(*place)
            position, schema_id = merge_by_commits.read_position(self.session, place, self.where.pipeline, old)
            if not position and self.held[old].position < self.note.position:
                with suppress(SerializationConflict):  # it was made, and the process ended before it had rows
                    self.session.make_like(sql, table.sql)
                self._write(sql, old, Held(), self.held[old], f"SELECT * FROM {table.sql}")
                schema_id = self.held[old].schema_id
            copies[old] = sql, schema_id
        return copies

    def fill(self, new: str, old: str, copies: Mapping[str, tuple[str, str]]) -> Held:
        """Give a name the rows of the table that had another one before; return what the target holds of it then."""
        assert isinstance(self.session, Committing)
        if self.held[new].position >= self.note.position:
            return self.held[new]
        table, stale = self.there[old], self.there[new]
        if table is None:
            return self.empty(new)
        rows, schema_id = copies.get(old, (table.sql, self.held[old].schema_id))
        sql = self.session.dialect.names.table(*self.where.place(new)) if stale is None else stale.sql
        if stale is None:
            self.session.make_like(sql, rows)
            reach("merge.made")
        held = Held(self.note.position, schema_id)
        self._write(sql, new, self.held[new], held, f"SELECT * FROM {rows}")
        reach("merge.moved")
        return held

    def empty(self, name: str) -> Held:
        """Delete the rows of a name that no table has behind the statement; return what the target holds of it then."""
        assert isinstance(self.session, Committing)
        before = self.held[name]
        held = Held(self.note.position, before.schema_id)
        if before.position < self.note.position and self.there[name]:
            about = self.where.place(name), self.where.pipeline, name, (before.position, before.schema_id), (held.position, held.schema_id)
            if not merge_by_commits.pass_by(self.session, *about, clear=True, incarnation=self.where.incarnation):
                raise self._overtaken(name)
        return held

    def drop_copies(self) -> None:
        """Delete the copies of tables that were written over."""
        assert isinstance(self.session, Committing)
        for number, old in enumerate(dict.fromkeys(self.origins.values())):
            if old in self.origins:
                self.session.drop_table(self.session.dialect.names.table(*self._place_of_copy(number)))

    def _place_of_copy(self, number: int) -> tuple[str, str]:
        return self.where.place(self.note.table)[0], f"{STAGE}moved_{self.note.position}_{number}"

    def _write(self, sql: str, name: str, before: Held, after: Held, rows: str) -> None:
        assert isinstance(self.session, Committing)
        about = (self.where.pipeline, name, (before.position, before.schema_id), (after.position, after.schema_id))
        if not merge_by_commits.rewrite(self.session, sql, *about, rows=rows, incarnation=self.where.incarnation):
            raise self._overtaken(name)

    def _overtaken(self, name: str) -> MergeFailed:
        return MergeFailed(f"{name}: another process has merged meanwhile; it is checked again")
