"""Making a store's tables, on every database."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from auditor.errors import StoreTooNew
from auditor.store import Store, _migrate, open_store, queue, runs
from auditor.store._migrate import MIGRATIONS
from auditor.store._schema import HEAD, VERSION_TABLE, metadata
from tests.store.conftest import Make
from tests.store.samples import ended, new_audit
from tests.store.worker import Worker

upgrade = command.upgrade


def test_the_migrations_lead_to_the_schema(store: Store) -> None:
    assert _differences(store) == []


def test_the_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_opening_again_changes_nothing(make_url: Make) -> None:
    url, audit = make_url(), new_audit()
    store = open_store(url)
    run = ended(store, audit)
    store.close()
    again = open_store(url)
    assert runs.find(again, run).audit == audit
    again.close()


def test_an_older_store_is_brought_up_to_date_and_keeps_its_runs(make_url: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs are written as the first version wrote them: none of its statements knew of the tables that came later."""
    url, audit = make_url(), new_audit()
    with monkeypatch.context() as first:
        first.setattr(_migrate, "HEAD", "0001")
        first.setattr(command, "upgrade", lambda config, _: upgrade(config, "0001"))
        store = open_store(url)
    later = {"auditor_queue", "auditor_keys", "auditor_slots", "auditor_defined", "auditor_tokens", "auditor_events", "auditor_told"}
    assert not later & set(sa.inspect(store.engine).get_table_names())
    kept = [ended(store, audit) for _ in range(3)]
    before = [runs.find(store, run) for run in kept]
    store.close()
    store = open_store(url)
    assert _differences(store) == [] and later <= set(sa.inspect(store.engine).get_table_names())
    assert [runs.find(store, run) for run in kept] == before and runs.report(store, kept[0])
    found = queue.enqueue(store, run="new", audit=audit, definition={}, method=None, most=1)
    assert found.how == "new" and queue.claim(store) is not None
    store.close()


def test_processes_that_open_a_new_store_at_once(make_url: Make) -> None:
    url = make_url()
    workers = [Worker("opening", url) for _ in range(3)]
    assert [worker.said() for worker in workers] == ["ready"] * 3
    for worker in workers:
        worker.go()
    assert [worker.said() for worker in workers] == ["open"] * 3
    for worker in workers:
        worker.end()
    _is_usable(url)


@pytest.mark.parametrize("tables", [0, 3, 9, 14])
def test_a_crash_while_the_tables_are_made(make_url: Make, tables: int) -> None:
    url = make_url()
    worker = Worker("crash", url, str(tables))
    assert worker.said() == "ready"
    worker.go()
    assert worker.said() == ""
    worker.end()
    _is_usable(url)


def test_a_store_of_a_newer_version_is_refused(make_url: Make) -> None:
    url = make_url()
    store = open_store(url)
    store.write(lambda connection: connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")) and None)
    store.close()
    with pytest.raises(StoreTooNew, match=r"a newer version of the auditor made it.*9999"):
        open_store(url)


def _is_usable(url: str) -> None:
    store = open_store(url)
    try:
        assert _differences(store) == []
        ended(store, new_audit())
    finally:
        store.close()


def _differences(store: Store) -> list[object]:
    with store.engine.connect() as connection:
        return list(compare_metadata(MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}), metadata))
