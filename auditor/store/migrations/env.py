"""What Alembic runs; the connection, its lock and its transaction are the store's."""

from __future__ import annotations

from alembic import context

from auditor.store._schema import VERSION_TABLE, metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
