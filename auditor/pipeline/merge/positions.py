"""What a target holds of each table of a pipeline, as it says itself, and what lies ahead of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow.compute as pc

from auditor.config import PipelineTarget, TargetKeys
from auditor.connections.writer import create_table
from auditor.errors import ConfigError, MergeFailed, NoSuchObject, PartsGone
from auditor.escaping import shell_word
from auditor.model import Part, TableNote
from auditor.pipeline.events import TableSchema, place_text
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

Row: TypeAlias = tuple[Any, ...]
"""A row of a table of positions: the table, its position, and the id of its schema."""

WHOLE = ""
"""Stands for the pipeline as a whole in the table of positions, where tables have their names; `target_identity.py` says what is there."""

MOST_LISTED = 1000
"""Parts of one table that are looked at for one transaction."""

BEFORE_ALL = 0
"""The position of a table of which a target holds nothing."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a target holds of a table."""

    position: int = BEFORE_ALL
    schema_id: str = ""


class StreamReader(Protocol):
    """Who reads the staged stream of a pipeline for a target."""

    @property
    def store(self) -> Store:
        """The store that lists its parts."""

    @property
    def pipeline(self) -> str:
        """Its name."""

    @property
    def target(self) -> str:
        """The target's name."""

    @property
    def root(self) -> str:
        """The folder of its staging."""

    @property
    def schemas_met(self) -> dict[str, TableSchema]:
        """The schemas of tables that were read from the store, by their ids."""


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
    target: str
    chosen: PipelineTarget
    """What the configuration says of it."""
    incarnation: str = ""
    """The pipeline's, which a target that is written by commits carries with each position."""
    records: bool = True
    """Whether the store is to know how the target's tables were migrated; not of a scratch table, which no pipeline has as a target."""
    schemas_met: dict[str, TableSchema] = field(default_factory=dict, compare=False, repr=False)
    """The schemas of tables that were read from the store, by their ids."""

    def place(self, table: str) -> tuple[str, str]:
        """Return the schema and the name that a table of the source, ``database.table``, has in the target."""
        return self.chosen.place_of(table)

    def keys(self, table: str) -> TargetKeys:
        """Return the distribution and sort keys with which a table of the source is made."""
        return self.chosen.keys_of(table)

    def schemas(self, tables: Iterable[str]) -> list[str]:
        """Return the schemas in which the target has these tables of the source, or may have some; each has positions of its own."""
        return self.chosen.schemas_of(tables)


def is_at_one_moment(session: Session, chosen: PipelineTarget) -> bool:
    """Return whether all tables of a target are merged together. Raises ConfigError where that is asked of an engine that cannot."""
    asked = chosen.consistency
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
    return held_of(row for rows in read_schemas(session, where, tables).values() for row in rows)


def read_schemas(session: Session, where: Where, tables: Iterable[str]) -> dict[str, list[Row]]:
    """Return the rows of each table of positions of a target that has, or may have, these tables; makes what is missing."""
    return {schema: _read_schema(session, Positions(session.dialect, schema, where.pipeline)) for schema in where.schemas(tables)}


def _read_schema(session: Session, positions: Positions) -> list[Row]:
    try:
        return session.query(positions.list())
    except NoSuchObject:
        try:
            create_table(session, positions.create())
        except NoSuchObject:
            session.execute(f"CREATE SCHEMA {session.dialect.names.quote(positions.schema)}")
            create_table(session, positions.create())
    return session.query(positions.list())


def positions_of(session: Session, where: Where, table: str) -> Positions:
    """Return the statements about the position of a table, which stands in the table's schema of the target."""
    return Positions(session.dialect, where.place(table)[0], where.pipeline)


def see(where: StreamReader, table: str, held: Held, through: int = 0) -> PendingParts:
    """Return what lies ahead of the target in the stream of a table, of which events up to ``through`` are known to be staged.

    Raises PartsGone where some of them are not listed any more, and StoreError.
    """
    found = parts.list_parts(where.store, where.pipeline, table, held.position, MOST_LISTED)
    notes = table_notes.list_notes(where.store, where.pipeline, [table], after=held.position)
    return see_in(where, table, held, found, notes, through if len(found) < MOST_LISTED else 0)


