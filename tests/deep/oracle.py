"""What an audit of two tables has to find, in plain Python: the rows of both sides, and what may be said of them.

The rules are those of the documentation: ``docs/equality.md``, ``docs/live-tables.md`` and ``docs/limits.md``.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from auditor.model import SIDES, Side, Verdict
from dialects import Kind
from tests.deep.columns import WIDE
from tests.deep.features import Features
from tests.deep.tables import Row, Rows, World

Key = tuple[str | None, ...]
FOLDED = {"lower": str.maketrans(ascii_uppercase, ascii_lowercase), "upper": str.maketrans(ascii_lowercase, ascii_uppercase)}


@dataclass(frozen=True)
class Expected:
    """What an audit has to find."""

    rows: dict[Side, int]
    """How many rows of each side are compared."""
    named: dict[Key, tuple[str, int]]
    """What differs by key, as a report writes keys: missing, extra or changed, and how many rows."""
    strict: bool
    """Whether rows differ without regard to tolerances."""
    levelled: bool
    """Whether a column with a tolerance has other digits in the target: rounded to its grid, a value may differ from what became of it."""
    sums_differ: bool
    """Whether the method counts has to notice: by the numbers of rows and of NULLs, or by sums of whole numbers."""
    excused: frozenset[Key] = frozenset()
    """Keys that differ, and whose row in the source is in flight: nothing is claimed of them."""
    doubtful: frozenset[Key] = frozenset()
    """Keys that differ, and of which it depends on the order of filter and watermark whether they count."""
    restless: frozenset[Key] = frozenset()
    """Keys that differ, and whose row is young in the target alone: such a difference is believed at the second look, or unsettled."""
    young_there: int = 0
    """How many rows of the target alone are young: where a range is looked at row by row, they are listed as unsettled."""
    young: int = 0
    """How many rows of the source are in flight."""
    allowed: frozenset[Verdict] = field(default=frozenset())
    """The verdicts that are right."""

    @property
    def counts(self) -> Counter[str]:
        """Return how many rows are missing, extra and changed."""
        found: Counter[str] = Counter()
        for kind, rows in self.named.values():
            found[kind] += rows
        return found


def expect(world: World, features: Features, rows: dict[Side, Rows]) -> Expected:
    """Return what an audit of these rows has to find."""
    settled: dict[Side, Rows] = {}
    young: Counter[Key] = Counter()
    unsettled_elsewhere = set()
    for side in SIDES:
        settled[side] = [row for row in rows[side] if _selected(world, features, row) and _settled(world, features, row)]
    for row in rows["source"]:
        if not _settled(world, features, row):
            key = key_text(world, row)
            if _selected(world, features, row):
                young[key] += 1
            else:
                unsettled_elsewhere.add(key)
    seen = {side: [(row, _seen(world, features, row)) for row in settled[side]] for side in SIDES}
    named, strict = _differences(world, features, seen)
    young_there = {key_text(world, row) for row in rows["target"] if not _settled(world, features, row)}
    excused = frozenset(key for key in named if key in young and _explains(world, features, rows, key, young[key]))
    doubtful = frozenset(key for key in named if key in unsettled_elsewhere and key not in young)
    found = Expected(
        rows={side: len(settled[side]) for side in SIDES},
        named={key: what for key, what in named.items() if key not in excused},
        strict=strict,
        levelled=any(world.columns[index].pair[0] != world.columns[index].pair[1] for index in features.tolerances),
        sums_differ=_sums_differ(world, features, seen),
        excused=excused,
        doubtful=doubtful,
        restless=frozenset(key for key in named if key in young_there and key not in excused | doubtful),
        young_there=len(young_there - {key_text(world, row) for row in rows["source"]}),
        young=sum(young.values()),
    )
    return _with_verdicts(features, found)


def _explains(world: World, features: Features, rows: dict[Side, Rows], key: Key, young: int) -> bool:
    """Return whether so many young rows of the source can explain the difference of a key, which several rows may have.

    They can where the target has all settled rows of the source, and no more rows beside them than these: an older version of each.
    """
    of_key = {side: [row for row in rows[side] if key_text(world, row) == key and _selected(world, features, row)] for side in SIDES}
    of_key["source"] = [row for row in of_key["source"] if _settled(world, features, row)]
    over, _ = _differences(world, features, {side: [(row, _seen(world, features, row)) for row in of_key[side]] for side in SIDES})
    return all(kind == "extra" and count <= young for kind, count in over.values())


def _with_verdicts(features: Features, found: Expected) -> Expected:
    """Return what is expected with the verdicts that are right."""
    match, mismatch, unknown = Verdict.MATCH, Verdict.MISMATCH, Verdict.UNKNOWN
    if not any(found.rows.values()):
        allowed = {match} if features.settings.get("allow_empty") else {unknown}
        return _allow(found, allowed | ({match, unknown} if found.young else set()))
    certain = [what for key, what in found.named.items() if key not in found.doubtful | found.restless]
    differing = sum(rows for _, rows in certain)
    restless = sum(found.named[key][1] for key in found.restless)
    most = features.rows_allowed or 0
    if features.method == "exact":
        allowed = {mismatch} if differing > most else {match}
        if found.doubtful and differing <= most < differing + sum(found.named[key][1] for key in found.doubtful):
            allowed |= {match, mismatch}
        if differing <= most < differing + restless:
            allowed = (allowed if found.doubtful else set()) | {mismatch, unknown}
        if differing > most and (found.young or restless) and features.rows_allowed is not None:
            allowed.add(unknown)
        return _allow(found, allowed)
    unclear = bool(found.excused or found.doubtful)
    if not found.strict:
        levelled = {match, mismatch} | ({unknown} if found.young else set())
        return _allow(found, levelled if found.levelled else {match})
    if not found.named:
        allowed = {unknown} if unclear else {match, mismatch}  # within tolerances, in two cells of the grid
    elif not certain:
        allowed = {unknown, mismatch} | ({match} if found.doubtful else set())
    else:
        allowed = {mismatch, unknown} if found.young else {mismatch}
    if features.method == "counts" and not found.sums_differ:
        allowed.add(match)
    if found.young:
        allowed.add(unknown)
    return _allow(found, allowed)


def _allow(found: Expected, allowed: set[Verdict]) -> Expected:
    return replace(found, allowed=frozenset(allowed))


# Which rows are compared


def _selected(world: World, features: Features, row: Row) -> bool:
    """Return whether the filter and the slice select a row."""
    if features.condition and features.condition.holds(world.compared(row)) is not True:
        return False
    if features.keys:
        first, last = features.keys
        key = row[0]
        if key is None or (first is not None and key < first) or (last is not None and key > last):
            return False
    if features.times:
        since, before = features.times
        assert features.timed is not None
        at = row[features.timed]
        if at is None:
            return False
        at = at if isinstance(at, dt.datetime) else dt.datetime(at.year, at.month, at.day)
        return not (since is not None and at < since) and not (before is not None and at >= before)
    return True


def _settled(world: World, features: Features, row: Row) -> bool:
    """Return whether a row is older than the watermark, or more than a day ahead of the clock."""
    if not features.settles:
        return True
    assert world.moved is not None
    at = row[world.moved]
    if at is None:
        return features.settles == "compare"
    return bool(at < world.now - dt.timedelta(hours=2) or at > world.now + dt.timedelta(days=2))


# What differs


def _seen(world: World, features: Features, row: Row) -> Row:
    """Return what of a row's values the audit compares, with the rules of its columns."""
    found = list(world.compared(row))
    for index, rule in features.folds.items():
        found[index] = _fold(found[index], row[index], rule)
    return tuple(value for index, value in enumerate(found) if index not in features.excludes)


