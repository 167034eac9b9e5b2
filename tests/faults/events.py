"""Faults of events between decoding and staging: these are lost, doubled or moved, or their values are changed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from tests.faults.load import PROBE, PROBES
from tests.faults.world import Events, World

Inject = Callable[[World], None]

Way = Callable[..., Inject]

LOST = PROBE + 1
"""The row whose event is lost, among other events of its transaction."""

COLUMNS = ("id", "item", "city", "note", "amount", "weight", "moved")

CHANGED = (
    "item = 'Zoë buys 12 crates of apples and a longer text', city = 'Köln', note = '', amount = 12.345, weight = 0.1e0 + 0.2e0,"
    " moved = '2026-11-23 12:34:56.789012'"
)
"""What the update that most faults hit makes of a row: a value in each column that its fault does something to."""


def in_decoding(misread: Callable[[Events], Events], *statements: str) -> Callable[[World], None]:
    """Return the fault that lets the events of these statements be decoded wrongly."""

    def inject(world: World) -> None:
        world.misread = misread
        world.strike(*(one.format(table=world.table) for one in statements))
        world.misread = None

    return inject


def on_the_way(mangle: Callable[[Events], Events], *statements: str) -> Callable[[World], None]:
    """Return the fault that does something to the events of these statements between decoding and staging."""

    def inject(world: World) -> None:
        world.mangle = mangle
        world.strike(*(one.format(table=world.table) for one in statements))
        world.mangle = None
        if world.is_stopped:  # as a supervisor starts it again, and the fault is gone
            world.go_on()

    return inject


def in_value(column: str, change: Callable[[str], str | None], through: Way = on_the_way) -> Callable[[World], None]:
    """Return the fault that changes the value of a column in the row after an update."""

    def mangle(events: Events) -> Events:
        for event in events:
            if is_hit(event):
                event["after"] = [change(text) if name == column else text for name, text in zip(COLUMNS, event["after"], strict=True)]
        return events

    return through(mangle, f"UPDATE {{table}} SET {CHANGED} WHERE id = {PROBE}")


def swap(one: str, other: str) -> Callable[[Events], Events]:
    """Return what swaps two columns of a row after its change."""
    first, second = COLUMNS.index(one), COLUMNS.index(other)

    def mangle(events: Events) -> Events:
        for event in events:
            if is_hit(event):
                after = list(event["after"])
                after[first], after[second] = after[second], after[first]
                event["after"] = after
        return events

    return mangle


def drop(events: Events) -> Events:
    """Leave out all rows of a batch."""
    return [event for event in events if event["kind"] == "schema"] if any(map(is_hit, events)) else events


def double(events: Events) -> Events:
    """Have all rows of a batch twice."""
    rows = [event for event in events if event["kind"] != "schema"]
    return events + rows if any(map(is_hit, events)) else events


def lose(events: Events) -> Events:
    """Leave out the events of one of the faults' rows."""
    return [event for event in events if not is_hit(event) or key_of(event) != LOST]


def reorder(events: Events) -> Events:
    """Let two events of one row change places."""
    hit = [event for event in events if is_hit(event)]
    if hit:
        places = [(event["position"], event["row"]) for event in hit]
        for event, (position, row) in zip(hit, reversed(places), strict=True):
            event["position"], event["row"] = position, row
    return events


def is_hit(event: dict[str, Any]) -> bool:
    """Return whether an event is of one of the rows that belong to the faults."""
    return event["kind"] != "schema" and PROBE <= key_of(event) < PROBE + PROBES


def key_of(event: dict[str, Any]) -> int:
    """Return the key of an event's row."""
    return int((event["after"] or event["before"])[0])


def an_hour_later(text: str) -> str:
    """Return a time an hour later."""
    return f"{dt.datetime.fromisoformat(text) + dt.timedelta(hours=1):%Y-%m-%d %H:%M:%S.%f}"
