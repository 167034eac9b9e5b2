"""Creation and migration of a store's tables, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from auditor.errors import StoreTooNew
from auditor.model import Verdict
from auditor.store import Store, _migrate, _schema, audit_state, open_store, queue, runs
from auditor.store._migrate import MIGRATIONS
from auditor.store._schema import HEAD, VERSION_TABLE, metadata
from tests import new_stores
from tests.store.conftest import Make
from tests.store.samples import T0, add_finished_run, new_audit_name
from tests.store.worker import Worker

upgrade = command.upgrade


@pytest.fixture(scope="module", autouse=True)
def migrations_run() -> Iterator[None]:
    """Let each new store go through all migrations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_migrate, "_upgrade", new_stores.upgrade_by_steps)
        yield


def test_migrations_result_in_the_schema(store: Store) -> None:
    assert _schema_differences(store) == []


def test_new_stores_of_other_tests_are_what_migrations_result_in(make_url: Make, store: Store) -> None:
    with pytest.MonkeyPatch.context() as patch:
        new_stores.copy_new_stores(patch)
        copies = [open_store(make_url()) for _ in range(2)]
    for copy in copies:
        assert _schema_differences(copy) == [] and _described(copy) == _described(store)
        copy.close()


def _open_copied(url: str) -> Store:
    """Create a store as other tests do, in less time than by all migrations."""
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


def test_older_store_is_migrated_with_its_runs(make_url: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs are copied from a store of this version as far as the first version has their columns."""
    url, audit, newest = make_url(), new_audit_name(), open_store(make_url())
    with monkeypatch.context() as first:
        first.setattr(_migrate, "HEAD", "0001")
        first.setattr(command, "upgrade", lambda config, _: upgrade(config, "0001"))
        store = open_store(url)
    later = {"auditor_queue", "auditor_keys", "auditor_slots", "auditor_defined", "auditor_tokens", "auditor_events", "auditor_told"}
    assert not later & set(sa.inspect(store.engine).get_table_names())
    within: dict[str, Any] = {"verdict": Verdict.MATCH, "changed": 2, "within_threshold": True}
    stored = [add_finished_run(newest, audit), add_finished_run(newest, "lenient", verified_through=None, **within)]
    before = [runs.get_run(newest, run) for run in stored]
    _copy_rows(newest, store)
    for name in (audit, "lenient"):
        _set_verified(store, name)
    newest.close()
    store.close()
    store = open_store(url)
    assert _schema_differences(store) == [] and later <= set(sa.inspect(store.engine).get_table_names())
    assert [runs.get_run(store, run) for run in stored] == before and runs.get_report(store, stored[0])
    assert [audit_state.get_state(store, name).verified_through for name in (audit, "lenient")] == [T0, None], "it was not all equal"
    found = queue.enqueue_run(store, run="new", audit=audit, definition={}, method=None, max_pending=1)
    assert found.how == "new" and queue.claim_run(store) is not None
    store.close()


def _copy_rows(newest: Store, older: Store) -> None:
    """Copy the runs and what belongs to them, as far as the older store has the columns."""
    for table in (_schema.audits, _schema.schemas, _schema.runs, _schema.documents, _schema.differences, _schema.standing):
        names = {column["name"] for column in sa.inspect(older.engine).get_columns(table.name)}
        columns = [column for column in table.columns if column.name in names]
        with newest.engine.connect() as source, older.engine.begin() as target:
            rows = [dict(row) for row in source.execute(sa.select(*columns)).mappings()]
            for row in rows:
                target.execute(sa.insert(table).values(row))


def _set_verified(older: Store, audit: str) -> None:
    with older.engine.begin() as connection:
        where = _schema.standing.c.audit == audit
        connection.execute(sa.update(_schema.standing).where(where).values(verified_through=T0))


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


@pytest.mark.parametrize("tables", [3, 14, *(pytest.param(tables, marks=pytest.mark.slow) for tables in (0, 9))])
def test_crash_during_migration_is_recovered(make_url: Make, tables: int) -> None:
    url = make_url()
    worker = Worker("crash", url, str(tables))
    assert worker.read_line() == "ready"
    worker.go()
    assert worker.read_line() == ""
    worker.end()
    _assert_usable(url)


def test_store_of_a_newer_version_is_rejected(make_url: Make) -> None:
    url = make_url()
    store = _open_copied(url)
    store.write(lambda connection: connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")) and None)
    store.close()
    with pytest.raises(StoreTooNew, match=r"migrated by a newer version of the auditor.*9999"):
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
