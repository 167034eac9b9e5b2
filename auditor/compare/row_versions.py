"""Decide of a row that differs whether it is in flight or wrong, by the versions that the source's log says its key had.

**The rule.** The versions of a key are the states that its changes left, and the state before the first of them; that no row is there is a
state, too. A state is *superseded* when the next change was committed.

- A target's state that is the newest version is right: the sides were read at different moments.
- One that is an older version is *in flight* for as long as it was superseded at most ``at_most`` seconds ago: the next change may still
  arrive. After that it is wrong: that change never came. If the state is several versions, it is taken for the newest of them.
- One that is no version is wrong, once the history reaches back for more than ``at_most``: the source did not hold it since the history
  begins, and what it held before must have been replaced by now. Before that nothing can be told.
- Several rows of one key are wrong: the source cannot have held them.
- The source's own state has to be a version that was not superseded for longer than ``at_most``. Otherwise the log does not say how the row
  became what it is, and nothing that is on its way can make the target equal: the difference is wrong, too.

So no row is in flight for longer than ``at_most``, and none is wrong that arrives within it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["current", "in_flight", "late", "foreign", "doubled", "unlogged", "untold"]
"""``late``: an older version, for too long. ``foreign``: no version. ``untold``: the history does not reach back far enough."""

WRONG: frozenset[Kind] = frozenset({"late", "foreign", "doubled", "unlogged"})

NO_ROW = -1
"""The state of a key that has no row; the others are the first 60 bits of the row's hash."""


@dataclass(frozen=True, slots=True)
class Version:
    """A change of a key's row."""

    position: int
    time: dt.datetime
    """When the source committed it."""
    before: int
    after: int
    """The states that it replaced and left."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a row that differs."""

    kind: Kind
    since: dt.datetime | None = None
    """When the version was made that the target holds; None if that is not known."""
    next: Version | None = None
    """The change that did not arrive, if the target holds an older version."""
    age: float = 0.0
    """For how long it has not arrived, in seconds."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a history says of every key, as of a moment."""

    begins: dt.datetime
    """It has every change that was committed later."""
    now: dt.datetime
    """The source's clock before the rows were read."""
    at_most: float
    """Seconds that a change may take to arrive."""

    def age(self, time: dt.datetime) -> float:
        """Return how many seconds ago a moment was."""
        return max(0.0, (self.now - time).total_seconds())


def judge(versions: Sequence[Version], source: Sequence[int], target: Sequence[int], coverage: Coverage) -> Judgement:
    """Return what became of a key's rows that differ.

    ``versions`` are the key's changes in the order of the source, up to a place of its log that ends behind all that both sides show.
    ``source`` and ``target`` are the states of the rows that were read of it, none if there is none. Without a change of the key, the
    source has held its state since the history begins.
    """
    if len(target) > 1:
        return Judgement("doubled")
    held, true = (states[0] if states else NO_ROW for states in (target, source))
    base = versions[0].before if versions else true
    if _is_unlogged(versions, base, true, coverage):
        return Judgement("unlogged")
    place = _newest(versions, base, held)
    if place is None:
        return Judgement("foreign" if coverage.age(coverage.begins) > coverage.at_most else "untold")
    if place == len(versions):
        return Judgement("current")
    missed, since = versions[place], versions[place - 1].time if place else None
    age = coverage.age(missed.time)
    return Judgement("in_flight" if age <= coverage.at_most else "late", since, missed, age)


def _newest(versions: Sequence[Version], base: int, state: int) -> int | None:
    """Return after how many of the changes the key was in a state last; None if it never was."""
    for place in range(len(versions), 0, -1):
        if versions[place - 1].after == state:
            return place
    return 0 if state == base else None


def _is_unlogged(versions: Sequence[Version], base: int, true: int, coverage: Coverage) -> bool:
    """Return whether the source's state is not what the changes say of it."""
    place = _newest(versions, base, true)
    if place is None:
        return True
    return place < len(versions) and coverage.age(versions[place].time) > coverage.at_most