def _fold(value: Any, stored: Any, rule: dict[str, Any]) -> Any:
    if value is None:
        return rule.get("null_as")
    if "round" in rule:
        return Decimal(stored).quantize(Decimal(1).scaleb(-rule["round"]), ROUND_HALF_UP, WIDE) + 0
    if rule.get("kind") == "timestamp(0)":
        return value.replace(microsecond=0)
    if rule.get("trim"):
        value = value.strip(" ")
    return value.translate(FOLDED[rule["case"]]) if "case" in rule else value


def _differences(world: World, features: Features, seen: dict[Side, list[tuple[Row, Row]]]) -> tuple[dict[Key, tuple[str, int]], bool]:
    """Return what differs by key, and whether anything does without regard to tolerances."""
    by_key: dict[Row, dict[Side, Counter[Row]]] = defaultdict(lambda: {side: Counter() for side in SIDES})
    texts: dict[Row, Key] = {}
    for side in SIDES:
        for row, values in seen[side]:
            by_key[values[: world.keys]][side][values] += 1
            texts.setdefault(values[: world.keys], key_text(world, row))
    included = [index for index in range(len(world.columns)) if index not in features.excludes]
    tolerances = {included.index(index): rule for index, rule in features.tolerances.items()}
    named, strict = {}, False
    for key, sides in by_key.items():
        left = {"source": sides["source"] - sides["target"], "target": sides["target"] - sides["source"]}
        counts = [sum(rows.values()) for rows in left.values()]
        if not any(counts):
            continue
        strict = True
        if counts == [1, 1] and tolerances and _within(next(iter(left["source"])), next(iter(left["target"])), tolerances):
            continue
        kind = "changed" if all(counts) else "missing" if counts[0] else "extra"
        named[texts[key]] = (kind, max(counts))
    return named, strict


