"""Creation of a store's tables, and refusal of those that this version does not know, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from auditor import store as stored
from auditor.errors import StoreTooNew
from auditor.store import Store, database, open_store, runs
from auditor.store.database import MIGRATIONS
from auditor.store.schema import HEAD, VERSION_TABLE, metadata
from tests import new_stores
from tests.store.conftest import Make
from tests.store.samples import add_finished_run, new_audit_name
from tests.store.worker import Worker

BEFORE_AN_INDEX = 7
"""Statements of the migration after which a table has no index yet, which it is to have."""


@pytest.fixture(scope="module", autouse=True)
def migrations_run() -> Iterator[None]:
    """Let each new store go through the migration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "upgrade_schema", new_stores.upgrade_by_alembic)
        yield


def test_migrations_result_in_the_schema(store: Store) -> None:
    for module in iter_modules(stored.__path__):  # each adds the tables of its subject to the metadata
        import_module(f"{stored.__name__}.{module.name}")
    assert _schema_differences(store) == []


@pytest.mark.quick_for("sqlite", "mysql")
def test_new_stores_of_other_tests_are_what_migrations_result_in(make_url: Make, store: Store) -> None:
    with pytest.MonkeyPatch.context() as patch:
        new_stores.copy_new_stores(patch)
        copies = [open_store(make_url()) for _ in range(2)]
    for copy in copies:
        assert _schema_differences(copy) == [] and _described(copy) == _described(store)
        copy.close()


def _open_copied(url: str) -> Store:
    """Create a store as other tests do, in less time than by the migration."""
    with pytest.MonkeyPatch.context() as patch:
        new_stores.copy_new_stores(patch)
        return open_store(url)


def _described(store: Store) -> dict[str, Any]:
    """What the database says of each table: columns with types and defaults, key, indexes and constraints."""
    found = sa.inspect(store.engine)
    return {
        name: [str(part) for part in (
            found.get_columns(name), found.get_pk_constraint(name), found.get_indexes(name), found.get_unique_constraints(name),
            found.get_foreign_keys(name), found.get_check_constraints(name), found.get_table_options(name),
        )]
        for name in found.get_table_names()
    }  # fmt: skip


def test_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_reopening_preserves_runs(make_url: Make) -> None:
    url, audit = make_url(), new_audit_name()
    store = _open_copied(url)
    run = add_finished_run(store, audit)
    store.close()
    again = open_store(url)
    assert runs.get_run(again, run).audit == audit
    again.close()


def test_concurrent_processes_create_one_store(make_url: Make) -> None:
    url = make_url()
    workers = [Worker("opening", url) for _ in range(2)]
    assert [worker.read_line() for worker in workers] == ["ready"] * 2
    for worker in workers:
        worker.go()
    assert [worker.read_line() for worker in workers] == ["open"] * 2
    for worker in workers:
        worker.end()
    _assert_usable(url)


@pytest.mark.few
@pytest.mark.parametrize("statements", [3, BEFORE_AN_INDEX, *(pytest.param(one, marks=pytest.mark.slow) for one in (0, 40))])
def test_crash_during_migration_is_recovered(make_url: Make, statements: int) -> None:
    url = make_url()
    worker = Worker("crash", url, str(statements))
    assert worker.read_line() == "ready"
    worker.go()
    assert worker.read_line() == ""
    worker.end()
    _assert_usable(url)


@pytest.mark.few
@pytest.mark.parametrize("version", ["9999", "0000"])
def test_store_of_another_version_is_rejected(make_url: Make, version: str) -> None:
    url = make_url()
    store = _open_copied(url)
    store.write(lambda connection: connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'")) and None)
    store.close()
    with pytest.raises(StoreTooNew, match=rf"its schema is {version}, .* knows {HEAD}.*; upgrade the auditor, or use another store"):
        open_store(url)


def _assert_usable(url: str) -> None:
    store = open_store(url)
    try:
        assert _schema_differences(store) == []
        add_finished_run(store, new_audit_name())
    finally:
        store.close()


def _schema_differences(store: Store) -> list[object]:
    with store.engine.connect() as connection:
        return list(compare_metadata(MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}), metadata))
