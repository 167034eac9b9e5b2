"""Statements at once over all processes, on every database."""

from __future__ import annotations

import threading
import time
import uuid

from auditor.store import Store, open_store, slots
from tests.store.samples import new_audit


def taken(store: Store, name: str, most: int, holder: str = "", seconds: float = 30.0) -> str:
    holder = holder or uuid.uuid4().hex
    return holder if slots.take(store, name, most, holder, seconds) else ""


def test_there_are_never_more_than_allowed(store: Store) -> None:
    name, other = new_audit(), new_audit()
    first, second = taken(store, name, 2), taken(store, name, 2)
    assert first and second and not taken(store, name, 2) and taken(store, other, 2)
    slots.release(store, name, first)
    slots.release(store, name, first)
    time.sleep(3.1)  # whoever asked and went away does not stand in line for ever
    assert taken(store, name, 2) and not taken(store, name, 2)


def test_who_came_first_is_first(store: Store) -> None:
    name = new_audit()
    holder = taken(store, name, 1)
    line = ["first", "second", "third"]
    assert [taken(store, name, 1, one) for one in line] == [""] * 3
    slots.release(store, name, holder)
    assert [taken(store, name, 1, one) for one in ("new", "third", "second", "first")] == ["", "", "", "first"]
    slots.release(store, name, "first")
    slots.release(store, name, "second")  # it was stopped while it stood in line
    assert [taken(store, name, 1, one) for one in ("new", "third")] == ["", "third"]


def test_a_slot_whose_holder_is_silent_is_free_again(store: Store) -> None:
    name = new_audit()
    silent, alive = taken(store, name, 2, seconds=0.5), taken(store, name, 2, seconds=0.5)
    assert slots.renew(store, alive, 30.0)
    time.sleep(0.6)
    another = taken(store, name, 2)
    assert another and not taken(store, name, 2)
    assert not slots.renew(store, silent, 30.0)
    slots.release(store, name, silent)
    assert slots.renew(store, another, 30.0) and not taken(store, name, 2)


def test_many_at_once(store: Store, url: str) -> None:
    """Two engines, as of two processes, with four threads each."""
    name, most, done = new_audit(), 3, [0]
    stores = [store, open_store(url)]
    lock, inside, highest = threading.Lock(), [0], [0]

    def work(mine: Store) -> None:
        for _ in range(3):
            holder = uuid.uuid4().hex
            while not slots.take(mine, name, most, holder, 30.0):
                time.sleep(0.05)
            with lock:
                inside[0] += 1
                highest[0] = max(highest[0], inside[0])
            time.sleep(0.15)
            with lock:
                inside[0] -= 1
                done[0] += 1
            slots.release(mine, name, holder)

    threads = [threading.Thread(target=work, args=(stores[number % 2],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stores[1].close()
    assert done == [24] and highest == [most]