def _within(source: Row, target: Row, tolerances: dict[int, tuple[str, float]]) -> bool:
    """Return whether two rows of one key differ only within the tolerances of their columns."""
    for index, (a, b) in enumerate(zip(source, target, strict=True)):
        if a == b:
            continue
        if index not in tolerances or a is None or b is None:
            return False
        measure, most = tolerances[index]
        one, other = _number(a), _number(b)
        if one is None or other is None:
            return False
        allowed = Fraction(repr(most)) * (max(abs(one), abs(other)) if measure == "relative" else 1)
        if abs(one - other) > allowed:
            return False
    return True


def _number(value: Any) -> Fraction | None:
    if isinstance(value, dt.datetime):
        return Fraction((value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1), 10**6)
    if isinstance(value, float):
        return Fraction(repr(value)) if math.isfinite(value) else None
    return Fraction(value)


def _sums_differ(world: World, features: Features, seen: dict[Side, list[tuple[Row, Row]]]) -> bool:
    """Return whether the numbers of rows, of NULLs of a column, or the sum of a column of whole numbers differ."""
    source, target = ([values for _, values in seen[side]] for side in SIDES)
    if len(source) != len(target):
        return True
    included = [column for index, column in enumerate(world.columns) if index not in features.excludes]
    for place, column in enumerate(included):
        one, other = ([row[place] for row in rows if row[place] is not None] for rows in (source, target))
        if len(one) != len(other):
            return True
        if column.sort.name in ("whole", "unsigned", "year") and sum(one) != sum(other):
            return True
    return False


# How a report writes keys


def key_text(world: World, row: Row) -> Key:
    """Return a row's key as a report writes it."""
    return tuple(_text(value, column.pair[1]) for value, column in zip(world.key(row), world.columns, strict=False))


def _text(value: Any, target: Kind) -> str | None:
    if value is None:
        return None
    if isinstance(value, Decimal):
        return f"{value:f}"
    return f"{value} 00:00:00" if isinstance(value, dt.date) and target.name == "timestamp" else str(value)
