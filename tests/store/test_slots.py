"""Slots for concurrent statements over all processes, on every database."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from sqlalchemy import Delete, Table, delete

from auditor.store import Store, database, leases, open_store
from tests.durations import SetDurations
from tests.store.samples import new_audit_name

pytestmark = pytest.mark.clock


def take(store: Store, name: str, most: int, holder: str = "", seconds: float = 30.0) -> str:
    holder = holder or uuid.uuid4().hex
    return holder if leases.take_slot(store, name, most, holder, seconds) else ""


@pytest.mark.quick_for("sqlite", "postgres")
def test_slots_never_exceed_the_limit(store: Store, set_durations: SetDurations) -> None:
    set_durations(slot_waiter=0.5)
    name, other = new_audit_name(), new_audit_name()
    first, second = take(store, name, 2), take(store, name, 2)
    assert first and second and not take(store, name, 2) and take(store, other, 2)
    leases.release_slot(store, name, first)
    leases.release_slot(store, name, first)
    time.sleep(0.6)  # a waiting holder that stops asking loses its place
    assert take(store, name, 2) and not take(store, name, 2)


def test_slots_are_given_in_order_of_arrival(store: Store) -> None:
    name = new_audit_name()
    holder = take(store, name, 1)
    line = ["first", "second", "third"]
    assert [take(store, name, 1, one) for one in line] == [""] * 3
    leases.release_slot(store, name, holder)
    assert [take(store, name, 1, one) for one in ("new", "third", "second", "first")] == ["", "", "", "first"]
    leases.release_slot(store, name, "first")
    leases.release_slot(store, name, "second")  # it stopped waiting
    assert [take(store, name, 1, one) for one in ("new", "third")] == ["", "third"]


@pytest.mark.quick_for("sqlite")
def test_slot_that_is_not_renewed_expires(store: Store) -> None:
    name = new_audit_name()
    silent, alive = take(store, name, 2, seconds=0.5), take(store, name, 2, seconds=0.5)
    assert leases.renew_slot(store, name, alive, 30.0)
    time.sleep(0.6)
    another = take(store, name, 2)
    assert another and not take(store, name, 2)
    assert not leases.renew_slot(store, name, silent, 30.0)
    leases.release_slot(store, name, silent)
    assert leases.renew_slot(store, name, another, 30.0) and not take(store, name, 2)


@pytest.mark.quick_for("sqlite", "postgres")
def test_concurrent_holders_of_two_engines(store: Store, url: str) -> None:
    """Two stores, as in two processes, with four threads each."""
    name, most, done = new_audit_name(), 3, [0]
    stores = [store, open_store(url)]
    lock, inside, highest, full = threading.Lock(), [0], [0], threading.Event()

    def work(mine: Store) -> None:
        for _ in range(3):
            holder = uuid.uuid4().hex
            while not leases.take_slot(mine, name, most, holder, 30.0):
                time.sleep(0.05)
            with lock:
                inside[0] += 1
                highest[0] = max(highest[0], inside[0])
                if inside[0] >= most:
                    full.set()
            full.wait(30)  # the first ones stay until as many as may are inside
            time.sleep(0.05)
            with lock:
                inside[0] -= 1
                done[0] += 1
            leases.release_slot(mine, name, holder)

    threads = [threading.Thread(target=work, args=(stores[number % 2],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stores[1].close()
    assert done == [24] and highest == [most]


def test_holders_that_queue_at_once_get_places_or_ask_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen the same last place before either takes it; the second has to ask again, and gets the next one."""
    name, holders = new_audit_name(), [uuid.uuid4().hex for _ in range(2)]
    assert leases.take_slot(store, name, 1, "first", 30.0)
    together = threading.Barrier(len(holders))

    def delete_together(table: Table) -> Delete:
        with suppress(threading.BrokenBarrierError):  # SQLite lets one in at a time
            together.wait(1.0)
        return delete(table)

    monkeypatch.setattr(leases, "delete", delete_together)
    monkeypatch.setattr(database, "retry_conflicts", lambda write, work: write(work))  # it gives up after some attempts
    with ThreadPoolExecutor(len(holders)) as pool:
        assert list(pool.map(lambda holder: leases.take_slot(store, name, 1, holder, 30.0), holders)) == [False, False]
    monkeypatch.undo()
    assert not any(leases.take_slot(store, name, 1, holder, 30.0) for holder in holders)
    leases.release_slot(store, name, "first")
    assert sum(leases.take_slot(store, name, 1, holder, 30.0) for holder in holders) == 1
