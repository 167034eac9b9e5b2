"""Create the tables of new stores as the first one of their kind got them, and compile each statement once for all stores.

Hundreds of tests begin with an empty store, and reading the migration is most of the tenth of a second that one takes. The first
store of each database goes through it, and so does each one in a process that a test starts, and in the tests of migrations.
Compiling what a test asks of its store takes longer than what SQLite does.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event

from auditor.store import database

upgrade_by_alembic = database.upgrade_schema

_known: dict[str, list[tuple[str, Any]]] = {}
"""What the first migration of a new store ran, by database, with what the driver got as parameters."""

_READS = ("SELECT", "SHOW", "DESCRIBE", "PRAGMA", "EXPLAIN")


class Compiled(dict[Any, Any]):
    """Compiled statements by what SQLAlchemy takes for their key, in which a dialect of the same database stands for an engine's own."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(_of_any_engine(key), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__(_of_any_engine(key), compiled)


def _of_any_engine(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *rest = key
    return (type(dialect), dialect.server_version_info, getattr(dialect, "is_mariadb", False), *rest)


def compile_once(patch: pytest.MonkeyPatch) -> None:
    """Let all stores of this process share the statements that SQLAlchemy compiled."""
    compiled = Compiled()

    def create(*arguments: Any, **options: Any) -> Engine:
        return create_engine(*arguments, **{**options, "execution_options": {"compiled_cache": compiled}})

    patch.setattr(database, "create_engine", create)


def copy_new_stores(patch: pytest.MonkeyPatch) -> None:
    """Let `open_store` create the tables of an empty store from what it ran for the first."""
    patch.setattr(database, "upgrade_schema", _upgrade)


def _upgrade(connection: Connection, version: str | None, name: str) -> None:
    if version is not None:  # one that is not known
        upgrade_by_alembic(connection, version, name)
        return
    kind = f"{connection.dialect.name} {getattr(connection.dialect, 'is_mariadb', '')}"
    if kind not in _known:
        _known[kind] = _upgrade_and_note(connection, name)
        return
    for statement, parameters in _known[kind]:
        connection.exec_driver_sql(statement, parameters)


def _upgrade_and_note(connection: Connection, name: str) -> list[tuple[str, Any]]:
    noted: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if not statement.lstrip().upper().startswith(_READS):
            noted.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    try:
        upgrade_by_alembic(connection, None, name)
    finally:
        event.remove(connection, "before_cursor_execute", note)
    return noted
