"""Stored repairs, on every database."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from auditor.api_models.repair import Repair
from auditor.errors import ConfigError, StoreError, UnknownRepair, UnknownRun
from auditor.service import repairs as use
from auditor.store import Store, events, pruning, repairs
from auditor.store.repairs import repairs as table
from tests.store.samples import T0, add_finished_run, new_audit_name

SQL = "x'; DROP TABLE auditor_repairs; -- naïve 🙂 \0"


def record(store: Store, run: str, note: str = "patched", **more: Any) -> Repair:
    return repairs.record_repair(store, **{"run": run, "audit": "a", "kind": "patch", "note": note, "who": "ops", **more})


def events_of(store: Store, run: str) -> list[tuple[str, str, dict[str, Any]]]:
    return [(one.actor, one.action, one.detail) for one in events.list_events(store, limit=1000) if one.subject == run]


def test_repair_is_stored_unchanged_with_its_event(store: Store) -> None:
    run, keys = uuid.uuid4().hex, [{"id": str(2**64), "text": SQL}, {"id": None, "text": ""}]
    made = record(store, run, SQL, rows=2**40, keys=keys)
    assert repairs.get_repair(store, made.repair) == made
    assert (made.note, made.rows, made.keys, made.recorded_by, made.kind, made.state) == (SQL, 2**40, keys, "ops", "patch", "recorded")
    assert made.recorded_at.tzinfo
    assert events_of(store, run) == [("ops", "repair recorded", {"audit": "a", "repair": made.repair, "kind": "patch", "rows": 2**40})]
    for unknown in ("", made.repair[:8], made.repair.upper() + "x", SQL.replace("\0", "")):
        with pytest.raises(UnknownRepair):
            repairs.get_repair(store, unknown)


def test_repair_is_rolled_back_without_its_event(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StoreError("the events cannot be written")

    run = uuid.uuid4().hex
    with monkeypatch.context() as failing:
        failing.setattr(events, "insert_event", fails)
        with pytest.raises(StoreError):
            record(store, run)
    assert repairs.list_repairs(store, run) == []


def test_repairs_are_listed_by_run_newest_first(store: Store) -> None:
    mine, other = uuid.uuid4().hex, uuid.uuid4().hex
    made = [record(store, mine, str(n)) for n in range(5)]
    record(store, other)
    # Repairs of the same time are ordered by their ids, so that no page skips one.
    same = sa.update(table).where(table.c.run == mine, table.c.id != made[0].repair)
    store.write(lambda connection: connection.execute(same.values(at=made[4].recorded_at)) and None)
    whole = repairs.list_repairs(store, mine)
    assert [one.note for one in whole][-1] == "0" and len(whole) == 5
    pages, before = list[Repair](), None
    while page := repairs.list_repairs(store, mine, limit=2, before=before):
        pages, before = pages + page, page[-1].repair
    assert pages == whole
    with pytest.raises(UnknownRepair):
        repairs.list_repairs(store, mine, before="0" * 32)


def test_idempotency_key_records_one_repair(store: Store) -> None:
    run = uuid.uuid4().hex
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: record(store, run, keys=[{"id": "1"}], idempotency_key="key"), range(4)))
    assert len({one.repair for one in made}) == 1 and repairs.list_repairs(store, run) == [made[0]]
    assert len(events_of(store, run)) == 1
    differing: list[dict[str, Any]] = [{"note": "else"}, {"run": uuid.uuid4().hex}, {"rows": 1}, {"kind": "other"}]
    for otherwise in differing:
        with pytest.raises(ConfigError, match="was used for another repair"):
            record(store, **{"run": run, "keys": [{"id": "1"}], "idempotency_key": "key", **otherwise})
    assert record(store, run, who="somebody else", idempotency_key="key").repair != made[0].repair
    assert len({record(store, run).repair for _ in range(2)}) == 2


def test_repair_outlives_its_run(store: Store) -> None:
    audit = new_audit_name()
    run = add_finished_run(store, audit)
    made = use.record(store, run[:12], kind="bootstrap", note="copied again", who="ops")
    assert (made.run, made.audit) == (run, audit)
    add_finished_run(store, audit)
    pruning.prune(store, runs=1, days=None, now=T0)
    with pytest.raises(UnknownRun):
        use.record(store, run, kind="other", note="too late", who="ops")
    assert repairs.get_repair(store, made.repair) == made
    assert use.list_repairs(store, run) == [made]
    for unknown in (run[:12], "0" * 32):
        with pytest.raises(UnknownRun):
            use.list_repairs(store, unknown)
