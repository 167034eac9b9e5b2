"""What a target holds of each table of a pipeline, as it says itself, and what lies ahead of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from auditor.config import PipelineTarget, TargetKeys
from auditor.connections.writer import create_table
from auditor.errors import ConfigError, MergeFailed, NoSuchObject, PartsGone
from auditor.model import Part, TableNote
from auditor.pipeline.events import Position, TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.merge import merge_by_commits
from auditor.pipeline.merge.load_tasks import RunTasks
from auditor.pipeline.merge.pending_parts import PendingParts, find_pending
from auditor.pipeline.merge.rewrites import find_hidden
from auditor.pipeline.staged_parts import read_part
from auditor.sql.merge import Positions
from auditor.store import Store, parts, table_notes
from dialects import Session
from dialects.committing import Committing

BEFORE_ALL = 0
"""The position of a table of which a target holds nothing."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a target holds of a table."""

    position: int = BEFORE_ALL
    schema_id: str = ""


@dataclass(frozen=True, slots=True)
class Where:
    """A target of a pipeline, as its merges see it."""

    store: Store
    pipeline: str
    config_file: str
    connection: str
    schema: str
    root: str
    run_tasks: RunTasks
    target: str = ""
    chosen: PipelineTarget | None = None
    """What the configuration says of it; None for the usual names in ``schema``."""
    incarnation: str = ""
    """The pipeline's, which a target that is written by commits carries with each position."""
    schemas_met: dict[str, TableSchema] = field(default_factory=dict, compare=False, repr=False)
    """The schemas of tables that were read from the store, by their ids."""

    def place(self, table: str) -> tuple[str, str]:
        """Return the schema and the name that a table of the source, ``database.table``, has in the target."""
        return self.chosen.place_of(table) if self.chosen else (self.schema, table.partition(".")[2])

    def keys(self, table: str) -> TargetKeys:
        """Return the distribution and sort keys with which a table of the source is made."""
        return self.chosen.keys_of(table) if self.chosen else TargetKeys()

    def schemas(self, tables: Iterable[str]) -> list[str]:
        """Return the schemas in which the target has these tables of the source, or may have some; each has positions of its own."""
        return self.chosen.schemas_of(tables) if self.chosen else [self.schema]


def is_at_one_moment(session: Session, chosen: PipelineTarget | None) -> bool:
    """Return whether all tables of a target are merged together. Raises ConfigError where that is asked of an engine that cannot."""
    asked = chosen.consistency if chosen else None
    if asked == "target" and isinstance(session, Committing):
        raise ConfigError(
            f"consistency: target asks for all tables at one moment of the source, and a commit of {session.dialect.name} is of one table;"
            " leave it out, or write consistency: table"
        )
    return asked != "table" and not isinstance(session, Committing)


def read_positions(session: Session, where: Where) -> dict[str, Held]:
    """Return what the target says that it holds of each table; makes its table of positions and its schema if they are missing."""
    tables = parts.list_tables(where.store, where.pipeline)
    if isinstance(session, Committing):
        found = {table: Held(*merge_by_commits.read_position(session, where.place(table), where.pipeline, table)) for table in tables}
        return {table: held for table, held in found.items() if held != Held()}
    held: dict[str, Held] = {}
    for schema in where.schemas(tables):
        held |= _read_schema(session, Positions(session.dialect, schema, where.pipeline))
    return held


def _read_schema(session: Session, positions: Positions) -> dict[str, Held]:
    try:
        return read(session, positions)
    except NoSuchObject:
        try:
            create_table(session, positions.create())
        except NoSuchObject:
            session.execute(f"CREATE SCHEMA {session.dialect.names.quote(positions.schema)}")
            create_table(session, positions.create())
    return read(session, positions)


def positions_of(session: Session, where: Where, table: str) -> Positions:
    """Return the statements about the position of a table, which stands in the table's schema of the target."""
    return Positions(session.dialect, where.place(table)[0], where.pipeline)


