"""Random pairs of tables: their columns and keys, their rows as Python values, and what was damaged in the target."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dialects
from auditor.model import SIDES, Side
from auditor.testing.columns import catalogue_kind
from dialects import Kind
from tests.deep import columns as sorts
from tests.deep.columns import BY_NAME, MILLIS, MOMENT, SORTS, Pair, Sort
from tests.deep.names import FIRST, TAKEN

Row = tuple[Any, ...]
Rows = list[Row]

DIALECTS = {"mariadb": "mysql"}
"""The dialect of an engine whose name is not that of its dialect."""

DUCKDB_MILLIS = "TIMESTAMP_MS"
"""DuckDB's type of times of three digits; what its dialect makes of that kind has six."""

NAMES = (
    "Größe",
    "order",
    "a b",
    "Mixed",
    "select",
    "x.y",
    "it's",
    "col",
    "b",
    "note",
    "amount",
    "day_of",
    "_u",
    "group",
    "index",
    "desc",
    "zone",
)
"""Names of columns that are no name of ours."""

SHORT = ("whole", "price", "word", "label", "day", "moment", "truth", "id", "double", "flags", "year", "instant")
"""Sorts of columns whose texts are short; all texts that they draw are."""

MOVED = Sort("moved", ((MOMENT, MOMENT),), lambda chance: dt.datetime(2024, 1, 1), lambda value, *_: value, is_filtered=False)
"""The time of a row's last change, whose values are drawn relative to the clock."""


@dataclass(frozen=True)
class Column:
    """A column of both tables."""

    name: str
    renamed: str
    """Its name in the target."""
    sort: Sort
    pair: Pair
    is_short: bool = False
    """Whether texts are of a type that states a length, so that the longest text of a row is known."""

    def kind(self, side: Side) -> Kind:
        """Return the kind of a side's column."""
        return self.pair[side == "target"]

    def native(self, side: Side, dialect: dialects.Dialect) -> str:
        """Return the type of a side's column."""
        if self.kind(side) == MILLIS and dialect.name == "duckdb":
            return DUCKDB_MILLIS
        found = dialect.types.native_type(self.kind(side))
        if not self.is_short or self.kind(side).name != "text":
            return found
        return "VARCHAR(60) CHARACTER SET utf8mb4" if "CHARACTER SET" in found else "VARCHAR(60)"

    def name_in(self, side: Side) -> str:
        """Return the name of a side's column."""
        return self.renamed if side == "target" else self.name


@dataclass(frozen=True)
class World:
    """Two tables, and all that is known of them."""

    seed: int
    engines: tuple[str, str]
    """The names of the source's engine and of the target's."""
    columns: tuple[Column, ...]
    """The columns of the key come first."""
    keys: int
    """How many columns the key has."""
    rows: dict[Side, Rows]
    """Each side's rows, in the order of ``columns``."""
    is_primary: bool
    """Whether both tables declare the key as their primary key."""
    not_null: frozenset[int]
    """Columns that both tables declare as NOT NULL."""
    order: tuple[int, ...]
    """The order of the target's columns."""
    damage: str
    """What was done to the target."""
    now: dt.datetime
    """The clock when the rows were drawn, in UTC."""
    is_taken: bool
    """Whether the columns bear names that statements of audits used for themselves."""

    @property
    def moved(self) -> int | None:
        """The column that says when a row last changed."""
        return next((index for index, column in enumerate(self.columns) if column.sort is MOVED), None)

    @property
    def is_unique(self) -> bool:
        """Whether no key occurs twice on a side, as audits compare keys."""
        return all(len({self.key(row) for row in self.rows[side]}) == len(self.rows[side]) for side in SIDES)

    def compared(self, row: Row) -> Row:
        """Return what is compared of a row's values."""
        return tuple(
            column.sort.compared_or_null(value, column.pair, self.engines[1]) for column, value in zip(self.columns, row, strict=True)
        )

    def key(self, row: Row) -> Row:
        """Return what is compared of a row's key."""
        return self.compared(row)[: self.keys]


def draw_world(seed: int, engines: tuple[str, str]) -> World:
    """Return the tables of a seed."""
    chance = random.Random(f"{seed} {engines}")
    is_taken = seed % 8 == 0
    columns, keys = _draw_columns(chance, engines, is_taken)
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
    source = _draw_rows(chance, columns, keys, now)
    world = World(seed, engines, tuple(columns), keys, {"source": source, "target": []}, False, frozenset(), (), "none", now, is_taken)
    target = [_stored(world, row) for row in source]
    damage = "none"
    if chance.random() < 0.7:
        name = chance.choice(sorted(DAMAGES))
        target, damage = DAMAGES[name](chance, world, target), name
    rows: dict[Side, Rows] = {"source": source, "target": target}
    order = list(range(len(columns)))
    if chance.random() < 0.5:
        chance.shuffle(order)
    full = [index for index in range(len(columns)) if all(row[index] is not None for side in SIDES for row in rows[side])]
    not_null = frozenset(index for index in full if index < keys or chance.random() < 0.3)
    world = replace(world, rows=rows, not_null=not_null, order=tuple(order), damage=damage)
    may_be_primary = set(range(keys)) <= not_null and all(
        column.sort.name in ("whole", "unsigned", "day", "price") for column in columns[:keys]
    )
    if may_be_primary and world.is_unique and chance.random() < 0.75:
        return replace(world, is_primary=True)
    return world


