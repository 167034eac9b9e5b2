"""Let a target forget where it stands in a pipeline's stream."""

from __future__ import annotations

from auditor.config import Settings
from auditor.connections.writer import open_writer, transaction
from auditor.errors import NoSuchObject
from auditor.pipeline.merge import commits
from auditor.sql.merge import Positions
from auditor.store import Store, parts
from dialects.committing import Committing


def forget_positions(settings: Settings, store: Store, name: str, target: str) -> None:
    """Delete the positions of a pipeline's tables from a target; their rows stay. Raises ConfigError, EngineError and StoreError."""
    chosen = settings.pipeline(name).targets[target]
    with open_writer(chosen.connection, settings.connections[chosen.connection]) as session:
        if isinstance(session, Committing):
            for table in parts.list_tables(store, name):
                commits.forget(session, chosen.place_of(table), name, table)
            return
        for schema in chosen.schemas_of(parts.list_tables(store, name)):
            positions = Positions(session.dialect, schema, name)
            try:
                tables = [str(row[0]) for row in session.query(positions.list())]
            except NoSuchObject:  # nothing was ever merged
                continue
            with transaction(session):
                for table in tables:
                    for statement in positions.forget(table):
                        session.execute(statement)
