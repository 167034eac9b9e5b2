"""Leases, on every database: of what one holder has at a time, of what belongs to a process, and how they are renewed and lost."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import replace

import pytest
import sqlalchemy as sa

from auditor.errors import AuditorError, LeaseTaken, StoreUnavailable
from auditor.store import Store, leases
from auditor.store.leases import Owner, this_process
from auditor.store.leases import leases as table

ONE, OTHER = Owner("one", 1, ""), Owner("one", 2, "")
PATIENCE = 30.0
_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """The name of something that nobody owns: tests share the store."""
    return f"leased-{next(_numbers)}"


def test_a_lease_is_held_by_one(store: Store, name: str) -> None:
    source: tuple[leases.Kind, str] = ("source", name)
    assert not leases.is_held(store, *source)
    leases.take_lease(store, *source, "a", 60, ONE)
    leases.take_lease(store, *source, "a", 60, ONE)
    assert leases.is_held(store, *source) and not leases.is_held(store, "target", name)
    with pytest.raises(LeaseTaken, match=r"it is taken by process 1 on one until \d\d:\d\d:\d\d UTC; stop that process"):
        leases.take_lease(store, *source, "b", 60, OTHER)
    leases.release_lease(store, *source, "b")
    with pytest.raises(LeaseTaken):
        leases.take_lease(store, *source, "b", 60, OTHER)
    leases.release_lease(store, *source, "a")
    leases.take_lease(store, *source, "b", -1, OTHER)
    assert not leases.is_held(store, *source), "it has run out"
    leases.take_lease(store, *source, "a", 60, ONE)


def test_a_lease_whose_process_has_ended_is_free(store: Store, name: str) -> None:
    alive = this_process()
    leases.take_lease(store, "target", name, "a", 60, replace(alive, started=f"{alive.started}0"))
    leases.take_lease(store, "target", name, "b", 60, alive)
    with pytest.raises(LeaseTaken, match=f"it is taken by process {alive.pid} on"):
        leases.take_lease(store, "target", name, "c", 60, alive)


@pytest.mark.quick_for("sqlite")
@pytest.mark.clock
def test_what_is_kept_is_renewed_and_given_back(store: Store, name: str) -> None:
    with leases.keep(store, "target", name, 0.6):
        deadline = time.monotonic() + 1.2
        while time.monotonic() < deadline:
            assert leases.is_held(store, "target", name)
        with pytest.raises(LeaseTaken), leases.keep(store, "target", name, 0.6):
            pass
    assert not leases.is_held(store, "target", name)


def test_what_another_process_took_is_lost_and_stays_its(store: Store, name: str) -> None:
    lost, told = list[AuditorError](), threading.Event()

    def note(error: AuditorError) -> None:
        lost.append(error)
        told.set()

    with leases.keep(store, "target", name, 1.2, note):
        theirs = table.update().where(table.c.name == name).values(holder="another", host="elsewhere")
        store.write(lambda connection: connection.execute(theirs) and None)
        leases.take_lease(store, "target", name, "another", 60, ONE)
        assert told.wait(PATIENCE) and isinstance(lost[0], LeaseTaken) and "taken by process 1 on one" in str(lost[0])
    assert leases.is_held(store, "target", name)


def test_what_cannot_be_renewed_in_time_is_lost() -> None:
    lost, told = list[AuditorError](), threading.Event()

    def renew() -> None:
        raise StoreUnavailable("the store is gone")

    def note(error: AuditorError) -> None:
        lost.append(error)
        told.set()

    with leases.Renewal("lease", renew, 0.01, note, lasts=0.05):
        assert told.wait(PATIENCE) and str(lost[0]) == "the store is gone"
    lost.clear()
    with leases.Renewal("lease", renew, 0.001, note) as endless:
        while endless.last_error is None:
            time.sleep(0.001)
    assert not lost, "it does not run out"


def test_a_lease_of_a_process_is_renewed_by_it_alone_and_taken_away_once(store: Store, name: str) -> None:
    store.write(lambda connection: leases.assign(connection, "patch", name, 60))
    mine = _read(store, name)
    assert mine.owner == this_process() and mine.judge(mine.heartbeat) == "alive"
    assert store.write(lambda connection: leases.renew(connection, "patch", name, 60))
    assert not store.write(lambda connection: leases.take_away(connection, mine)), "it was renewed since"
    _set(store, name, host="elsewhere")
    assert not store.write(lambda connection: leases.renew(connection, "patch", name, 60))
    theirs = _read(store, name)
    assert [theirs.judge(at) for at in (theirs.until, theirs.until.max.replace(tzinfo=theirs.until.tzinfo))] == ["alive", "dead"]
    assert replace(theirs, heartbeat=theirs.until).judge(theirs.heartbeat) == "ahead"
    assert store.write(lambda connection: leases.take_away(connection, theirs))
    assert not store.write(lambda connection: leases.take_away(connection, theirs))
    with store.reading() as connection:
        assert leases.describe_owner(connection, "patch", name) == "another process"


def _read(store: Store, name: str) -> leases.Lease:
    with store.reading() as connection:
        return leases.find_leases(connection, "patch", [name])[name]


def _set(store: Store, name: str, **values: object) -> None:
    store.write(lambda connection: connection.execute(sa.update(table).where(table.c.name == name).values(**values)) and None)