def dialect_of(engine: str) -> dialects.Dialect:
    """Return the dialect of an engine under test."""
    return dialects.get(DIALECTS.get(engine, engine))


def can_store(engine: str, kind: Kind) -> bool:
    """Return whether an engine has a type for a kind, and with as many digits after the point."""
    try:
        found = catalogue_kind(dialect_of(engine), kind)
    except LookupError:
        return False
    return kind.name != "timestamp" or found.scale == kind.scale or (kind == MILLIS and engine == "duckdb")


def pairs_on(sort: Sort, engines: tuple[str, str]) -> list[Pair]:
    """Return the pairs of a sort that two engines can store."""
    return [pair for pair in sort.pairs if all(can_store(engine, kind) for engine, kind in zip(engines, pair, strict=True))]


def _draw_columns(chance: random.Random, engines: tuple[str, str], is_taken: bool) -> tuple[list[Column], int]:
    is_short = chance.random() < (
        0.6 if is_taken else 0.3
    )  # as a pre-scan by digests needs: one whole key, and columns whose texts are known to be short
    one = "whole" if is_short else chance.choices(["whole", "unsigned", "word", "id", "day", "price"], [60, 10, 12, 8, 5, 5])[0]
    drawn = [BY_NAME[one]]
    if chance.random() < 0.2 and not is_short:
        keyed = [sort for sort in SORTS if sort.is_key]
        drawn = chance.choices(keyed, k=chance.randint(2, 3))
    keys = len(drawn)
    drawn += chance.choices([BY_NAME[name] for name in SHORT] if is_short else SORTS, k=chance.randint(1, 6))
    if chance.random() < 0.3:
        drawn.append(MOVED)
    drawn = [sort for index, sort in enumerate(drawn) if pairs_on(sort, engines) or index < keys]
    drawn += [BY_NAME["free"]] if len(drawn) == keys else []
    taken = TAKEN if chance.random() < 0.5 else FIRST
    pool = list(taken) if is_taken else [*NAMES, *(f"c{number}" for number in range(9))]
    names = chance.sample(pool, 2 * len(drawn))
    renamed = names[: len(drawn)] if chance.random() < 0.7 else names[len(drawn) :]
    found = [
        Column(
            name,
            other,
            sort,
            _draw_pair(chance, sort, engines, is_short and index == 0),
            sort.name in SHORT and (is_short or chance.random() < 0.2),
        )
        for index, (name, other, sort) in enumerate(zip(names[: len(drawn)], renamed, drawn, strict=True))
    ]
    return found, keys


def _draw_pair(chance: random.Random, sort: Sort, engines: tuple[str, str], is_first: bool) -> Pair:
    """Return kinds of a column; those of the same kind on both sides if they are to be the first of the sort."""
    found = pairs_on(sort, engines)
    return found[0] if is_first else chance.choice(found)


def _draw_rows(chance: random.Random, columns: Sequence[Column], keys: int, now: dt.datetime) -> Rows:
    count = chance.choices([0, chance.randint(1, 6), chance.randint(8, 60), chance.randint(61, 400), 2_500], [2, 13, 65, 19, 1])[0]
    nulls = {index: chance.choice([0.0, 0.0, 0.1, 0.5]) for index in range(len(columns))}
    for index in range(keys):
        nulls[index] = 0.06 if chance.random() < 0.2 and not columns[1].is_short else 0.0
    dense, first, step = chance.random() < 0.7, chance.choice([0, 1, 1, -50, 10**6, -(2**40)]), chance.choice([1, 1, 1, 3, 10])
    doubled = chance.random() < 0.1 and not columns[1].is_short
    found: dict[Any, Row] = {}
    for number in range(count):
        row = []
        for index, column in enumerate(columns):
            value = _draw_value(chance, column, now)
            if index == 0 and dense and column.sort.name in ("whole", "unsigned"):
                value = (abs(first) if column.sort.name == "unsigned" else first) + number * step
            row.append(None if chance.random() < nulls[index] else value)
        found[number if doubled or None in row[:keys] else tuple(row[:keys])] = tuple(row)
    rows = list(found.values())
    if doubled and rows:
        rows += [chance.choice(rows) for _ in range(chance.randint(1, 3))]
        rows += [(*chance.choice(rows)[:keys], *chance.choice(rows)[keys:]) for _ in range(chance.randint(0, 3))]
    return rows


