"""Random settings of an audit of random tables, as they are written and as the oracle reads them."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from tests.deep.columns import MOMENT
from tests.deep.conditions import Condition, draw_condition
from tests.deep.tables import MOVED, World, can_store

METHODS = ("counts", "signature", "minhash", "exact")
LAG = "1h"

LARGEST_KEY = 2**64 - 1
"""The largest key that a slice may have."""


@dataclass(frozen=True)
class Features:
    """The settings of one run."""

    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Further settings of the audit, as they are written."""
    condition: Condition | None = None
    settles: str = ""
    """What settle does with rows without a time, ``compare`` or ``leave_out``; empty without settle."""
    rechecks: bool = False
    tolerances: dict[int, tuple[str, float]] = field(default_factory=dict)
    """By column: ``absolute``, ``relative`` or ``time``, and how much."""
    folds: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By column: ``trim``, ``case``, ``null_as``, ``round`` or ``kind``."""
    masks: frozenset[int] = frozenset()
    excludes: frozenset[int] = frozenset()
    keys: tuple[int | None, int | None] | None = None
    """The slice by the key, both ends inclusive."""
    times: tuple[dt.datetime | None, dt.datetime | None] | None = None
    """The slice by ``timed``, without its end."""
    timed: int | None = None
    """The column of the partitions by time, or the one that settles rows."""
    place: str = "plain"
    """``plain``, ``shards``, ``dump`` (source to dump), ``target`` (dump to target), or ``rolling``."""
    rows_allowed: int | None = None
    """The threshold by rows."""
    words: frozenset[str] = frozenset()
    """The features that are used, by name, for counting pairs of them."""

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """Return the pairs of features of this run."""
        return set(combinations(sorted(self.words), 2))


def draw_features(chance: random.Random, world: World) -> Features:
    """Return settings that fit a world's tables; those that cannot be combined are not."""
    words = {chance.choices(METHODS, [15, 20, 15, 50])[0]}
    (method,) = words
    settings: dict[str, Any] = {"method": method}
    place = chance.choices(["plain", "shards", "dump", "target", "rolling"], [64, 10, 6, 6, 14])[0]
    if place in ("dump", "target") and not all(can_store("duckdb", column.pair[0]) for column in world.columns):
        place = "plain"
    if place == "rolling" and (method == "counts" or not _may_roll(world)):
        place = "plain"
    settles = ""
    if world.moved is not None and chance.random() < 0.6:
        settles = chance.choice(["compare", "leave_out"])
        settings["settle"] = {"column": world.columns[world.moved].name, "lag": LAG, "nulls": settles}
    excludes = frozenset(index for index in range(world.keys, len(world.columns)) if index != world.moved and chance.random() < 0.06)
    if len(world.columns) - len(excludes) == world.keys:
        excludes = frozenset()
    condition = draw_condition(chance, world) if chance.random() < 0.35 else None
    if condition:
        settings["where"] = condition.text
    rows_allowed = chance.randint(0, 4) if method == "exact" and place == "plain" and chance.random() < 0.1 else None
    if rows_allowed is not None:
        settings["threshold"] = {"rows": rows_allowed}
    rechecks = method == "exact" and chance.random() < 0.25
    if rechecks:
        settings["recheck"] = {"times": chance.randint(1, 3), "wait": 0, "backoff": 1}
    timed, partition = _draw_partition(chance, world, method, place, excludes)
    if partition:
        settings["partition"] = partition
        words.add(f"partition {partition.get('strategy', 'sized')}")
    tolerances, folds, masks = _draw_rules(chance, world, excludes, timed)
    if place == "rolling" or partition.get("strategy") == "range":
        masks -= {0}
    keys, times = _draw_slice(chance, world, masks, timed if timed is not None else world.moved if settles else None, place)
    _draw_others(chance, settings, words, method)
    if excludes or tolerances or folds or masks:
        settings["columns"] = _columns(world, tolerances, folds, masks, excludes)
    words |= {word for word, used in (
        ("filter", condition), ("settle", settles), ("recheck", rechecks), ("tolerance", tolerances), ("fold", folds), ("mask", masks),
        ("exclude", excludes), ("slice", keys or times), ("threshold", rows_allowed is not None), (place, place != "plain"),
        ("captured names", world.is_taken), ("composite key", world.keys > 1), ("text key", world.columns[0].sort.name in ("word", "id")),
        ("NULL keys", any(None in row[: world.keys] for row in world.rows["source"])), ("keys twice", not world.is_unique),
    ) if used}  # fmt: skip
    return Features(
        method, settings, condition, settles, rechecks, tolerances, folds, masks, excludes, keys, times,
        timed if timed is not None else world.moved if settles else None, place, rows_allowed, frozenset(words),
    )  # fmt: skip


def _draw_partition(
    chance: random.Random, world: World, method: str, place: str, excludes: frozenset[int]
) -> tuple[int | None, dict[str, Any]]:
    """Return the column of partitions by time, if they are, and the settings of partitions."""
    if method == "counts":
        return None, {}
    if place == "rolling":
        return None, {"size": chance.choice([4, 16, 64])}
    dated = [
        index for index, column in enumerate(world.columns)
        if (column.sort in (MOVED,) or column.sort.name in ("moment", "day")) and column.pair[0] == column.pair[1] and index not in excludes
    ]  # fmt: skip
    if dated and chance.random() < 0.25:
        index = chance.choice(dated)
        units = ["day", "month"] if world.columns[index].sort.name == "day" else ["hour", "day", "month"]
        return index, {"strategy": "time", "column": world.columns[index].name, "unit": chance.choice(units)}
    drawn = chance.random()
    if drawn < 0.3:
        return None, {"strategy": "hash", "buckets": chance.choice([1, 2, 4, 16, 64])}
    if drawn < 0.6 and world.keys == 1 and world.columns[0].sort.name in ("whole", "unsigned") and _is_narrow(world):
        return None, {"strategy": "range", "size": chance.choice([2, 4, 16, 64, 1024])}
    if drawn < 0.75:
        return None, {"rows": chance.choice([4, 32, 128])}
    return None, {}


