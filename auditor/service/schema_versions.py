"""The versions of a pipeline's tables: from which place of the log each has had which columns, by which statement, and who holds it.

A version is a schema: a table that gets columns which it had before has the earlier version again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import dialects
from auditor.api_models.pipeline import SchemaChange, SchemaColumn, SchemaVersion
from auditor.config import PipelineColumns, Settings
from auditor.errors import ConfigError, PartsGone
from auditor.pipeline.events import TableSchema, place_text
from auditor.pipeline.merge.column_origins import find_origins
from auditor.pipeline.merge.target_table import make_statement
from auditor.pipeline.schema_differences import find_differences
from auditor.pipeline.table_ops import ops_of
from auditor.service.pipeline_status import log_file, match_tables
from auditor.store import parts, pipelines, schema_changes, table_notes
from auditor.store.schema_changes import SchemaAt

if TYPE_CHECKING:
    from auditor.model import TableNote
    from auditor.store import Store


def list_versions(settings: Settings, store: Store, name: str, pattern: str | None = None) -> list[SchemaVersion]:
    """Return the versions of all tables of a pipeline, or of those that match a pattern, in the order of the stream, table by table.

    Raises UnknownPipeline, ConfigError if no table matches, and StoreError.
    """
    settings.pipeline(name)
    tables = match_tables(settings, store, name, [pattern]) if pattern is not None else None
    only = tables[0] if tables is not None and len(tables) == 1 else None
    history = [one for one in schema_changes.list_history(store, name, only) if tables is None or one.table in tables]
    notes = table_notes.list_notes(store, name, tables, kind="change")
    reports = pipelines.list_merges(store, name, tables=tables)
    file = log_file(pipelines.get_pipeline(store, name))
    found: list[SchemaVersion] = []
    for table, entries in groupby(history, key=lambda one: one.table):
        of_table = [note for note in notes if note.table == table]
        positions = {target: of_target[table].position for target, of_target in reports.items() if table in of_target}
        rules = settings.pipeline(name).columns_of(settings.pipeline(name).origin_of(table).partition(".")[2])
        found += _versions(store, name, list(entries), of_table, positions, file, rules)
    return found


def _versions(
    store: Store,
    name: str,
    history: Sequence[SchemaAt],
    notes: Sequence[TableNote],
    positions: Mapping[str, int],
    file: str,
    rules: PipelineColumns,
) -> Iterator[SchemaVersion]:
    schemas = {one.schema_id: _load(store, name, one.schema_id) for one in history}
    numbers = {schema_id: number for number, schema_id in enumerate(schemas, 1)}
    ends = [*(later.position for _, later in pairwise(history)), None]
    for index, (one, end) in enumerate(zip(history, ends, strict=True)):
        schema, before = schemas[one.schema_id], history[index - 1] if index else None
        between = [note for note in notes if (before.position if before else 0) < note.position <= one.position]
        yield SchemaVersion(
            table=one.table,
            version=numbers[one.schema_id],
            place=place_text(one.position, file),
            position=one.position,
            first_seen=one.at,
            statements=[str(note.body["statement"]) for note in between if note.body.get("statement")],
            columns=_columns(schema, rules, one.catalogue or {}) if schema else [],
            owner=rules.owner,
            doc=rules.doc,
            changes=_changes(schemas[before.schema_id] if before else None, schema, between),
            targets=sorted(
                target for target, position in positions.items() if one.position <= position and (end is None or position < end)
            ),
        )


def _columns(schema: TableSchema, rules: PipelineColumns, catalogue: Mapping[str, Mapping[str, str]]) -> list[SchemaColumn]:
    renamed = {old.lower(): new.lower() for old, new in rules.rename.items()}
    docs = {renamed.get(name.lower(), name.lower()): doc for name, doc in rules.docs.items()}
    return [
        SchemaColumn(
            name=column.name,
            type=column.type,
            nullable=column.nullable,
            in_key=column.name in schema.key,
            doc=docs.get(column.name.lower())
            or catalogue.get(column.name, {}).get("comment")
            or (f"computed by {column.computed}" if column.computed else ""),
        )
        for column in schema.columns
    ]


def _changes(old: TableSchema | None, new: TableSchema | None, between: Sequence[TableNote]) -> list[SchemaChange]:
    if new is None:
        return [SchemaChange(sentence="its columns are not in the store any more", breaks_readers=False)]
    if old is None:
        return []
    origins = find_origins(old, new, [ops_of(note.body) for note in between])
    return [SchemaChange.of(one) for one in find_differences(old, new, origins.old)]


def _load(store: Store, name: str, schema_id: str) -> TableSchema | None:
    body = parts.get_schema(store, name, schema_id)
    return TableSchema.from_json(json.dumps(body)) if body is not None else None


def create_statement(settings: Settings, store: Store, name: str, table: str, engine: str, version: int | None = None) -> str:
    """Return the statement that makes a table for the rows of one of its versions, the last one unless said, on an engine.

    It has the name of its source's. Raises ConfigError for an unknown engine, version, or a table that is not one alone, UnknownPipeline,
    ColumnRefused for a column that the engine cannot hold, and StoreError.
    """
    tables = match_tables(settings, store, name, [table])
    if len(tables) > 1:
        raise ConfigError(f"{table!r} is {' and '.join(tables)}; name one of them")
    written = [one for one in dialects.working() if one.is_written]
    dialect = next((one for one in written if one.name == engine), None)
    if dialect is None:
        raise ConfigError(f"no table is made on {engine!r}; name one of {', '.join(one.name for one in written)}")
    history = schema_changes.list_history(store, name, tables[0])
    ids = list(dict.fromkeys(one.schema_id for one in history))
    last = ids.index(history[-1].schema_id) + 1 if history else 0
    chosen = last if version is None else version
    if not 1 <= chosen <= len(ids):
        raise ConfigError(f"{tables[0]} has {len(ids)} versions; there is no version {chosen}")
    schema = _load(store, name, ids[chosen - 1])
    if schema is None:
        raise PartsGone(f"the columns of version {chosen} of {tables[0]} are not in the store any more")
    return make_statement(dialect, (schema.database, schema.table), name, schema)[1]