def _draw_value(chance: random.Random, column: Column, now: dt.datetime) -> Any:
    if column.sort is not MOVED:
        return sorts.held(column.sort.draw(chance), column.pair[0])
    drawn = chance.random()
    if drawn < 0.8:
        return now - dt.timedelta(days=chance.randint(2, 60), seconds=chance.randint(0, 86_399))
    if drawn < 0.95:
        return now + dt.timedelta(seconds=chance.randint(-1200, 36_000))
    return now + dt.timedelta(days=chance.randint(3, 30))


def _stored(world: World, row: Row) -> Row:
    """Return a row of the source as a correct pipeline stores it in the target."""
    return tuple(
        None if value is None else column.sort.store(value, column.pair, world.engines[1])
        for column, value in zip(world.columns, row, strict=True)
    )


# Damage of the target


def _with_value(chance: random.Random, world: World, row: Row, index: int) -> Row:
    """Return a row with another value, mostly, in one column."""
    column = world.columns[index]
    new = None if index >= world.keys and chance.random() < 0.2 else _near_or_new(chance, world, row, index)
    stored = None if new is None else column.sort.store(new, column.pair, world.engines[1])
    return (*row[:index], stored, *row[index + 1 :])


def _near_or_new(chance: random.Random, world: World, row: Row, index: int) -> Any:
    column, value = world.columns[index], row[index]
    if value is not None and chance.random() < 0.4:
        if column.sort.name in ("free", "odd", "word"):
            return chance.choice([value.swapcase(), value + " ", value[1:], " " + value])
        if column.sort.name == "moment" and value.year > 1:
            return value + dt.timedelta(microseconds=chance.choice([1000, -1000, 2_000_000]))
        if column.sort.name in ("price", "whole") and abs(value) < 10**7:
            return value + 1
    return _draw_value(chance, column, world.now)


def _changed(chance: random.Random, world: World, rows: Rows, count: int) -> Rows:
    found = list(rows)
    others = range(world.keys, len(world.columns))
    for place in chance.sample(range(len(rows)), min(count, len(rows))):
        found[place] = _with_value(chance, world, found[place], chance.choice(others))
    return found


def _missing(chance: random.Random, _world: World, rows: Rows) -> Rows:
    gone = set(chance.sample(range(len(rows)), min(chance.randint(1, 4), len(rows))))
    return [row for place, row in enumerate(rows) if place not in gone]


def _extra(chance: random.Random, world: World, rows: Rows) -> Rows:
    more = []
    for _ in range(chance.randint(1, 4)):
        row = tuple(_draw_value(chance, column, world.now) for column in world.columns)
        more.append(_stored(world, row))
    return rows + more


def _gap(chance: random.Random, _world: World, rows: Rows) -> Rows:
    first = chance.randint(0, len(rows))
    return rows[:first] + rows[first + chance.randint(1, 60) :]


def _other_keys(chance: random.Random, world: World, rows: Rows) -> Rows:
    found = list(rows)
    for place in chance.sample(range(len(rows)), min(2, len(rows))):
        found[place] = _with_value(chance, world, found[place], chance.randrange(world.keys))
    return found


def _exchanged(chance: random.Random, world: World, rows: Rows) -> Rows:
    """Return rows of which two have each other's values."""
    if len(rows) < 2:
        return rows
    found = list(rows)
    one, other = chance.sample(range(len(rows)), 2)
    found[one], found[other] = (
        (*rows[one][: world.keys], *rows[other][world.keys :]),
        (*rows[other][: world.keys], *rows[one][world.keys :]),
    )
    return found


def _several(chance: random.Random, world: World, rows: Rows) -> Rows:
    for name in chance.sample(["changed", "missing", "extra", "gap", "exchanged", "twice"], 3):
        rows = DAMAGES[name](chance, world, rows)
    return rows


DAMAGES: dict[str, Callable[[random.Random, World, Rows], Rows]] = {
    "changed": lambda chance, world, rows: _changed(chance, world, rows, chance.randint(1, 3)),
    "many changed": lambda chance, world, rows: _changed(chance, world, rows, chance.randint(5, 200)),
    "missing": _missing,
    "extra": _extra,
    "gap": _gap,
    "twice": lambda chance, world, rows: rows + [chance.choice(rows) for _ in range(chance.randint(1, 3)) if rows],
    "other keys": _other_keys,
    "exchanged": _exchanged,
    "several": _several,
    "all gone": lambda chance, world, rows: [] if chance.random() < 0.3 else rows[: len(rows) // 2],
}
"""What can be done to the rows of a target, by name."""