def _may_roll(world: World) -> bool:
    """Return whether a rolling audit of a world is possible: parts are ranges of a key of one integer column."""
    return world.keys == 1 and world.columns[0].sort.name in ("whole", "unsigned") and _is_narrow(world)


def _is_narrow(world: World) -> bool:
    """Return whether the keys' range has so few partitions that each can be listed."""
    found = [row[0] for rows in world.rows.values() for row in rows if row[0] is not None]
    return not found or max(found) - min(found) < 20_000


def _draw_rules(
    chance: random.Random, world: World, excludes: frozenset[int], timed: int | None
) -> tuple[dict[int, tuple[str, float]], dict[int, dict[str, Any]], frozenset[int]]:
    tolerances: dict[int, tuple[str, float]] = {}
    folds: dict[int, dict[str, Any]] = {}
    masks = set()
    for index, column in enumerate(world.columns):
        if index in excludes or index == timed:
            continue
        drawn = chance.random()
        if index < world.keys or column.sort is MOVED:
            masks |= {index} if drawn < 0.02 else set()
        elif column.sort.measure and drawn < 0.25 and world.is_unique:
            tolerances[index] = _draw_tolerance(chance, column.sort.measure)
        elif drawn < 0.32:
            masks.add(index)
        elif drawn < 0.45 and column.sort.name in ("free", "odd", "word"):
            folds[index] = chance.choice(
                [{"trim": True}, {"case": "lower"}, {"case": "upper", "trim": True}, {"null_as": ""}, {"null_as": "a"}]
            )
        elif drawn < 0.45 and column.sort.name in ("price", "exact") and column.pair[0] == column.pair[1]:
            folds[index] = {"round": chance.randint(0, 1)}
        elif drawn < 0.45 and column.sort.name == "moment" and column.pair == (MOMENT, MOMENT):
            folds[index] = {"kind": "timestamp(0)"}
    return tolerances, folds, frozenset(masks)


def _draw_tolerance(chance: random.Random, measure: str) -> tuple[str, float]:
    if measure == "time":
        return "time", chance.choice([0.001, 1, 60])
    return chance.choice([("absolute", 0.01), ("absolute", 1), ("absolute", 0.5), ("relative", 0.001), ("relative", 1e-9)])


def _draw_slice(
    chance: random.Random, world: World, masks: frozenset[int], timed: int | None, place: str
) -> tuple[tuple[int | None, int | None] | None, tuple[dt.datetime | None, dt.datetime | None] | None]:
    if place == "rolling" or chance.random() > 0.25:
        return None, None
    first = world.columns[0]
    if world.keys == 1 and first.sort.name in ("whole", "unsigned") and 0 not in masks and chance.random() < 0.7:
        ends = sorted(row[0] for row in world.rows["source"] if row[0] is not None) or [0]
        low, high = sorted([chance.choice(ends), chance.choice(ends)])
        return chance.choice([(low, high), (low, None), (None, high), (low + 1, min(high + 1, LARGEST_KEY))]), None
    if timed is None or timed in masks:
        return None, None
    moments = [row[timed] for row in world.rows["source"] if row[timed] is not None] or [world.now]
    times = [one if isinstance(one, dt.datetime) else dt.datetime(one.year, one.month, one.day) for one in moments]
    since, before = sorted([chance.choice(times), chance.choice(times)])
    if since == before:
        return None, (since, None)
    return None, chance.choice([(since, before), (since, None), (None, before)])


def _draw_others(chance: random.Random, settings: dict[str, Any], words: set[str], method: str) -> None:
    if method in ("signature", "exact") and (drawn := chance.choice([None, True, False])) is not None:
        settings["prescan"] = drawn
        words.add(f"prescan {str(drawn).lower()}")
    if method == "exact":
        settings["t"] = chance.choice([1, 2, 3, 3, 3, 8, 16])
        words.add(f"t {'1' if settings['t'] == 1 else '3' if settings['t'] <= 3 else 'more'}")
        settings["bits"] = chance.choice([60, 60, 60, 120])
        if chance.random() < 0.1:
            settings["k"] = chance.choice([1, 4, 16])
    if chance.random() < 0.1 and method != "counts":
        settings["snapshot"] = chance.choice(["whole", "per_chunk"])
        words.add(f"snapshot {settings['snapshot']}")
    if chance.random() < 0.3:
        settings["allow_empty"] = True


def _columns(
    world: World,
    tolerances: dict[int, tuple[str, float]],
    folds: dict[int, dict[str, Any]],
    masks: frozenset[int],
    excludes: frozenset[int],
) -> dict[str, Any]:
    override: dict[str, dict[str, Any]] = {}
    for index in masks:
        override.setdefault(world.columns[index].name, {})["mask"] = True
    for index, (measure, most) in tolerances.items():
        override.setdefault(world.columns[index].name, {})["tolerance"] = {measure: most}
    for index, rule in folds.items():
        override.setdefault(world.columns[index].name, {}).update(rule)
    return {"exclude": [world.columns[index].name for index in sorted(excludes)], "override": override}
