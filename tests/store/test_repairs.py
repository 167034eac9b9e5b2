"""Repairs as they are kept, on every database."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command

from auditor.errors import ConfigError, StoreError, UnknownRepair, UnknownRun
from auditor.service import repairs as use
from auditor.store import Store, _migrate, events, open_store, repairs, retention
from auditor.store._schema import repairs as table
from tests.store.conftest import Make
from tests.store.samples import T0, ended, new_audit

upgrade = command.upgrade

SQL = "x'; DROP TABLE auditor_repairs; -- naïve 🙂 \0"


def recorded(store: Store, run: str, note: str = "mended", **more: Any) -> repairs.Repair:
    return repairs.record(store, **{"run": run, "audit": "a", "kind": "patch", "note": note, "who": "ops", **more})


def noted(store: Store, run: str) -> list[tuple[str, str, dict[str, Any]]]:
    return [(one.who, one.what, one.detail) for one in events.listed(store, limit=1000) if one.subject == run]


def test_a_repair_is_kept_as_it_was_told_and_noted(store: Store) -> None:
    run, keys = uuid.uuid4().hex, [{"id": str(2**64), "text": SQL}, {"id": None, "text": ""}]
    made = recorded(store, run, SQL, rows=2**40, keys=keys)
    assert repairs.find(store, made.repair) == made
    assert (made.note, made.rows, made.keys, made.who, made.kind, made.state) == (SQL, 2**40, keys, "ops", "patch", "recorded")
    assert made.at.tzinfo
    assert noted(store, run) == [("ops", "repair recorded", {"audit": "a", "repair": made.repair, "kind": "patch", "rows": 2**40})]
    for unknown in ("", made.repair[:8], made.repair.upper() + "x", SQL.replace("\0", "")):
        with pytest.raises(UnknownRepair):
            repairs.find(store, unknown)


def test_what_cannot_be_noted_is_not_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StoreError("the events cannot be written")

    run = uuid.uuid4().hex
    with monkeypatch.context() as failing:
        failing.setattr(events, "noted", fails)
        with pytest.raises(StoreError):
            recorded(store, run)
    assert repairs.listed(store, run) == []


def test_they_are_listed_by_run_the_newest_first(store: Store) -> None:
    mine, other = uuid.uuid4().hex, uuid.uuid4().hex
    made = [recorded(store, mine, str(n)) for n in range(5)]
    recorded(store, other)
    # Several of one moment are told apart by their ids, so that no page passes one by.
    same = sa.update(table).where(table.c.run == mine, table.c.id != made[0].repair)
    store.write(lambda connection: connection.execute(same.values(at=made[4].at)) and None)
    whole = repairs.listed(store, mine)
    assert [one.note for one in whole][-1] == "0" and len(whole) == 5
    pages, before = list[repairs.Repair](), None
    while page := repairs.listed(store, mine, limit=2, before=before):
        pages, before = pages + page, page[-1].repair
    assert pages == whole
    with pytest.raises(UnknownRepair):
        repairs.listed(store, mine, before="0" * 32)


def test_the_same_request_is_one_repair(store: Store) -> None:
    run = uuid.uuid4().hex
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: recorded(store, run, keys=[{"id": "1"}], idempotency="key"), range(4)))
    assert len({one.repair for one in made}) == 1 and repairs.listed(store, run) == [made[0]]
    assert len(noted(store, run)) == 1
    differing: list[dict[str, Any]] = [{"note": "else"}, {"run": uuid.uuid4().hex}, {"rows": 1}, {"kind": "other"}]
    for otherwise in differing:
        with pytest.raises(ConfigError, match="was used to record something else"):
            recorded(store, **{"run": run, "keys": [{"id": "1"}], "idempotency": "key", **otherwise})
    assert recorded(store, run, who="somebody else", idempotency="key").repair != made[0].repair
    assert len({recorded(store, run).repair for _ in range(2)}) == 2


def test_a_repair_outlives_its_run(store: Store) -> None:
    audit = new_audit()
    run = ended(store, audit)
    made = use.record(store, run[:12], kind="bootstrap", note="copied anew", who="ops")
    assert (made.run, made.audit) == (run, audit)
    ended(store, audit)
    retention.prune(store, runs=1, days=None, now=T0)
    with pytest.raises(UnknownRun):
        use.record(store, run, kind="other", note="too late", who="ops")
    assert repairs.find(store, made.repair) == made
    assert use.of_run(store, run) == [made]
    for unknown in (run[:12], "0" * 32):
        with pytest.raises(UnknownRun):
            use.of_run(store, unknown)


def test_an_upgrade_that_was_ended_after_the_index_goes_on(make_url: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    url = make_url()
    with monkeypatch.context() as before:
        before.setattr(_migrate, "HEAD", "0002")
        before.setattr(command, "upgrade", lambda config, _: upgrade(config, "0002"))
        store = open_store(url)
    assert not sa.inspect(store.engine).get_indexes("auditor_repairs")
    store.write(lambda connection: sa.Index("auditor_repairs_run_at", *_columns()).create(connection))
    store.close()
    store = open_store(url)
    assert [index["name"] for index in sa.inspect(store.engine).get_indexes("auditor_repairs")] == ["auditor_repairs_run_at"]
    assert recorded(store, "a run").run == "a run"
    store.close()


def _columns() -> list[sa.Column[Any]]:
    table = sa.Table("auditor_repairs", sa.MetaData(), sa.Column("run", sa.String(64)), sa.Column("at", sa.DateTime()))
    return list(table.columns)
