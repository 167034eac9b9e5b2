"""Random histories of keys, through pipelines that are right or have faults: what is judged wrong is what no right pipeline could show."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

from auditor.compare.row_versions import NO_ROW, WRONG, Coverage, Version, judge
from auditor.pipeline.versions import files

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
AT_MOST = 30.0
STATES = (NO_ROW, 1, 2, 3, 4)
"""So few that a state often comes back."""
NEVER = 99
"""A state that no source has."""

FAULTS = (
    "none", "none", "none", "slow", "too slow", "lost update", "lost insert", "lost delete", "lost last", "lost all", "stale write",
    "wrong value", "value of another version", "rounded", "deleted in the target", "made in the target", "doubled", "doubled by a value",
    "resurrected", "before image", "edited and mended", "reordered",
)  # fmt: skip


@dataclass(frozen=True)
class Key:
    """Everything that ever happened to a key, and what a target shows of it."""

    first: int
    changes: tuple[Version, ...]
    shown: tuple[int, ...]
    now: float


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def states_of(key: Key) -> list[int]:
    return [key.first, *(change.after for change in key.changes)]


def draw(chance: random.Random) -> tuple[Key, str]:
    """Draw a history of a key, and what a pipeline with a fault, or none, made of it."""
    now, state = 1000.0, chance.choice(STATES)
    times = sorted(chance.choice((chance.uniform(0, now), chance.uniform(now - 2 * AT_MOST, now))) for _ in range(chance.randint(0, 8)))
    changes, first = list[Version](), state
    for number, time in enumerate(times):
        after = chance.choice([other for other in STATES if other != state])
        changes.append(Version(number + 1, at(time), state, after))
        state = after
    fault = chance.choice(FAULTS)
    shown = show(chance, Key(first, tuple(changes), (), now), fault)
    return Key(first, tuple(changes), shown, now), fault


def show(chance: random.Random, key: Key, fault: str) -> tuple[int, ...]:
    """Return the rows that a target has of a key."""
    longest = {"slow": AT_MOST, "too slow": 20 * AT_MOST}.get(fault, AT_MOST * chance.random())
    arrived = [change for change in key.changes if change.time <= at(key.now - chance.uniform(0, longest))]
    arrived = list(key.changes[: max((change.position for change in arrived), default=0)])  # in order, so that none overtakes another
    must = sum(change.time < at(key.now - AT_MOST) for change in key.changes)
    if fault != "too slow" and len(arrived) < must:
        arrived = list(key.changes[:must])
    lost = {"lost update": (1, 1), "lost insert": (0, 1), "lost delete": (1, 0), "lost last": None, "lost all": None}
    if fault == "lost all":
        arrived = []
    elif fault == "lost last":
        arrived = arrived[:-1]
    elif fault in lost:
        arrived = [change for change in arrived if (change.before != NO_ROW, change.after != NO_ROW) != lost[fault]]
    state = arrived[-1].after if arrived else key.first
    if fault in ("stale write", "reordered", "before image", "resurrected") and arrived:
        state = {
            "stale write": chance.choice(states_of(key)[: len(arrived)]),
            "reordered": arrived[-2].after if len(arrived) > 1 else key.first,
            "before image": arrived[-1].before,
            "resurrected": next((one.before for one in reversed(arrived) if one.after == NO_ROW), state),
        }[fault]
    state = {
        "wrong value": NEVER,
        "rounded": NEVER if state != NO_ROW else state,
        "value of another version": chance.choice(STATES),
        "deleted in the target": NO_ROW,
        "made in the target": NEVER if state == NO_ROW else state,
    }.get(fault, state)
    rows: tuple[int, ...] = () if state == NO_ROW else (state,)
    if rows and fault in ("doubled", "doubled by a value"):
        rows = (*rows, rows[0] if fault == "doubled" else chance.choice(STATES[1:]))
    return rows


def possible(key: Key) -> set[int]:
    """Return the states that a right pipeline can show: those after any number of the changes, at least all that are old enough."""
    return {
        states_of(key)[count]
        for count in range(len(key.changes) + 1)
        if not any((at(key.now) - change.time).total_seconds() > AT_MOST for change in key.changes[count:])
    }


def judged(key: Key, begins: float) -> str:
    known = [change for change in key.changes if change.time > at(begins)]
    source = states_of(key)[-1]
    rows: Sequence[int] = () if source == NO_ROW else (source,)
    return judge(known, rows, key.shown, Coverage(at(begins), at(key.now), AT_MOST)).kind


def test_what_is_wrong_is_what_no_right_pipeline_could_show() -> None:
    chance, counted, wrong = random.Random(7), Counter[str](), Counter[str]()
    for _ in range(20_000):
        key, fault = draw(chance)
        is_right = len(key.shown) < 2 and (key.shown[0] if key.shown else NO_ROW) in possible(key)
        begins = key.now - chance.uniform(AT_MOST + 0.001, 1000)
        kind = judged(key, begins)
        assert (kind in WRONG) == (not is_right), (key, fault, begins, kind)
        assert kind != "untold"
        assert kind != "unlogged"
        counted[fault] += 1
        wrong[fault] += not is_right
    assert all(counted[fault] > 300 for fault in FAULTS)
    assert not wrong["none"] + wrong["slow"] + wrong["edited and mended"]
    assert all(wrong[fault] for fault in set(FAULTS) - {"none", "slow", "edited and mended"})


def test_nothing_is_claimed_of_what_a_young_history_does_not_know() -> None:
    chance, untold = random.Random(8), 0
    for _ in range(10_000):
        key, fault = draw(chance)
        begins = key.now - chance.uniform(0, AT_MOST)
        kind = judged(key, begins)
        is_right = len(key.shown) < 2 and (key.shown[0] if key.shown else NO_ROW) in possible(key)
        assert kind not in WRONG or not is_right, (key, fault, begins, kind)
        assert kind not in ("current", "in_flight") or is_right, (key, fault, begins, kind)
        untold += kind == "untold"
    assert untold


def test_a_wrong_row_does_not_stay_in_flight() -> None:
    changes = (Version(1, at(0), NO_ROW, 1), Version(2, at(10), 1, 2))
    kinds = [judge(changes, (2,), (1,), Coverage(at(-100), at(10 + age), AT_MOST)) for age in (0, 2, AT_MOST, AT_MOST + 0.1, 1000)]
    assert [found.kind for found in kinds] == ["in_flight", "in_flight", "in_flight", "late", "late"]
    assert (kinds[1].age, kinds[1].since, kinds[1].next) == (2, at(0), changes[1])


def test_what_the_log_does_not_say_is_wrong() -> None:
    changes = (Version(1, at(0), 1, 2),)
    of = Coverage(at(-100), at(100), AT_MOST)
    assert judge(changes, (3,), (2,), of).kind == "unlogged"  # a value that no change left
    assert judge(changes, (1,), (2,), of).kind == "unlogged"  # the older value, though the newer one was committed long ago
    assert judge(changes, (), (2,), of).kind == "unlogged"
    assert judge(changes, (1,), (2,), Coverage(at(-100), at(3), AT_MOST)).kind == "current"  # read before the change was visible
    assert judge((), (3,), (), of).kind == "foreign"


def test_a_row_that_is_newer_than_the_source_was_read_is_right() -> None:
    changes = (Version(1, at(0), 1, 2), Version(2, at(99), 2, NO_ROW))
    assert judge(changes, (2,), (), Coverage(at(-100), at(100), AT_MOST)).kind == "current"


@pytest.mark.parametrize(("changes_of_a_key", "most"), [(1, 28), (10, 24), (1000, 24)])
def test_a_version_takes_few_bytes(changes_of_a_key: int, most: float) -> None:
    """A version has the hash of its row, of its key, and, if it is the key's first in the file, of the row before."""
    count, chance = 20_000, random.Random(5)
    keys = [chance.getrandbits(63) for _ in range(count // changes_of_a_key)]
    states = dict.fromkeys(keys, 0)
    rows = []
    for number in range(count):
        key = chance.choice(keys) if changes_of_a_key > 1 else keys[number]
        before, states[key] = states[key] or chance.getrandbits(63), chance.getrandbits(63)
        rows.append((key, before, states[key], number * 100 + chance.randrange(100), 1_000_000_000_000_000 + number * 1000))
    versions = pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=files.SCHEMA.names).cast(files.SCHEMA)
    content = files.pack(versions)
    assert files.unpack(content).equals(versions)
    assert 8 < len(content) / count < most
