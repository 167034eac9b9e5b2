"""Random portable filters over the columns of random tables, each with its meaning in plain Python."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.deep.tables import Row, World

Holds = Callable[[Row], bool | None]
"""What a condition yields for what is compared of a row: True, False, or None for unknown."""

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """A filter as it is written, and its meaning."""

    text: str
    holds: Holds


def draw_condition(chance: random.Random, world: World, depth: int = 2) -> Condition | None:
    """Return a filter over a world's columns; None where none of them can be filtered by its value."""
    if depth and chance.random() < 0.35:
        return _joined(chance, world, depth - 1)
    places = [index for index, column in enumerate(world.columns) if column.sort.is_filtered]
    if not places:
        return None
    if chance.random() < 0.15:
        return _null(chance, world)
    index = chance.choice(places)
    if chance.random() < 0.2:
        return _listed(chance, world, index)
    value = _value(chance, world, index)
    sign = chance.choice(list(COMPARE))
    return Condition(f"{_name(world, index)} {sign} {_literal(world, index, value)}", _compares(index, sign, value))


def _joined(chance: random.Random, world: World, depth: int) -> Condition | None:
    left, right = (draw_condition(chance, world, depth) for _ in range(2))
    if left is None or right is None:
        return None
    match chance.choice(["AND", "OR", "NOT"]):
        case "AND":
            return Condition(f"({left.text} AND {right.text})", lambda row: _and(left.holds(row), right.holds(row)))
        case "OR":
            return Condition(f"({left.text} OR {right.text})", lambda row: _not(_and(_not(left.holds(row)), _not(right.holds(row)))))
    return Condition(f"NOT ({left.text})", lambda row: _not(left.holds(row)))


def _null(chance: random.Random, world: World) -> Condition:
    index, negated = chance.randrange(len(world.columns)), chance.random() < 0.5
    return Condition(f"{_name(world, index)} IS {'NOT ' if negated else ''}NULL", lambda row: (row[index] is None) != negated)


def _listed(chance: random.Random, world: World, index: int) -> Condition:
    values = [_value(chance, world, index) for _ in range(chance.randint(1, 4))]
    negated, written = chance.random() < 0.4, ", ".join(_literal(world, index, value) for value in values)

    def holds(row: Row) -> bool | None:
        return None if row[index] is None else (row[index] in values) != negated

    return Condition(f"{_name(world, index)} {'NOT ' if negated else ''}IN ({written})", holds)


def _compares(index: int, sign: str, value: Any) -> Holds:
    return lambda row: None if row[index] is None else COMPARE[sign](row[index], value)


def _and(left: bool | None, right: bool | None) -> bool | None:
    return False if False in (left, right) else None if None in (left, right) else True


def _not(found: bool | None) -> bool | None:
    return None if found is None else not found


def _value(chance: random.Random, world: World, index: int) -> Any:
    """Return what is compared of a value that a row has, or of a new one."""
    column = world.columns[index]
    present = [row[index] for row in world.rows["source"] if row[index] is not None]
    value = chance.choice(present) if present and chance.random() < 0.7 else column.sort.draw(chance)
    return column.sort.compared(value, column.pair, world.engines[1])


def _literal(world: World, index: int, value: Any) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else world.columns[index].sort.literal(value)


def _name(world: World, index: int) -> str:
    return '"' + world.columns[index].name.replace('"', '""') + '"'
