"""The script that Alembic runs, on the connection of the store, which holds its lock and transaction."""

from __future__ import annotations

from alembic import context

from auditor.store.schema import VERSION_TABLE, metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
