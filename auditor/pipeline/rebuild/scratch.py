"""The merge of a table's kept parts into a scratch file of DuckDB, by the code that merges them into targets, up to a position.

Nothing is written into the pipeline's store or its targets.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from auditor.config import ConnectionSettings, MigrateSettings, PipelineTarget, WriteSettings
from auditor.connections.writer import open_writer, transaction
from auditor.errors import AuditorError, PartsGone, RebuildRefused, TableStopped
from auditor.model import TableNote
from auditor.pipeline.events import TableSchema
from auditor.pipeline.merge.pending_parts import PendingParts
from auditor.pipeline.merge.positions import Held, Where, get_schema, read_schemas, see, write_positions
from auditor.pipeline.merge.rewrites import find_hidden
from auditor.pipeline.merge.table_changes import migrate
from auditor.pipeline.merge.table_merge import StepFailed, follow, merge, plan
from auditor.pipeline.merge.target_table import TargetTable, find_table, make_statement
from auditor.pipeline.rebuild.history import Stage
from auditor.pipeline.stream_positions import place_in_stream
from auditor.pipeline.table_ops import ops_of
from auditor.store import Store, parts, pipelines, schema_changes, table_notes
from dialects import Session

SCHEMA, TABLE = "main", "rebuilt"
"""The scratch table, which has the place of whichever name the source's table has."""

MOST_MEMORY = "512MiB"
"""What DuckDB holds in memory of the table and of sorting it; the rest is in the scratch folder."""

MOST_ROWS = 500_000
"""Rows that are merged in one transaction, if they are not of one transaction of the source."""

NO_BOUND = 1 << 62
"""Rows that may be written again for a change of columns: all of them."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A table that was rebuilt, in a scratch file that is open."""

    session: Session
    sql: str
    """Its name as SQL text."""
    schema: TableSchema
    """Its columns, as the source had them."""
    events: int
    """Events that were merged."""
    left_out: Sequence[TableNote] = field(default=())
    """Events that somebody let every target go on without."""


@contextmanager
def rebuild_scratch(store: Store, name: str, config_file: str, root: str, stages: Sequence[Stage]) -> Iterator[Scratch]:
    """Merge the stages of a table, one after the other, and yield the result, whose file is deleted behind the block.

    ``root`` is the folder of the pipeline's staging. Raises AuditorError: RebuildRefused where an event or a statement of the source stops
    the table, or its columns are not known there.
    """
    with tempfile.TemporaryDirectory(prefix="auditor-rebuild-") as folder:
        url = f"duckdb:///{Path(folder, 'scratch.duckdb')}"
        settings = ConnectionSettings(url=url, write=WriteSettings(url=url))
        with open_writer("rebuild", settings) as session:
            session.execute(f"SET memory_limit = '{MOST_MEMORY}'")
            session.execute(f"SET temp_directory = {session.dialect.names.string_literal(str(Path(folder, 'spilled')))}")
            session.execute("SET preserve_insertion_order = false")
            about = {"connection": "rebuild", "schema": SCHEMA, "table": TABLE, "max_transaction": MOST_ROWS}
            chosen = PipelineTarget.model_validate({**about, "migrate": MigrateSettings(auto_rows=NO_BOUND)})
            # No target has this name, so that neither notes nor live summaries of any are taken for its own.
            target = f"rebuild {secrets.token_hex(8)}"
            where = Where(store, name, config_file, "rebuild", SCHEMA, root, _no_tasks, target, chosen, records=False)
            yield _Rebuilding(session, where).run(stages)


def _no_tasks(*_: object) -> Sequence[int | AuditorError]:
    raise AssertionError("DuckDB loads in the session that merges")


