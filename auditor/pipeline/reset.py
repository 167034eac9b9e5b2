"""Let targets forget their positions in a pipeline's stream, or let the stream go back to these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import dialects
from auditor.config import Settings
from auditor.connections.writer import open_writer, transaction
from auditor.errors import ConfigError, NoSuchObject, PositionLost
from auditor.pipeline.binlog.log_connection import source_of
from auditor.pipeline.binlog.ranges import SourceOffset, check_born, from_offset, read_born
from auditor.pipeline.binlog.server import check_server, read_log_files
from auditor.pipeline.incarnation import order, show
from auditor.pipeline.kafka.source_check import check_retained
from auditor.pipeline.merge import merge_by_commits
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.merge.target_identity import Identity, adopt, read_identities
from auditor.pipeline.publisher import forget_published
from auditor.pipeline.source_tables import list_source_tables, read_schemas
from auditor.sql.merge import Positions
from auditor.store import Store, parts
from dialects.committing import Committing


def forget_positions(settings: Settings, store: Store, name: str, target: str) -> None:
    """Delete the positions of a pipeline's tables from a target; their rows, or messages, stay.

    Raises ConfigError, EngineError, BrokerError and StoreError.
    """
    if target in settings.pipeline(name).topic_targets:
        forget_published(settings, name, target)
        return
    chosen = settings.pipeline(name).table_targets[target]
    with open_writer(chosen.connection, settings.connections[chosen.connection]) as session:
        if isinstance(session, Committing):
            for table in parts.list_tables(store, name) or _tables_of_source(settings, name):
                merge_by_commits.forget(session, chosen.place_of(table), name, table)
            return
        schemas = chosen.schemas_of(parts.list_tables(store, name))
        for schema in schemas or chosen.schemas_of(_tables_of_source(settings, name)):
            positions = Positions(session.dialect, schema, name)
            try:
                tables = [str(row[0]) for row in session.query(positions.list())]
            except NoSuchObject:  # nothing was ever merged
                continue
            with transaction(session):
                for statement in positions.forget(*tables) if tables else ():
                    session.execute(statement)


def _tables_of_source(settings: Settings, name: str) -> list[str]:
    """Return what the stream calls the tables of a pipeline's source, where the store knows none: it may be a new one."""
    pipeline = settings.pipeline(name)
    if pipeline.topic_source:
        return [output for table in list_source_tables(settings, name) for output in pipeline.outputs_of(table)]
    connection = settings.connections[pipeline.of_log("a log").connection]
    with closing(dialects.connect(connection.url, connection.limits.statement_timeout, connection.limits.lock_timeout)) as session:
        return [output for table in read_schemas(session, pipeline) for output in pipeline.outputs_of(table)]


def find_tables(settings: Settings, store: Store, name: str) -> list[str]:
    """Return the tables of a pipeline that its store or its source knows. Raises EngineError and StoreError."""
    return sorted({*parts.list_tables(store, name), *_tables_of_source(settings, name)})


def find_common_place(settings: Settings, store: Store, name: str, tables: Sequence[str]) -> SourceOffset:
    """Return the offset up to which each target of a pipeline holds every one of these tables, which the source's log still has.

    Raises ConfigError if a target does not say so, SourceReplaced if the source is another server, PositionLost if the log is gone.
    """
    pipeline, identities = settings.pipeline(name), dict[str, Identity | None]()  # by target and schema
    if pipeline.tracker:
        raise ConfigError(f"pipeline {name} has a tracker, which knows tables as they are now and cannot go back; reset it without this")
    if pipeline.topic_targets:
        raise ConfigError(
            f"target {next(iter(pipeline.topic_targets))} is topics, into which nothing is published twice; reset the pipeline without"
            " this, and publish into new topics"
        )
    for target in pipeline.table_targets:
        target_place = _target_place(settings, store, name, target)
        with open_writer(target_place.connection, settings.connections[target_place.connection]) as session:
            if isinstance(session, Committing):
                raise ConfigError(f"target {target} says where single tables stand, not all of them; reset the pipeline without this")
            identities |= {
                f"{target} (schema {schema})": identity for schema, identity in read_identities(session, target_place, tables).items()
            }
    offsets = {place: identity.offset for place, identity in identities.items() if identity and identity.offset}
    if missing := [place for place in identities if place not in offsets]:
        raise ConfigError(f"target {missing[0]} does not say up to where it holds every table; reset the pipeline without this")
    if not offsets:
        raise ConfigError(f"neither the store nor the source has a table of pipeline {name}; reset it without this")
    if len({offset.get("server") for offset in offsets.values()}) > 1:
        raise ConfigError(f"the targets of pipeline {name} were filled from different servers; reset it without this")
    offset = min(offsets.values(), key=order)
    _check_log(settings, name, offset)
    return offset


def _check_log(settings: Settings, name: str, offset: Mapping[str, Any]) -> None:
    """Check that the source still has what follows an offset. Raises SourceReplaced and PositionLost."""
    if settings.pipeline(name).topic_source:
        check_retained(settings, name, offset)
        return
    mark = from_offset(offset)
    with closing(source_of(settings, name).connect()) as connection:
        check_server(connection, settings.pipeline(name).source_name, str(offset.get("server", "")), mark)
        if mark.born:
            source = source_of(settings, name)
            check_born(source, mark.place, mark.born, read_born(source, mark.place.file))
        if read_log_files(connection).bytes_behind(mark.place) is None:
            raise PositionLost(f"the targets are at {show(offset)}, which is gone from the source's log; reset the pipeline without this")


def adopt_target(settings: Settings, store: Store, name: str, target: str, tables: Sequence[str], incarnation: str) -> None:
    """Let a target belong to a new life of its pipeline, with its positions of these tables. Raises EngineError and StoreError."""
    target_place = _target_place(settings, store, name, target)
    with open_writer(target_place.connection, settings.connections[target_place.connection]) as session:
        adopt(session, target_place, tables, incarnation)


def _target_place(settings: Settings, store: Store, name: str, target: str) -> Where:
    chosen = settings.pipeline(name).table_targets[target]
    return Where(store, name, "", chosen.connection, chosen.schema_, "", lambda *_: [], target, chosen)
