"""Which runs ended since the last look: each is told once, whichever process carried it out, and whatever the clocks say."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from auditor.api import endings
from auditor.api.endings import Endings
from auditor.store import Store, open_store, queue, runs
from auditor.store._schema import runs as table
from tests.store.samples import DONE, FAILED, T0, begun, new_audit

LONG_AGO = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


def told(found: Endings) -> list[str]:
    return [one.run for one in found.new()]


def change(store: Store, run: str, **values: object) -> None:
    store.write(lambda c: c.execute(table.update().where(table.c.run == run).values(**values)) and None)


def test_only_those_that_end_from_now_on(store: Store) -> None:
    before, open_ = begun(store, new_audit()), begun(store, new_audit())
    runs.finish(store, before, DONE)
    found = Endings(store, dt.datetime.now(dt.UTC))
    after = begun(store, new_audit())
    runs.finish(store, after, DONE)
    assert told(found) == [after]
    runs.finish(store, open_, DONE)
    assert told(found) == [open_]
    assert told(found) == []


def test_a_store_that_was_empty(store: Store) -> None:
    found = Endings(store, dt.datetime.now(dt.UTC))
    assert told(found) == []
    one = begun(store, new_audit())
    runs.finish(store, one, DONE)
    change(store, one, ended=LONG_AGO)  # as by the clock of another machine
    assert told(found) == [one] and told(found) == []


def test_two_that_end_in_one_moment(store: Store) -> None:
    found = Endings(store, T0)
    first, second = begun(store, new_audit()), begun(store, new_audit())
    runs.finish(store, first, DONE)
    change(store, first, ended=T0)
    assert told(found) == [first]
    runs.finish(store, second, DONE)
    change(store, second, ended=T0)
    assert told(found) == [second] and told(found) == []


def test_one_that_ended_long_before_it_was_found(store: Store) -> None:
    lost, others = begun(store, new_audit()), [begun(store, new_audit()) for _ in range(endings.LATE + 5)]
    found = Endings(store, dt.datetime.now(dt.UTC))
    for one in others:
        runs.finish(store, one, DONE)
    assert told(found) == others
    change(store, lost, pid=1, heartbeat=LONG_AGO)  # its process was killed, and nobody looked
    runs.recover(store)
    assert runs.find(store, lost).ended == LONG_AGO
    assert told(found) == [lost] and told(found) == []


def test_one_that_goes_on_and_ends_again_between_two_looks(store: Store) -> None:
    found = Endings(store, T0)
    one = begun(store, new_audit())
    runs.pin(store, one, plan=b"plan", schema={})
    runs.finish(store, one, FAILED)
    assert told(found) == [one]
    for _ in range(endings.LATE + 5):
        runs.finish(store, begun(store, new_audit()), DONE)
    told(found)
    queue.requeue(store, one, 10)
    assert queue.claim(store)
    runs.finish(store, one, DONE)
    assert told(found) == [one] and told(found) == []


def test_one_that_is_committed_after_a_later_one(store: Store) -> None:
    found = Endings(store, T0)
    first, second = begun(store, new_audit()), begun(store, new_audit())
    for one in (first, second):
        runs.finish(store, one, DONE)
    with store.reading() as connection:
        row = dict(connection.execute(table.select().where(table.c.run == first)).one()._mapping)
    store.write(lambda c: c.execute(table.delete().where(table.c.run == first)) and None)
    assert told(found) == [second]
    store.write(lambda c: c.execute(table.insert().values(**row)) and None)
    assert told(found) == [first] and told(found) == []


def test_numbers_that_are_given_again(store: Store) -> None:
    found = Endings(store, T0)
    keep = begun(store, new_audit())
    runs.finish(store, keep, DONE)
    for _ in range(2 * endings.LATE):
        runs.finish(store, begun(store, new_audit()), DONE)
    assert len(told(found)) == 2 * endings.LATE + 1
    store.write(lambda c: c.execute(table.delete().where(table.c.run != keep)) and None)
    again = begun(store, new_audit())
    runs.finish(store, again, DONE)
    assert told(found) == [again] and told(found) == []


def test_one_that_its_reader_fails_on_is_told_again(store: Store) -> None:
    found = Endings(store, T0)
    first, second = begun(store, new_audit()), begun(store, new_audit())
    for one in (first, second):
        runs.finish(store, one, DONE)
    seen = found.new()
    assert next(seen).run == first
    assert next(seen).run == second
    seen.close()  # as if the second could not be counted
    assert told(found) == [second]


def test_a_look_reads_nothing_of_what_ended_before(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3 * endings.LATE):
        runs.finish(store, begun(store, new_audit()), DONE)
    found = Endings(store, T0)
    assert len(told(found)) == 3 * endings.LATE
    looked: list[int] = []
    endings_ = runs.endings

    def counted(*arguments: object) -> list[runs.Ending]:
        rows = endings_(*arguments)  # type: ignore[arg-type]
        looked.append(len(rows))
        return rows

    monkeypatch.setattr(runs, "endings", counted)
    monkeypatch.setattr(runs, "find", lambda *_: pytest.fail("a run was read again"))
    assert told(found) == [] and looked == [endings.LATE]
    with store.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() == 3 * endings.LATE
