"""Holds of tables, on every database."""

from __future__ import annotations

import itertools
import time

import pytest

from auditor.store import Store, holds
from auditor.store.holds import Hold, HoldKey

_numbers = itertools.count()


@pytest.fixture
def key() -> HoldKey:
    """A hold of a table of its own: tests share the store."""
    return HoldKey(f"holds-{next(_numbers)}", "wh", "shop.orders", "first")


def other(key: HoldKey) -> HoldKey:
    return HoldKey(key.pipeline, key.target, key.table, "second")


def test_one_audit_at_a_time_holds_a_table(store: Store, key: HoldKey) -> None:
    assert holds.take_hold(store, key, 60) and not holds.take_hold(store, other(key), 60)
    assert holds.get_hold(store, key) == Hold("shop.orders", "first", "intent") and holds.get_hold(store, other(key)) is None
    assert holds.set_state(store, key, "frozen") and not holds.set_state(store, other(key), "frozen")
    assert holds.set_state(store, key, "wanted", position=77)
    assert holds.list_holds(store, key.pipeline, "wh") == {"shop.orders": Hold("shop.orders", "first", "wanted", 77)}
    assert holds.list_holds(store, key.pipeline, "another") == {}
    assert holds.set_state(store, key, "failed", reason="why")
    assert holds.get_hold(store, key) == Hold("shop.orders", "first", "failed", 77, "why")
    holds.end_hold(store, other(key))
    assert not holds.take_hold(store, other(key), 60)
    holds.end_hold(store, key)
    assert holds.get_hold(store, key) is None and holds.take_hold(store, other(key), 60)


def test_a_hold_ends_by_itself(store: Store, key: HoldKey) -> None:
    assert holds.take_hold(store, key, 0.05)
    while holds.list_holds(store, key.pipeline, "wh"):
        time.sleep(0.02)
    assert holds.get_hold(store, key) is None and not holds.set_state(store, key, "wanted", position=1)
    assert holds.take_hold(store, other(key), 60)


def test_for_how_long_tables_have_been_held(store: Store, key: HoldKey) -> None:
    assert holds.list_held_seconds(store, key.pipeline) == {}
    items = HoldKey(key.pipeline, "lake", "shop.items", "first")
    assert holds.take_hold(store, key, 60) and holds.take_hold(store, items, 60)
    assert holds.list_held_seconds(store, key.pipeline) == {}, "no loader has answered"
    assert holds.set_state(store, key, "frozen") and holds.set_state(store, items, "frozen")
    while not (found := holds.list_held_seconds(store, key.pipeline))["wh"]["shop.orders"]:
        time.sleep(0.02)
    assert found.keys() == {"wh", "lake"} and found["wh"].keys() == {"shop.orders"}
    assert holds.set_state(store, key, "wanted", position=7) and holds.set_state(store, key, "held")
    assert holds.list_held_seconds(store, key.pipeline)["wh"]["shop.orders"] >= found["wh"]["shop.orders"]
    holds.end_hold(store, key)
    assert holds.list_held_seconds(store, key.pipeline).keys() == {"lake"}