@dataclass(slots=True)
class _Rebuilding:
    """A scratch table and how far it is."""

    session: Session
    where: Where
    held: Held = field(default_factory=Held)
    columns_known: int = 0
    """The position up to which statements changed the columns of the scratch table as those of the source's."""
    ready: dict[str, TargetTable] = field(default_factory=dict)
    events: int = 0

    def run(self, stages: Sequence[Stage]) -> Scratch:
        """Merge all stages and return the table."""
        stage, life = stages[0], pipelines.get_pipeline(self.where.store, self.where.pipeline).incarnation
        try:
            for stage in stages:
                self._begin(stage)
                self._merge(stage)
                if stage is not stages[-1] and self._unapplied(stage):
                    raise TableStopped("a statement changed its columns, and it was renamed before a row told the stream of them")
            schema = self._complete(stage)
        except TableStopped as error:
            raise RebuildRefused(
                f"{stage.table} cannot be rebuilt beyond {self._place(self.held.position)}: {error}; or choose a position before that, or"
                " one behind a refresh of all its rows"
            ) from error
        if pipelines.get_pipeline(self.where.store, self.where.pipeline).incarnation != life:
            raise PartsGone(f"the pipeline {self.where.pipeline} was reset while {stage.table} was rebuilt, so parts of it may be missing")
        found = find_table(self.session, SCHEMA, TABLE)
        assert found
        return Scratch(self.session, found.sql, schema, self.events, self._left_out(stages))

    def _begin(self, stage: Stage) -> None:
        """Let the scratch table stand where a stage begins: empty, or with the rows that it had under the name before."""
        self.columns_known = stage.beginning.start
        read_schemas(self.session, self.where, [stage.table])
        self.held = Held(stage.beginning.start, self.held.schema_id if stage.beginning.by == "rename" else "")
        with transaction(self.session):
            write_positions(self.session, self.where, {stage.table: self.held})
        self.ready.clear()

    def _merge(self, stage: Stage) -> None:
        """Merge what a stage has, as merges into targets do, but for changes of columns whose next event lies behind it."""
        table, through = stage.table, stage.through
        while True:
            ahead = self._see(stage)
            if ahead.note and ahead.note.position > through:
                return
            if not ahead.note and (ahead.begins is None or ahead.begins > through):
                return
            if done := follow(self.session, self.where, table, self.held, ahead, self.ready):
                self.held = done.held
                if not ahead.note:  # which changes all rows, and no columns
                    self.columns_known = done.held.position
                continue
            if ahead.note:
                raise RebuildRefused(
                    f"{table} was renamed at {self._place(ahead.note.position)}, and it is not known what it is behind that"
                )
            step = plan(self.session, self.where, table, self.held, ahead, self.ready, through, most=MOST_ROWS)
            assert step, "there is an event up to here"
            try:
                merged = merge(self.session, self.where, [step], self.ready)[table]
            except StepFailed as failure:
                raise failure.error from failure
            self.held, self.events, self.columns_known = merged.held, self.events + merged.events, merged.held.position

    def _see(self, stage: Stage) -> PendingParts:
        """Return what comes next. Raises PartsGone where parts that are needed were deleted meanwhile, and StoreError."""
        staged = parts.get_table(self.where.store, self.where.pipeline, stage.table)
        if staged.pruned_through > max(self.held.position, stage.beginning.start):
            raise PartsGone(
                f"{stage.table}: parts up to {self._place(staged.pruned_through)} were deleted while the table was rebuilt, which was at"
                f" {self._place(self.held.position)}; choose a later position, or keep parts for longer (keep: parts)"
            )
        return see(self.where, stage.table, self.held, staged.staged_through)

    def _complete(self, stage: Stage) -> TableSchema:
        """Give the table the columns that it had at the end of its last stage, of which no event may have told, and return them."""
        name, table, before = self.where.pipeline, stage.table, self._unapplied(stage)
        if self.held.schema_id and not before:
            return get_schema(self.where, self.held.schema_id)
        schema_id, first = self._next_schema(stage)
        if not schema_id and not self.held.schema_id:
            schema_id = self._last_schema(stage)
        if not schema_id:
            what = "a statement changed its columns" if before else "it had no row before"
            raise RebuildRefused(
                f"{table} cannot be rebuilt as of {self._place(stage.through)}: {what}, and the stream tells columns with the next row,"
                " which is not staged, or came behind another such statement; choose another position, or try again once a row was written"
            )
        schema = get_schema(self.where, schema_id)
        if not self.held.schema_id:
            self.session.execute(make_statement(self.session.dialect, (SCHEMA, TABLE), name, schema)[1])
            return schema
        if hidden := find_hidden(get_schema(self.where, self.held.schema_id), schema, before):
            raise TableStopped(f"{next(iter(hidden.values()))}, without a word of them in the log")
        migrate(self.session, self.where, table, self.held, schema_id, before, first)
        return schema

    def _unapplied(self, stage: Stage) -> list[TableNote]:
        """Return the statements before the end of a stage after which the scratch table's columns may be others than the source's."""
        notes = table_notes.list_notes(self.where.store, self.where.pipeline, [stage.table], kind="change", after=self.columns_known)
        return [note for note in notes if note.position <= stage.through and _alters(note)]

    def _next_schema(self, stage: Stage) -> tuple[str, int]:
        """Return the schema of the next event behind a stage, and its position; '' if the table may have had other columns at its end."""
        store, name, table = self.where.store, self.where.pipeline, stage.table
        found = next(iter(parts.list_parts(store, name, table, stage.through, 1)), None)
        notes = table_notes.list_notes(store, name, [table], kind="change", after=stage.through)
        if found is None or any(_remakes(note) for note in notes if stage.through < note.position < found.first):
            return "", 0
        return found.schema_id, max(found.first, stage.through + 1)

    def _last_schema(self, stage: Stage) -> str:
        """Return the schema of the last event before the end of a stage, whichever parts are kept; '' if its columns changed since."""
        store, name, table = self.where.store, self.where.pipeline, stage.table
        known = [one for one in schema_changes.list_history(store, name, table) if one.position <= stage.through]
        if not known:
            return ""
        notes = table_notes.list_notes(store, name, [table], kind="change", after=known[-1].position)
        return "" if any(_remakes(note) for note in notes if note.position <= stage.through) else known[-1].schema_id

    def _left_out(self, stages: Sequence[Stage]) -> list[TableNote]:
        """Return what somebody let all targets go on without, in these stages."""
        return [
            note
            for stage in stages
            for note in table_notes.list_notes(self.where.store, self.where.pipeline, [stage.table], after=stage.beginning.start)
            if note.skip and not note.target and note.position <= stage.through
        ]

    def _place(self, position: int) -> str:
        return place_in_stream(self.where.store, self.where.pipeline, position)


def _alters(note: TableNote) -> bool:
    """Return whether a statement may have changed the columns of a table that was there, or their values."""
    return any(op["op"] not in ("clear", "create", "gone", "moved") for op in ops_of(note.body))


def _remakes(note: TableNote) -> bool:
    """Return whether a table may have other columns behind a statement than before it."""
    return any(op["op"] != "clear" for op in ops_of(note.body))