def see(where: Where, table: str, held: Held) -> PendingParts:
    """Return what lies ahead of the target in the stream of a table. Raises StoreError."""
    found = parts.list_parts(where.store, where.pipeline, table, held.position)
    return see_in(where, held, found, table_notes.list_notes(where.store, where.pipeline, [table], after=held.position))


def see_in(where: Where, held: Held, found: Sequence[Part], notes: Sequence[TableNote]) -> PendingParts:
    """Return the same of a table's parts and notes that end behind what the target holds. Raises StoreError."""
    begins = found[0].first if found else None
    if found and found[0].first <= held.position:  # a part of which some events were merged
        begins = _next_position(where, found[0], held.position)
        found = found if begins is not None else found[1:]
        begins = found[0].first if begins is None and found else begins
    return find_pending(begins, found, notes, where.target, _hidden(where, held, begins, found, notes))


def _hidden(where: Where, held: Held, begins: int | None, found: Sequence[Part], notes: Sequence[TableNote]) -> Mapping[int, str]:
    """Return by position why statements before the next event may have changed values without events."""
    changes = [note for note in notes if note.kind == "change" and begins is not None and note.position < begins]
    if not changes or not held.schema_id:
        return {}
    return find_hidden(get_schema(where, held.schema_id), get_schema(where, found[0].schema_id), changes)


def _next_position(where: Where, part: Part, after: int) -> int | None:
    """Return the position of a part's first event behind another; None if it has none."""
    batch = next(read_part(folder_at(where.root), part, after), None)
    return None if batch is None else pc.min(batch["position"]).as_py()


def check_unchanged(session: Session, where: Where, held: Mapping[str, Held]) -> None:
    """Check in a transaction that no other process has merged one of these tables. Raises MergeFailed."""
    for positions, tables in _by_schema(session, where, held):
        statement = positions.find(tables[0]) if len(tables) == 1 else positions.list()
        now = _held(session, statement)
        if moved := [table for table in tables if now.get(table, Held()) != held[table]]:
            there = describe(now.get(moved[0], Held()).position)
            raise MergeFailed(f"{moved[0]}: another process has merged up to {there} meanwhile; it is looked at again")


def write_positions(session: Session, where: Where, held: Mapping[str, Held]) -> None:
    """Write in a transaction what the target holds of these tables from now on."""
    for positions, tables in _by_schema(session, where, held):
        for statement in positions.write({table: (held[table].position, held[table].schema_id) for table in tables}):
            session.execute(statement)


def _by_schema(session: Session, where: Where, tables: Iterable[str]) -> list[tuple[Positions, list[str]]]:
    """Return the tables by the table of positions in which they stand."""
    found: dict[str, list[str]] = {}
    for table in tables:
        found.setdefault(where.place(table)[0], []).append(table)
    return [(Positions(session.dialect, schema, where.pipeline), named) for schema, named in found.items()]


def read(session: Session, positions: Positions) -> dict[str, Held]:
    """Return what the table of positions says of each table; a row without a name is about the pipeline as a whole."""
    return _held(session, positions.list())


def _held(session: Session, statement: str) -> dict[str, Held]:
    return {str(table): Held(int(position), str(schema_id)) for table, position, schema_id in session.query(statement) if table}


def get_schema(where: Where, schema_id: str) -> TableSchema:
    """Return a schema from the store, which is asked once for each. Raises PartsGone if it is not there, and StoreError."""
    if schema_id not in where.schemas_met:
        body = parts.get_schema(where.store, where.pipeline, schema_id)
        if body is None:
            raise PartsGone(f"the schema {schema_id} of a part is not in the store; reset the pipeline, and copy its tables again")
        where.schemas_met[schema_id] = TableSchema.from_json(json.dumps(body))
    return where.schemas_met[schema_id]


def describe(position: int) -> str:
    """Return a position for people: the number of the log file and the offset in it."""
    found = Position.unpack(position)
    return f"{found.file:06d}:{found.offset}"