def see_in(
    where: StreamReader, table: str, held: Held, found: Sequence[Part], notes: Sequence[TableNote], through: int = 0
) -> PendingParts:
    """Return the same of a table's parts and notes that end behind what the target holds. Raises PartsGone and StoreError."""
    _check_chain(where, table, held, found, notes, through)
    begins = found[0].first if found else None
    if found and found[0].first <= held.position:  # a part of which some events were merged
        begins = _next_position(where, found[0], held.position)
        found = found if begins is not None else found[1:]
        begins = found[0].first if begins is None and found else begins
    return find_pending(begins, found, notes, where.target, _hidden(where, held, begins, found, notes))


def _check_chain(where: StreamReader, table: str, held: Held, found: Sequence[Part], notes: Sequence[TableNote], through: int) -> None:
    """Raise PartsGone if events that were staged between what a target holds and ``through`` are in none of these parts."""
    passed = [note.position for note in notes if note.body.get("advances")]
    reached = held.position
    for before, after in [*((part.previous, part) for part in found), (through, None)]:
        reached = max([reached, *(position for position in passed if after is None or position < after.first)])
        if before > reached:
            raise PartsGone(
                f"{table}: events between {describe(reached)} and {describe(before)} were staged, and the store lists no part of them any"
                " more, as after a restore or a deletion by hand; read the log again from where the targets are: auditor pipeline reset"
                f" {shell_word(where.pipeline)} --from-targets; or copy the table again, and let the target continue from there"
            )
        reached = max(reached, after.last if after else 0)


def _hidden(where: StreamReader, held: Held, begins: int | None, found: Sequence[Part], notes: Sequence[TableNote]) -> Mapping[int, str]:
    """Return by position why statements before the next event may have changed values without events."""
    changes = [note for note in notes if note.kind == "change" and begins is not None and note.position < begins]
    if not changes or not held.schema_id:
        return {}
    return find_hidden(get_schema(where, held.schema_id), get_schema(where, found[0].schema_id), changes)


def _next_position(where: StreamReader, part: Part, after: int) -> int | None:
    """Return the position of a part's first event behind another; None if it has none."""
    batch = next(read_part(folder_at(where.root), part, after), None)
    return None if batch is None else pc.min(batch["position"]).as_py()


def check_unchanged(session: Session, where: Where, held: Mapping[str, Held]) -> None:
    """Check in a transaction that no other process has merged one of these tables. Raises MergeFailed."""
    for positions, tables in _by_schema(session, where, held):
        statement = positions.find(tables[0]) if len(tables) == 1 else positions.list()
        now = held_of(session.query(statement))
        if moved := [table for table in tables if now.get(table, Held()) != held[table]]:
            there = describe(now.get(moved[0], Held()).position)
            raise MergeFailed(f"{moved[0]}: another process has merged up to {there} meanwhile; it is checked again")


def write_positions(session: Session, where: Where, held: Mapping[str, Held], whole: Mapping[str, tuple[int, str]] | None = None) -> None:
    """Write in a transaction what the target holds of these tables from now on, and ``whole``, what their schemas say of all tables."""
    for positions, tables in _by_schema(session, where, held):
        rows = {table: (held[table].position, held[table].schema_id) for table in tables}
        if whole and positions.schema in whole:
            rows[WHOLE] = whole[positions.schema]
        for statement in positions.write(rows):
            session.execute(statement)


def _by_schema(session: Session, where: Where, tables: Iterable[str]) -> list[tuple[Positions, list[str]]]:
    """Return the tables by the table of positions in which they stand."""
    found: dict[str, list[str]] = {}
    for table in tables:
        found.setdefault(where.place(table)[0], []).append(table)
    return [(Positions(session.dialect, schema, where.pipeline), named) for schema, named in found.items()]


def held_of(rows: Iterable[Row]) -> dict[str, Held]:
    """Return what rows of a table of positions say of each table."""
    return {str(table): Held(int(position), str(schema_id)) for table, position, schema_id in rows if str(table) != WHOLE}


def get_schema(where: StreamReader, schema_id: str) -> TableSchema:
    """Return a schema from the store, which is asked once for each. Raises PartsGone if it is not there, and StoreError."""
    if schema_id not in where.schemas_met:
        body = parts.get_schema(where.store, where.pipeline, schema_id)
        if body is None:
            raise PartsGone(f"the schema {schema_id} of a part is not in the store; reset the pipeline, and copy its tables again")
        where.schemas_met[schema_id] = TableSchema.from_json(json.dumps(body))
    return where.schemas_met[schema_id]


def describe(position: int) -> str:
    """Return a position for people: the number of the log file and the offset in it, or of a message of topics its number."""
    return place_text(position)
